package attack_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
)

// Two channels of the same people, with the same labels, have nothing to do with each other: not one record of one has an effect
// in the other, nor in a later state of its own channel.
func TestRecordsOfAnotherChannel(t *testing.T) {
	w, other := newWorked(t), foundedAt(t, day.Add(time.Hour))
	if w.id == other.id {
		t.Fatal("it is the same channel")
	}
	for _, label := range []string{"good", "waits", "other"} {
		other.say(asked(label))
	}
	for _, id := range []ferry.RecordID{other.say(order("runs")), other.say(order("open"))} {
		other.finish(id)
		other.say(&ferry.Interrupt{Order: id, Action: ferry.ActionKill})
	}
	other.say(&ferry.Policy{Kind: ferry.PolicyEngine, Version: 1, Text: "another"})
	other.say(&ferry.Revoke{Writer: wid(t, "moth"), Keep: ferry.Cut{Epoch: 1}})
	other.sync()
	theirs, ours := other.papers(), w.papers()
	into := func(x *fleet, from map[string][]byte) {
		x.unmoved("the records of another channel", func() {
			for name, data := range from {
				x.put(name, data)
			}
		})
	}
	into(w.fleet, theirs)
	into(other, ours)
}

// A record of a channel that is put into it again at a later time has no effect a second time.
func TestRecordsOfEarlier(t *testing.T) {
	w := newWorked(t)
	was := w.papers()
	w.say(&ferry.Interrupt{Order: w.good, Action: ferry.ActionKill})
	w.say(&ferry.Policy{Kind: ferry.PolicyEngine, Version: 2, Text: "b", Prev: w.policy(ferry.PolicyEngine)})
	w.say(&ferry.Delegate{To: wid(t, "lynx")})
	w.unmoved("earlier records", func() {
		for name, data := range was {
			w.put(name, data)
		}
	})
}

// policy gives the policy in force.
func (f *fleet) policy(k ferry.PolicyKind) ferry.RecordID {
	f.t.Helper()
	roster, err := f.home.Roster(f.t.Context())
	must(f.t, err)
	rec, _ := roster.Policy(k)
	return rec.ID
}

// Two projects whose directories have the same name get channels, trees and keys of their own.
func TestTwoProjectsOfOneName(t *testing.T) {
	s := newSeat(t, "repo")
	s.ferry(0, "enable", "--command", "cat")
	s.ferry(0, "channel", "order", "--id", "t-one", "--task", "one")
	first := s.repo
	s.repo = filepath.Join(s.home, "elsewhere", "repo")
	s.repository(s.repo)
	path, err := command()
	must(t, err)
	out, code := s.run(s.repo, path, "enable", "--command", "cat")
	if code == 0 {
		if got := s.ferry(0, "channel", "tasks"); strings.Contains(got, "t-one") {
			t.Errorf("the second project shows the orders of the first:\n%s", got)
		}
		s.ferry(0, "channel", "order", "--id", "t-one", "--task", "two")
	} else if !strings.Contains(out, "--project") {
		t.Errorf("the second project is refused without a word about what to do:\n%s", out)
	}
	s.repo = first
	if got := s.ferry(0, "channel", "show", "t-one"); !strings.Contains(got, "one") || strings.Contains(got, "two") {
		t.Errorf("the order of the first project is\n%s", got)
	}
	if _, err := os.Stat(filepath.Join(first, ".ferry", "agent.toml")); err != nil {
		t.Error(err)
	}
}
