package channel_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// The first record of an unknown writer is looked at, because a recovery begins like that; nothing else of it is.
func TestRecoveryOfAStranger(t *testing.T) {
	dir := t.TempDir()
	recovery, heir := testKey(t, "recovery"), testKey(t, "heir")
	s := &site{cfg: channel.Config{Folder: filepath.Join(dir, "folder"), State: filepath.Join(dir, "state"), Judge: judge}}
	c, err := channel.Found(t.Context(), s.cfg, channel.FoundSpec{
		Project: "demo", Master: ferry.Member{Name: "esteban", Machine: "box"}, Key: testKey(t, "master"),
		Recovery: []sign.PublicKey{recovery.Public()}, Now: start,
	})
	must1(t, err)
	s.Channel = c
	t.Cleanup(func() { must1(t, s.Close()) })
	root := func(name string, by ...sign.Key) file {
		k := testKey(t, name)
		body, err := sign.EncodeJSON(&ferry.Root{
			Generation: 1, Version: 1, Project: "demo", Master: testMember(k, name), Threshold: 1,
			Recovery: []string{recovery.Public().String()}, Prev: s.ID(),
		})
		must1(t, err)
		data, err := sign.Seal(k, sign.Header{Channel: s.ID(), Type: "root", Writer: k.Public().WriterID(), Epoch: 1, Seq: 1, Prev: s.ID(), Time: start}, body)
		must1(t, err)
		for _, k := range by {
			data, err = sign.Cosign(k, data)
			must1(t, err)
		}
		return toFile(t, data)
	}
	opened := map[string]int{}
	s.Opened(func(name string) { opened[name]++ })
	for i := range 100 {
		f := root(fmt.Sprintf("thief %d", i))
		deliver(t, s.cfg.Folder, f)
		f.path = strings.Replace(f.path, "-0000000001-", "-0000000002-", 1)
		deliver(t, s.cfg.Folder, f)
	}
	for pass := range 4 {
		before := len(opened)
		if r := s.refresh(t); r.New != 0 {
			t.Fatalf("pass %d takes in %d records of thieves", pass, r.New)
		}
		if n := len(opened) - before; n > 64 {
			t.Errorf("pass %d opens %d files", pass, n)
		}
	}
	if len(opened) != 100 {
		t.Errorf("%d files were opened, want the first records of 100 strangers", len(opened))
	}
	deliver(t, s.cfg.Folder, root("heir", recovery))
	taken := 0
	for range 3 {
		taken += s.refresh(t).New
	}
	if m, err := s.Master(t.Context()); err != nil || m.Writer != ferry.WriterID(heir.Public().WriterID()) || taken != 1 {
		t.Errorf("the master is %s after %d records, want the heir (%v)", m.Name, taken, err)
	}
	alone, err := channel.VerifyDir(t.Context(), s.cfg.Folder, s.ID(), judge)
	if err != nil || alone.Records != 2 || digestOf(t, s).Records != 2 {
		t.Errorf("verify counts %d records, and %d of the folder alone (%v), want 2", digestOf(t, s).Records, alone.Records, err)
	}
	for name, n := range opened {
		if n > 1 {
			t.Errorf("%s was opened %d times", name, n)
		}
	}
}

// A root whose recovery key only another root names is taken in when that one comes, however late.
func TestRecoveryBeforeItsPredecessor(t *testing.T) {
	dir := t.TempDir()
	first, second, heir := testKey(t, "recovery"), testKey(t, "next recovery"), testKey(t, "heir")
	s := &site{cfg: channel.Config{Folder: filepath.Join(dir, "folder"), State: filepath.Join(dir, "state"), Judge: judge}}
	c, err := channel.Found(t.Context(), s.cfg, channel.FoundSpec{
		Project: "demo", Master: ferry.Member{Name: "esteban", Machine: "box"}, Key: testKey(t, "master"),
		Recovery: []sign.PublicKey{first.Public()}, Now: start,
	})
	must1(t, err)
	s.Channel = c
	t.Cleanup(func() { must1(t, s.Close()) })
	root := func(name string, generation int64, prev ferry.RecordID, recovery, by sign.Key) (file, ferry.RecordID) {
		k := testKey(t, name)
		body, err := sign.EncodeJSON(&ferry.Root{
			Generation: generation, Version: 1, Project: "demo", Master: testMember(k, name), Threshold: 1,
			Recovery: []string{recovery.Public().String()}, Prev: prev,
		})
		must1(t, err)
		data, err := sign.Seal(k, sign.Header{Channel: s.ID(), Type: "root", Writer: k.Public().WriterID(), Epoch: 1, Seq: 1, Prev: s.ID(), Time: start}, body)
		must1(t, err)
		data, err = sign.Cosign(by, data)
		must1(t, err)
		u, err := sign.ParseHeader(data)
		must1(t, err)
		return toFile(t, data), ferry.RecordID(u.ID())
	}
	middle, id := root("middle", 1, s.ID(), second, first)
	last, _ := root("heir", 2, id, second, second)
	deliver(t, s.cfg.Folder, last)
	must1(t, os.Chtimes(filepath.Join(s.cfg.Folder, filepath.Dir(last.path)), start, start)) // nothing more happens in its directory
	for range 3 {
		if r := s.refresh(t); r.New != 0 {
			t.Fatalf("%d records came in without the key that vouches for them", r.New)
		}
	}
	deliver(t, s.cfg.Folder, middle)
	for range 4 {
		s.refresh(t)
	}
	if m, err := s.Master(t.Context()); err != nil || m.Writer != ferry.WriterID(heir.Public().WriterID()) {
		t.Errorf("the master is %s, want the heir (%v)", m.Name, err)
	}
}

// A record of an epoch that nobody has given waits without being opened again.
func TestEpochWithoutKey(t *testing.T) {
	s := newSite(t)
	k := testKey(t, "stranger")
	dir := filepath.Join(s.cfg.Folder, "w", string(s.agent.ID()), "t")
	must1(t, os.MkdirAll(dir, 0o755))
	for seq := range uint64(3) {
		h := sign.Header{
			Channel: s.ID(), Type: "note", Writer: sign.WriterID(s.agent.ID()), Epoch: 9, Seq: seq + 1, Prev: s.ID(), Time: start,
		}
		data, err := sign.Seal(k, h, []byte(`{}`))
		must1(t, err)
		deliver(t, s.cfg.Folder, toFile(t, data))
	}
	opened := 0
	s.Opened(func(string) { opened++ })
	for i := range 3 {
		s.refresh(t)
		s.issue(t, order(fmt.Sprintf("t-%d", i)))
	}
	if opened != 3 {
		t.Errorf("%d files were opened, want each of the 3 once", opened)
	}
}
