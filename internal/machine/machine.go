// Package machine owns the facts about this computer that ferry decides and reports with: load, memory, disk, clock, name.
//
// It promises to report what the system says at the moment of the call, and errors.ErrUnsupported where a system does not
// say it. It never guesses, never caches, and never changes anything.
package machine

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DiskFree returns how many bytes an ordinary user can still write on the filesystem of path, and which part of it that is.
func DiskFree(path string) (bytes int64, fraction float64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", path, err)
	}
	if st.Blocks > 0 {
		fraction = float64(st.Bavail) / float64(st.Blocks)
	}
	return int64(st.Bavail) * int64(st.Bsize), fraction, nil
}

// Name returns the first part of the host name as a label of a-z, 0-9 and "-", at most 32 long. Two machines may have the
// same one.
func Name() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return Label(host)
}

// Label makes a label of a-z, 0-9 and single "-" out of the first part of a host name. It is "machine" when nothing is left.
func Label(host string) string {
	const longest = 32
	first, _, _ := strings.Cut(host, ".")
	var out strings.Builder
	for _, r := range strings.ToLower(first) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			out.WriteRune(r)
		} else if s := out.String(); s != "" && !strings.HasSuffix(s, "-") {
			out.WriteByte('-')
		}
		if out.Len() == longest {
			break
		}
	}
	if label := strings.Trim(out.String(), "-"); label != "" {
		return label
	}
	return "machine"
}

// User returns the login name of the user that ferry runs as, or the number where it has no name.
func User() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}
