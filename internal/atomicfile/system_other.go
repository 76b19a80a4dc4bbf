//go:build unix && !linux

package atomicfile

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed reports that this system has no unnamed files.
func openUnnamed(*os.File, fs.FileMode) (*os.File, error) { return nil, unix.ENOTSUP }

func linkUnnamed(*os.File, *os.File, string) error { return unix.ENOTSUP }

func renameNoReplace(*os.File, string, string) error { return unix.ENOTSUP }

func openBeneath(d *os.File, rel string, flags int) (int, error) { return walkBeneath(d, rel, flags) }
