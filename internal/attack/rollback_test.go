package attack_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// Whatever earlier state the folder is put back to, nobody accepts less than before, and the folder comes back.
func TestFolderRolledBack(t *testing.T) {
	f := newFleet(t)
	var snapshots []map[string][]byte
	keep := func() { f.sync(); snapshots = append(snapshots, f.papers()) }
	keep()
	a := f.say(asked("a"))
	keep()
	_, result := f.finish(a)
	keep()
	f.say(&ferry.Policy{Kind: ferry.PolicyEngine, Version: 1, Text: "1"})
	f.admit("ghost", all...)
	keep()
	f.lookAt(a, result)
	f.say(&ferry.Revoke{Writer: wid(t, "ghost"), Keep: ferry.Cut{Epoch: 1}})
	keep()
	f.say(&ferry.Cancel{Order: f.say(order("b"))})
	keep()
	for i, was := range snapshots {
		f.unmoved(fmt.Sprintf("putting the folder back to its state %d", i), func() { f.restore(was) })
		if v := f.verifyDir(); !v.OK {
			t.Errorf("after state %d the folder has not come back: %+v", i, v.Problems)
		}
	}
	// A machine that has joined at any of them has learned nothing that the rest contradicts.
	want := f.home.state()
	full := f.papers()
	for i, was := range snapshots {
		f.restore(was)
		late := f.open(fmt.Sprintf("late-%d", i))
		f.restore(full)
		late.look()
		if diff := cmp.Diff(want, late.state()); diff != "" {
			t.Errorf("joined at state %d (-want +got):\n%s", i, diff)
		}
		f.restore(was)
		late.look()
		if diff := cmp.Diff(want, late.state()); diff != "" {
			t.Errorf("rolled back to state %d (-want +got):\n%s", i, diff)
		}
	}
}

// lookAt has a result accepted by the delegate and approved by the operator.
func (f *fleet) lookAt(id, result ferry.RecordID) {
	f.t.Helper()
	f.sync()
	verdict := write(f.t, f.lynx, &ferry.Verdict{Order: id, Result: result, Decision: ferry.DecisionKeep})
	f.sync()
	f.say(&ferry.Approve{Order: id, Result: result, Verdict: verdict})
	f.wantState(id, ferry.StateApproved)
}

// fileOf gives the file of a record in the folder.
func (f *fleet) fileOf(id ferry.RecordID) string {
	f.t.Helper()
	for _, r := range f.records() {
		if r.id == id {
			return filepath.Join(f.folder, r.path)
		}
	}
	f.t.Fatalf("the record %s is not in the folder", id.Short())
	return ""
}

// Deleting the newest policy or a revocation brings the older one back nowhere: who had it keeps it, and who never had it
// knows that something of the authority is missing.
func TestDeletedAuthority(t *testing.T) {
	for name, body := range map[string]ferry.Body{
		"policy":     &ferry.Policy{Kind: ferry.PolicyEngine, Version: 2, Text: "strict"},
		"revocation": &ferry.Revoke{Writer: wid(t, "ghost"), Keep: ferry.Cut{Epoch: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.admit("ghost", all...)
			old := f.say(&ferry.Policy{Kind: ferry.PolicyEngine, Version: 1, Text: "lax"})
			if p, ok := body.(*ferry.Policy); ok {
				p.Prev = old
			}
			gone := f.say(body)
			id := f.say(order("after"))
			f.sync()
			f.begin(f.left, f.wisp, id)
			f.sync()
			first, second := f.fileOf(gone), f.fileOf(id)
			must(t, os.Remove(first))
			must(t, os.Remove(second))
			before := f.left.state()
			f.left.look()
			if diff := cmp.Diff(before, f.left.state()); diff != "" {
				t.Errorf("a machine that had it forgets it:\n%s", diff)
			}
			fresh := f.open("fresh")
			snap, err := fresh.Snapshot(t.Context())
			must(t, err)
			if !strings.Contains(snap.Behind, "wisp") || !strings.Contains(snap.Behind, "ada") {
				t.Errorf("a new machine does not know that it is behind: %q", snap.Behind)
			}
			f.sync() // the machine of the operator puts them back
			fresh.look()
			if diff := cmp.Diff(before, fresh.state()); diff != "" {
				t.Errorf("after they came back (-want +got):\n%s", diff)
			}
		})
	}
}

