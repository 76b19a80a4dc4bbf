package channel_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// TestUnpublished: a writer knows that its records are not in the folder until a look at the folder has put them there.
func TestUnpublished(t *testing.T) {
	s := newSite(t)
	records := filepath.Join(s.cfg.Folder, "w", string(s.master.ID()), "t")
	want := func(what, part string) {
		t.Helper()
		why, err := s.master.Unpublished(t.Context())
		must1(t, err)
		if (why == "") != (part == "") || !strings.Contains(why, part) {
			t.Errorf("%s: %q, want %q", what, why, part)
		}
	}
	want("in the beginning", "")
	for what, tt := range map[string]struct {
		away, part string
		stands     func() error
	}{
		"the folder is away":            {s.cfg.Folder, "no such file", func() error { return nil }},
		"a file stands in for records":  {records, "not in it", func() error { return os.WriteFile(records, nil, 0o600) }},
		"a file stands for the writers": {filepath.Join(s.cfg.Folder, "w"), "not in it", func() error { return os.WriteFile(filepath.Join(s.cfg.Folder, "w"), nil, 0o600) }},
	} {
		must1(t, os.Rename(tt.away, tt.away+".off"))
		must1(t, tt.stands())
		if _, err := s.master.Note(t.Context(), start, ferry.Note{Kind: "x", Text: what}); !errors.Is(err, channel.ErrUnpublished) {
			t.Errorf("%s: a note: %v", what, err)
		}
		s.refresh(t)
		want(what, tt.part)
		must1(t, os.RemoveAll(tt.away))
		must1(t, os.Rename(tt.away+".off", tt.away))
		if tt.away == s.cfg.Folder {
			want(what+", and back without a look", "not in it")
		}
		s.refresh(t)
		want(what+", and back", "")
	}
}

// TestBeatInThePlaceOfADirectory: an empty directory gives way to the beat, one that holds something is named.
func TestBeatInThePlaceOfADirectory(t *testing.T) {
	s := newSite(t)
	master := testKey(t, "master")
	name := filepath.Join(s.cfg.Folder, "w", string(s.master.ID()), "beat")
	must1(t, os.Mkdir(name, 0o755))
	must1(t, s.PutBeat(master, ferry.Beat{Epoch: 1, Boot: 1, Counter: 1}))
	must1(t, os.Remove(name))
	must1(t, os.Mkdir(name, 0o755))
	must1(t, os.WriteFile(filepath.Join(name, "kept"), nil, 0o600))
	err := s.PutBeat(master, ferry.Beat{Epoch: 1, Boot: 1, Counter: 2})
	if err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("a beat over a directory that holds something: %v", err)
	}
	if _, err := os.Stat(filepath.Join(name, "kept")); err != nil {
		t.Error(err)
	}
}
