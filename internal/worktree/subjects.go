package worktree

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// tip returns the commit that the engine's HEAD names and the directory of the engine's objects. The private repository
// is read as data: plain files of a bounded size, no symlinks. It returns "" when there is nothing that can be shown.
func (t *Tree) tip() (ferry.Commit, string) {
	if info, err := os.Lstat(t.Repo()); err != nil || !info.IsDir() {
		return "", ""
	}
	root, err := atomicfile.OpenRoot(t.Repo())
	if err != nil {
		return "", ""
	}
	defer root.Close()
	if info, err := root.Stat("objects"); err != nil || !info.IsDir() {
		return "", ""
	}
	const small = 4096
	head, _, err := root.ReadFile("worktrees/work/HEAD", small)
	if err != nil {
		return "", ""
	}
	value := strings.TrimSpace(string(head))
	if ref, ok := strings.CutPrefix(value, "ref: "); ok {
		if badRef(ref) {
			return "", ""
		}
		loose, _, err := root.ReadFile(ref, small)
		if value = strings.TrimSpace(string(loose)); err != nil {
			packed, _, err := root.ReadFile("packed-refs", 16<<20)
			if err != nil {
				return "", ""
			}
			value = packedRef(packed, ref)
		}
	}
	commit, err := ferry.ParseCommit(value)
	if err != nil || commit == t.Base() {
		return "", ""
	}
	return commit, filepath.Join(t.Repo(), "objects")
}

func packedRef(packed []byte, ref string) string {
	for line := range bytes.Lines(packed) {
		id, name, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		if ok && name == ref {
			return id
		}
	}
	return ""
}

// subjects returns the first lines of the engine's commits since the base, oldest first, safe to show.
func (s *shot) subjects() []string {
	const most, width = 20, 120
	data, err := atomicfile.ReadBounded(filepath.Join(s.dir, "out", "log"), 1<<20)
	if err != nil {
		return nil // no commits of its own, or none that git could read: they are a courtesy
	}
	var list []string
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan() && len(list) < most; {
		id, subject, _ := strings.Cut(sc.Text(), " ")
		if id == string(s.spec.Tree.Base()) {
			break
		}
		if s.spec.Hide != nil {
			subject = s.spec.Hide(subject)
		}
		list = append(list, clean(subject, width))
	}
	slices.Reverse(list)
	return list
}

// clean makes one printable line of at most width runes.
func clean(text string, width int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if runes := []rune(text); len(runes) > width {
		text = string(runes[:width]) + "..."
	}
	return strings.TrimSpace(text)
}