// A third device that deletes and overwrites what others wrote delays nobody who has it, and every file comes back.
func TestFilesOfOthersDestroyed(t *testing.T) {
	w := newWorked(t)
	dirs := map[string]string{}
	for _, name := range []string{"ada", "wisp", "lynx"} {
		dirs[name] = filepath.Join(w.folder, "w", string(wid(t, name)))
	}
	harms := map[string]func(){
		"a writer's directory deleted": func() { must(t, os.RemoveAll(dirs["wisp"])) },
		"the folder emptied":           func() { must(t, os.RemoveAll(filepath.Join(w.folder, "w"))) },
		"every file emptied": func() {
			for name := range w.papers() {
				w.put(name, nil)
			}
		},
		"every file exchanged for one of its size": func() {
			for name, data := range w.papers() {
				w.put(name, bytes.Repeat([]byte{'x'}, len(data)))
			}
		},
		"every file cut": func() {
			for name, data := range w.papers() {
				w.put(name, data[:len(data)/2])
			}
		},
		"two writers exchanged": func() {
			must(t, os.Rename(dirs["wisp"], dirs["wisp"]+"x"))
			must(t, os.Rename(dirs["ada"], dirs["wisp"]))
			must(t, os.Rename(dirs["wisp"]+"x", dirs["ada"]))
		},
		"a directory that is a file": func() {
			must(t, os.RemoveAll(filepath.Join(dirs["lynx"], "p")))
			must(t, os.WriteFile(filepath.Join(dirs["lynx"], "p"), nil, 0o644))
		},
	}
	w.sync()
	was := w.papers()
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			w.fleet.t = t
			defer func() { w.fleet.t = w.home.t }()
			w.unmoved(name, harm)
			here := w.papers()
			for path, data := range was {
				if !bytes.Equal(here[path], data) {
					t.Errorf("%s has not come back", path)
				}
			}
		})
	}
	if next := w.say(order("goes-on")); next.IsZero() {
		t.Error("nothing can be ordered")
	}
}

// Names that differ in case, conflict copies of every kind of file and what a carrier leaves behind are no records, whatever is
// in them.
func TestTwinsAndCopies(t *testing.T) {
	w := newWorked(t)
	if r, err := w.master.SealLoose(t.Context(), day.Add(8*24*time.Hour)); err != nil || r.Pack == "" {
		t.Fatalf("no pack: %+v, %v", r, err)
	}
	for _, writer := range []*channel.Writer{w.wisp, w.lynx} {
		b, err := writer.Pulse(t.Context())
		must(t, err)
		must(t, writer.PutBeat(b))
	}
	hand := w.admit("hand", all...)
	evil := hand.seal("cancel", []byte(`{"order":"`+w.open.String()+`"}`), nil)
	w.unmoved("twins and copies", func() {
		for name, good := range w.papers() {
			dir, base := filepath.Split(name)
			ext := filepath.Ext(base)
			stem := strings.TrimSuffix(base, ext)
			for _, data := range [][]byte{good, evil.data[:len(evil.data)-1]} {
				for _, twin := range []string{
					stem + ".sync-conflict-20261130-120000-ABCDEF7" + ext, stem + " (conflicted copy)" + ext, base + ".tmp", "." + base + ".tmp",
					".syncthing." + base + ".tmp", "~syncthing~" + base + ".tmp", "~" + base, base + "~", base + ".bak", "#" + base + "#",
					strings.ToUpper(stem) + "x" + ext, stem + strings.ToUpper(ext), " " + base, base + " ", base + ".", "-" + base, "copy of " + base,
				} {
					if twin != base {
						w.put(dir+twin, data)
					}
				}
				w.put(strings.ToUpper(dir)+base, data)
				w.put("W/"+strings.TrimPrefix(name, "w/"), data)
				w.put(strings.Replace(dir, "/t/", "/T/", 1)+base, data)
				w.put(strings.Replace(dir, "w/", "w.sync-conflict-20261130-120000-ABCDEF7/", 1)+base, data)
				w.put(strings.TrimSuffix(dir, "/")+".sync-conflict-20261130-120000-ABCDEF7/"+base, data)
			}
		}
	})
}
