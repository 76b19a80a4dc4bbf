package channel_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

const (
	widA = "aaaaaaaaaaaaaaaaaaaaaaaaaa"
	widB = "bbbbbbbbbbbbbbbbbbbbbbbbbb"
)

var hex32 = strings.Repeat("0a", 16)

func TestParsePath(t *testing.T) {
	for _, good := range []string{
		"w/" + widA + "/t/0001-0000000118-" + hex32 + ".fr",
		"w/" + widA + "/p/0001-0000000001-0000000256-" + hex32 + ".fp",
		"w/" + widA + "/beat",
		"w/" + widA + "/r/" + widB + "/t/9999-9999999999-" + hex32 + ".fr",
		"w/" + widA + "/r/" + widB + "/p/0002-0000000007-0000000007-" + hex32 + ".fp",
		"j/0123456789abcdef/" + widB + ".fj",
	} {
		if again, ok := channel.ParsePath(good); !ok || again != good {
			t.Errorf("%s is read as %q, %v", good, again, ok)
		}
	}
	for _, bad := range []string{
		"", "w", "/", "w/" + widA, "w/" + widA + "/", "w/" + widA + "/t", "w/" + widA + "/beat/", "w/" + widA + "/Beat", "w/" + widA + "/beat2",
		"w/" + strings.ToUpper(widA) + "/beat", "w/" + widA + "/t/0001-0000000118-" + strings.ToUpper(hex32) + ".fr",
		"w/" + widA + "/t/0001-0000000118-" + hex32 + ".fp", "w/" + widA + "/t/0000-0000000118-" + hex32 + ".fr",
		"w/" + widA + "/t/0001-0000000000-" + hex32 + ".fr", "w/" + widA + "/p/0001-0000000001-" + hex32 + ".fp",
		"w/" + widA + "/p/0001-0000000002-0000000001-" + hex32 + ".fp", "w/" + widA + "/p/0001-0000000001-0000004097-" + hex32 + ".fp",
		"w/" + widA + "/r/" + widA + "/t/0001-0000000118-" + hex32 + ".fr", "w/" + widA + "/r/" + widB + "/beat",
		"w/" + widA + "/r/" + widB + "/r/" + widA + "/t/0001-0000000118-" + hex32 + ".fr", "w/" + widA + "/../beat",
		"j/0123456789ABCDEF/" + widB + ".fj", "j/0123456789abcde/" + widB + ".fj", "j/0123456789abcdef/" + widB + ".fr",
		"j/0123456789abcdef/x/" + widB + ".fj", "x/" + widA + "/beat",
		"w/" + widA + "/t/0001-0000000118-" + hex32 + ".sync-conflict-20261130-120000-ABCDEF7.fr",
	} {
		if again, ok := channel.ParsePath(bad); ok {
			t.Errorf("%q is read as %q", bad, again)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	f.Add("w/" + widA + "/r/" + widB + "/p/0002-0000000007-0000000007-" + hex32 + ".fp")
	f.Add("j/0123456789abcdef/" + widB + ".fj")
	f.Add("w/" + widA + "/beat")
	f.Fuzz(func(t *testing.T, name string) {
		again, ok := channel.ParsePath(name)
		if ok && (again != name || !filepath.IsLocal(name) || filepath.Clean(name) != name) {
			t.Fatalf("%q is read as %q", name, again)
		}
	})
}

func TestPackFile(t *testing.T) {
	records := [][]byte{[]byte("one"), []byte("two\nend 1 sha256:x\n"), bytes.Repeat([]byte("x"), sign.MaxRecord)}
	file := channel.PackFile(records)
	got, err := channel.ParsePackFile(file)
	if diff := cmp.Diff(records, got); diff != "" || err != nil {
		t.Errorf("read back (-want +got, %v):\n%s", err, diff)
	}
	small := channel.PackFile(records[:2])
	for n := range small {
		if _, err := channel.ParsePackFile(small[:n]); !errors.Is(err, sign.ErrIncomplete) {
			t.Fatalf("cut at %d of %d: %v", n, len(small), err)
		}
	}
	for name, bad := range map[string][]byte{
		"something follows": append(bytes.Clone(small), 'x'),
		"a changed byte":    bytes.Replace(small, []byte("one"), []byte("One"), 1),
		"a zero before":     bytes.Replace(small, []byte("\n3\n"), []byte("\n03\n"), 1),
		"a plus":            bytes.Replace(small, []byte("\n3\n"), []byte("\n+3\n"), 1),
		"another count":     bytes.Replace(small, []byte("\nend 2 "), []byte("\nend 3 "), 1),
		"nothing in it":     channel.PackFile(nil),
		"another version":   bytes.Replace(small, []byte("pack 1"), []byte("pack 2"), 1),
		"a huge record":     []byte("ferry-pack 1\n99999999\n"),
		"too large":         make([]byte, 8<<20+1),
	} {
		if records, err := channel.ParsePackFile(bad); !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("%s: %d records, %v", name, len(records), err)
		}
	}
}

func FuzzParsePackFile(f *testing.F) {
	f.Add(channel.PackFile([][]byte{[]byte("one"), []byte("two")}))
	f.Add([]byte("ferry-pack 1\n3\none\nend 1 sha256:"))
	f.Fuzz(func(t *testing.T, file []byte) {
		records, err := channel.ParsePackFile(file)
		if err != nil {
			if !errors.Is(err, sign.ErrIncomplete) && !errors.Is(err, sign.ErrMalformed) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		if again := channel.PackFile(records); !bytes.Equal(again, file) {
			t.Fatalf("two spellings of one pack:\n%q\n%q", file, again)
		}
	})
}

// machine is another machine: it has a folder and a store of its own, and files travel when carry is called.
func machine(t *testing.T, s *site, limits channel.Limits) *site {
	t.Helper()
	dir := t.TempDir()
	m := &site{cfg: channel.Config{Folder: filepath.Join(dir, "folder"), State: filepath.Join(dir, "state"), Judge: judge, Limits: limits}}
	carry(t, s.cfg.Folder, m.cfg.Folder)
	c, err := channel.Open(t.Context(), m.cfg, s.ID())
	must1(t, err)
	m.Channel = c
	t.Cleanup(func() { must1(t, m.Close()) })
	m.refresh(t)
	return m
}

func (s *site) refresh(t *testing.T) channel.Report {
	t.Helper()
	r, err := s.Refresh(t.Context())
	must1(t, err)
	return r
}

// carry makes one folder like another: what is not there goes, as when the carrier has brought every change.
func carry(t *testing.T, from, to string) {
	t.Helper()
	must1(t, os.RemoveAll(to))
	must1(t, os.CopyFS(to, os.DirFS(from)))
}

// bring adds what one folder has to another.
func bring(t *testing.T, from, to string) {
	t.Helper()
	must1(t, filepath.WalkDir(from, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	}))
}

// notes writes n records of a writer.
func notes(t *testing.T, w *channel.Writer, n int, now time.Time) {
	t.Helper()
	_, err := w.Update(t.Context(), now, func(tx *channel.Tx) error {
		for i := range n {
			if _, err := tx.Add(&ferry.Note{Kind: "x", Text: fmt.Sprint(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	must1(t, err)
}

func glob(t *testing.T, parts ...string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(parts...))
	must1(t, err)
	return out
}

func digestOf(t *testing.T, s *site) channel.VerifyReport {
	t.Helper()
	v, err := s.Verify(t.Context())
	must1(t, err)
	return v
}
