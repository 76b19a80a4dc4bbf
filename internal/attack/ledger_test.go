package attack_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
)

// desk is a person at a terminal, with a member who writes on another machine.
type desk struct {
	*seat
	f   *fleet
	dir string // of the member in the folder
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{seat: newSeat(t, "repo")}
	d.ferry(0, "enable", "--command", "cat")
	d.f = d.fleet()
	_, err := d.f.master.Admit(t.Context(), day, member(t, "far", ferry.GrantWork))
	must(t, err)
	far := d.f.open("far").writer("far")
	for range 6 {
		write(t, far, &ferry.Note{Kind: "x", Text: "y"})
	}
	d.dir = filepath.Join(d.f.folder, "w", string(far.ID()))
	d.ferry(0, "channel", "verify")
	return d
}

// records gives the files of the member, by number.
func (d *desk) records() []string {
	d.t.Helper()
	files, err := filepath.Glob(filepath.Join(d.dir, "t", "*.fr"))
	must(d.t, err)
	if len(files) != 6 {
		d.t.Fatalf("%d files", len(files))
	}
	return files
}

// wantNamed wants verifying to fail, and to name the member and what is wrong.
func (d *desk) wantNamed(what string) {
	d.t.Helper()
	out := d.ferry(1, "channel", "verify")
	if !strings.Contains(out, what) || !strings.Contains(out, "far") && !strings.Contains(out, string(wid(d.t, "far"))) {
		d.t.Errorf("verify does not name %q:\n%s", what, out)
	}
}

// What is cut off, deleted, changed or told twice is named by verifying, and nothing of it is forgotten.
func TestLedgerIsVerified(t *testing.T) {
	tests := []struct {
		name, want string
		harm       func(d *desk)
	}{
		{"the tail cut off", "missing", func(d *desk) { must(t, os.Remove(d.records()[5])) }},
		{"one of the middle deleted", "missing", func(d *desk) { must(t, os.Remove(d.records()[2])) }},
		{"all deleted", "missing", func(d *desk) { must(t, os.RemoveAll(d.dir)) }},
		{"one changed", "file", func(d *desk) { must(t, os.Truncate(d.records()[3], 100)) }},
		{"one identity on two machines", "fork", func(d *desk) {
			p := d.f.pen("far")
			links, err := d.f.home.Chain(t.Context(), p.id(), 1)
			must(t, err)
			p.seq, p.prev = links[3].Seq, links[3].ID
			p.write(&ferry.Note{Kind: "x", Text: "another"})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			before := d.ferry(0, "channel", "log", "--limit", "100")
			tt.harm(d)
			d.wantNamed(tt.want)
			if after := d.ferry(0, "channel", "log", "--limit", "100"); tt.want != "fork" && after != before {
				t.Errorf("the ledger is another one:\n%s\nwas\n%s", after, before)
			}
		})
	}
}

// A folder by itself says what it can: that it has holes, and that others have seen more than it has.
func TestFolderAloneIsVerified(t *testing.T) {
	f := newFleet(t)
	a, b := f.say(order("a")), f.say(order("b"))
	f.begin(f.left, f.wisp, a)
	f.sync()
	full := f.papers()
	if v := f.verifyDir(); !v.OK {
		t.Fatalf("before: %+v", v.Problems)
	}
	for name, gone := range map[string]ferry.RecordID{"a hole": a, "the tail": b} {
		f.restore(full)
		must(t, os.Remove(f.fileOf(gone)))
		v := f.verifyDir()
		if v.OK || len(v.Problems) == 0 || v.Problems[0].Kind != "gap" || v.Problems[0].Writer != f.master.ID() {
			t.Errorf("%s: %+v", name, v.Problems)
		}
	}
}
