package box

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// loginFile is one file of a login: its place below the home directory and its bytes.
type loginFile struct {
	rel  string
	data []byte
}

// readLogin reads the files that paths name below home. It follows no symbolic link.
func readLogin(home string, paths []string) ([]loginFile, error) {
	var files []loginFile
	total := 0
	add := func(path string) error {
		data, err := readPlain(path, maxLoginBytes-total)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(home, path)
		if err != nil {
			return err
		}
		if total += len(data); len(files) == maxLoginFiles {
			return fmt.Errorf("more than %d files: name the files instead of their directory", maxLoginFiles)
		}
		files = append(files, loginFile{rel: rel, data: data})
		return nil
	}
	for _, path := range paths {
		path = filepath.Clean(path)
		if path == home || !within(path, home) {
			return nil, fmt.Errorf("login %s: not below the home directory %s", path, home)
		}
		if err := walkLogin(path, add); err != nil {
			return nil, fmt.Errorf("login %s: %w", path, err)
		}
	}
	return files, nil
}

// walkLogin calls add for path, or for every plain file below it.
func walkLogin(path string, add func(string) error) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("it is a symbolic link: name what it points to")
	}
	return filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return add(p)
	})
}

// readPlain reads a regular file of at most limit bytes.
func readPlain(path string, limit int) ([]byte, error) {
	f, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, fmt.Errorf("more than %d MiB in all: name the files that the login needs", maxLoginBytes>>20)
	}
	return data, nil
}
