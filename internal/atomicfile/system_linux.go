package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openUnnamed opens a file that has no name yet: a crash leaves nothing behind.
func openUnnamed(d *os.File, perm fs.FileMode) (*os.File, error) {
	fd, err := openRetry(int(d.Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, uint32(perm.Perm()))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), d.Name()), nil
}

func linkUnnamed(f, d *os.File, base string) error {
	from := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	return unix.Linkat(unix.AT_FDCWD, from, int(d.Fd()), base, unix.AT_SYMLINK_FOLLOW)
}

func renameNoReplace(d *os.File, temp, base string) error {
	fd := int(d.Fd())
	return unix.Renameat2(fd, temp, fd, base, unix.RENAME_NOREPLACE)
}

// openBeneath opens rel below d. The kernel refuses every symlink and every way out; where it does not know how, or a
// container filter forbids the call, the walk does.
func openBeneath(d *os.File, rel string, flags int) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for range 8 {
		fd, err := unix.Openat2(int(d.Fd()), rel, &how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			return walkBeneath(d, rel, flags)
		}
		return fd, err
	}
	return walkBeneath(d, rel, flags)
}
