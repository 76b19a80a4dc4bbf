package worktree

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// maxURL is the length in bytes of the longest URL of a remote.
const maxURL = 2048

// address is where a remote is. Protocol is what git calls it, and the only one that git may use to get there.
type address struct {
	url      string
	shown    string // without what names an account
	protocol string // https, ssh or file
}

// parseAddress takes https and ssh URLs, ssh in its short form host:path, and paths. A relative path begins at dir.
func parseAddress(s, dir string) (address, error) {
	switch {
	case s == "" || len(s) > maxURL || strings.HasPrefix(s, "-"):
		return address{}, fmt.Errorf("%w: %q is no URL", ErrRemoteURL, visible(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		return address{}, fmt.Errorf("%w: %s holds a control character", ErrRemoteURL, visible(s))
	case strings.Contains(s, "://"):
		return parseURL(s)
	}
	host, path, colon := strings.Cut(s, ":")
	if colon && strings.HasPrefix(path, ":") {
		return address{}, fmt.Errorf("%w: %s names a helper program", ErrRemoteURL, visible(s))
	}
	if colon && !strings.Contains(host, "/") {
		_, name, user := strings.Cut(host, "@")
		if !user {
			name = host
		}
		if name == "" || path == "" || strings.HasPrefix(name, "-") || strings.HasPrefix(path, "-") {
			return address{}, fmt.Errorf("%w: %s is no host:path", ErrRemoteURL, visible(s))
		}
		return address{url: s, shown: visible(s), protocol: "ssh"}, nil
	}
	if !filepath.IsAbs(s) {
		s = filepath.Join(dir, s)
	}
	return localAddress(s)
}

func parseURL(s string) (address, error) {
	u, err := url.Parse(s)
	if err != nil {
		return address{}, fmt.Errorf("%w: it cannot be read as one", ErrRemoteURL) // the cause would repeat a password
	}
	if _, secret := u.User.Password(); secret {
		return address{}, fmt.Errorf("%w: it holds a password; give that to a credential helper, and take it out of the URL", ErrRemoteURL)
	}
	shown := *u
	switch u.Scheme {
	case "https":
		shown.User = nil
	case "ssh":
	case "file":
		if u.Host != "" {
			return address{}, fmt.Errorf("%w: %s names a host", ErrRemoteURL, visible(s))
		}
		return localAddress(u.Path)
	default:
		return address{}, fmt.Errorf("%w: %s is reached by %s; want https, ssh or a path", ErrRemoteURL, visible(shown.Redacted()), visible(u.Scheme))
	}
	if u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-") {
		return address{}, fmt.Errorf("%w: %s names no host", ErrRemoteURL, visible(shown.String()))
	}
	return address{url: s, shown: visible(shown.String()), protocol: u.Scheme}, nil
}

func localAddress(path string) (address, error) {
	full, err := filepath.EvalSymlinks(path)
	if err != nil {
		return address{}, fmt.Errorf("%w: %s: there is no such repository", ErrRemoteURL, visible(path))
	}
	if info, err := os.Stat(full); err != nil || !info.IsDir() {
		return address{}, fmt.Errorf("%w: %s is no directory", ErrRemoteURL, visible(path))
	}
	return address{url: full, shown: visible(full), protocol: "file"}, nil
}

// findAddress gives the address of a remote by its name in the person's repository, or of what is no name at all.
func (g *Gate) findAddress(ctx context.Context, p account, name string) (address, error) {
	dir := g.top
	if dir == "" {
		dir = g.common
	}
	if name == "" || strings.HasPrefix(name, "-") {
		return address{}, fmt.Errorf("%w: %q is no remote", ErrRemoteURL, visible(name))
	}
	a, err := address{}, error(nil)
	if out, getErr := p.git(ctx, "-C", dir, "remote", "get-url", "--push", name); getErr == nil {
		a, err = parseAddress(strings.TrimSuffix(out, "\n"), dir)
	} else if exitCode(getErr) < 0 {
		return a, getErr
	} else if strings.ContainsAny(name, ":/") {
		a, err = parseAddress(name, dir)
	} else {
		return a, fmt.Errorf("%w: the repository has no remote %s; `git remote -v` lists them", ErrRemoteURL, visible(name))
	}
	if err == nil && (a.url == g.common || filepath.Join(a.url, ".git") == g.common) {
		err = fmt.Errorf("%w: %s is the repository itself", ErrRemoteURL, a.shown)
	}
	return a, err
}
