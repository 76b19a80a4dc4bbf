package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// loadCredentials reads .ferry/credentials.json: the variables that an engine
// gets beside the allow-list. A file that others may read is refused. A
// missing file is no credentials.
func loadCredentials(dir string) (map[string]string, error) {
	path := filepath.Join(dir, localDir, credentialsFile)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, faultf(classConfig, "chmod 600 "+path, "%s has mode %04o: others can read it", path, info.Mode().Perm())
	}
	var creds map[string]string
	if err := readJSON(path, &creds); err != nil {
		return nil, fault(classConfig, `it is one JSON object of strings: {"NAME": "value"}`, hideJSON(path, err))
	}
	return creds, nil
}

// hideJSON keeps what a JSON error quotes of the file out of the message.
func hideJSON(path string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%s is not one JSON object of strings", path)
}
