//go:build unix

package box

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openPlain opens a regular file for reading. It follows no link at the end of path and never blocks on a pipe.
func openPlain(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a plain file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
