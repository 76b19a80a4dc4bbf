package channel_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// What an old copy of the state directory has forgotten comes back from the folder, and the writer whose records they are
// writes no more: it may be the second of two.
func TestStateRestored(t *testing.T) {
	s := newSite(t)
	name := filepath.Join(s.cfg.State, "store.log")
	old, err := os.ReadFile(name)
	must1(t, err)
	id := s.issue(t, order("first"))
	for _, index := range []string{"", "index.db"} {
		must1(t, os.WriteFile(name, old, 0o600))
		if index != "" {
			must1(t, os.Remove(filepath.Join(s.cfg.State, index)))
		}
		s.reopen(t)
		if _, err := s.master.Issue(t.Context(), start, order("second")); !errors.Is(err, channel.ErrLost) {
			t.Errorf("a write from an old copy: %v", err)
		}
		s.wantState(t, id, ferry.StateOpen)
		wantIntact(t, s)
	}
	s.finish(t, id, 0) // the agent had written nothing that was forgotten
}

// A gap is filled by what arrives later; of a number signed twice neither counts, nor does what follows.
func TestGapAndFork(t *testing.T) {
	s := newSite(t)
	p := s.foreign(t, "moth", ferry.GrantWork)
	id := s.issue(t, order("first"))
	a := p.write(t, &ferry.Claim{Order: id, Attempt: 1})
	b := p.write(t, &ferry.Start{Order: id, Attempt: 1, Claim: a.id, Engine: "codex", Sandbox: "none"})
	deliver(t, s.cfg.Folder, b)
	if r, err := s.Refresh(t.Context()); err != nil || r.New != 0 || r.Parked != 1 {
		t.Fatalf("with a gap: %+v, %v", r, err)
	}
	deliver(t, s.cfg.Folder, a)
	if r, err := s.Refresh(t.Context()); err != nil || r.New != 2 || r.Parked != 0 {
		t.Fatalf("with the gap filled: %+v, %v", r, err)
	}
	s.wantState(t, id, ferry.StateRunning)
	twin := *p
	twin.seq, twin.prev = 1, a.id
	deliver(t, s.cfg.Folder, twin.write(t, &ferry.Stop{Order: id, Claim: a.id, Reason: ferry.StopReleased}))
	if r, err := s.Refresh(t.Context()); err != nil || r.New != 1 {
		t.Fatalf("with a fork: %+v, %v", r, err)
	}
	s.wantState(t, id, ferry.StateClaimed)
	if _, err := s.writer(t, "moth").Note(t.Context(), start, ferry.Note{Kind: "x", Text: "d"}); !errors.Is(err, channel.ErrForked) || !strings.Contains(err.Error(), "rejoin") {
		t.Errorf("a forked writer writes: %v", err)
	}
	snap, err := s.Snapshot(t.Context())
	if err != nil || len(snap.Rejected) != 1 || !strings.Contains(snap.Rejected[0].Reason, "fork") {
		t.Errorf("the snapshot names %+v, %v", snap.Rejected, err)
	}
	v, err := s.Verify(t.Context())
	if err != nil || len(v.Problems) != 1 || v.Problems[0].Kind != channel.ProblemFork {
		t.Errorf("verify: %+v, %v", v.Problems, err)
	}
	s.issue(t, order("goes-on")) // the others are not held up
}

// forked is a site with the order id, whose worker moth has started it and then signed number 2 twice.
func forked(t *testing.T) (s *site, p *pen, id ferry.RecordID, branches [2]file) {
	t.Helper()
	s = newSite(t)
	p = s.foreign(t, "moth", ferry.GrantWork)
	id = s.issue(t, order("first"))
	claim := p.write(t, &ferry.Claim{Order: id, Attempt: 1})
	twin := *p
	branches[0] = p.write(t, &ferry.Start{Order: id, Attempt: 1, Claim: claim.id, Engine: "codex", Sandbox: "none"})
	branches[1] = twin.write(t, &ferry.Stop{Order: id, Claim: claim.id, Reason: ferry.StopReleased})
	for _, f := range append([]file{claim}, branches[:]...) {
		deliver(t, s.cfg.Folder, f)
	}
	if r, err := s.Refresh(t.Context()); err != nil || r.New != 3 {
		t.Fatalf("refresh: %+v, %v", r, err)
	}
	s.wantState(t, id, ferry.StateClaimed)
	return s, p, id, branches
}

func (s *site) proofs(t *testing.T) (out []channel.Entry) {
	t.Helper()
	ledger, err := s.Ledger(t.Context(), 0)
	must1(t, err)
	for _, e := range ledger {
		if e.Type == ferry.TypeForkProof {
			out = append(out, e)
		}
	}
	return out
}

// The next write of a machine that saw a fork shows it, once; who has the proof treats the chain as forked with one branch.
func TestForkProof(t *testing.T) {
	s, _, id, branches := forked(t)
	for range 2 {
		added, err := s.agent.Update(t.Context(), start, func(tx *channel.Tx) error {
			_, err := tx.Add(&ferry.Note{Kind: "x", Text: "y"})
			return err
		})
		if err != nil || len(added) != 1 {
			t.Fatalf("a write gives %v, %v", added, err)
		}
	}
	shown := s.proofs(t)
	if len(shown) != 1 || !shown[0].Counted || shown[0].Writer != s.agent.ID() {
		t.Fatalf("proofs of the fork: %+v", shown)
	}
	b := shown[0].Body.(*ferry.ForkProof)
	if b.Seq != 2 || b.Epoch != 1 || len(b.Headers) != 2 {
		t.Errorf("the proof is of number %d of epoch %d with %d headers", b.Seq, b.Epoch, len(b.Headers))
	}
	want, err := s.Verify(t.Context())
	must1(t, err)
	for _, missing := range branches {
		r := channel.NewReplica(channel.ReplicaSpec{ID: s.ID(), Judge: judge})
		must1(t, s.Raw(t.Context(), func(file []byte) error {
			if toFile(t, file).id != missing.id {
				r.Add(append([]byte(nil), file...))
			}
			return nil
		}))
		if task, ok := r.Task(id); !ok || task.State != ferry.StateClaimed {
			t.Errorf("without one branch the order is %s", task.State)
		}
		if got, err := r.Digest(); err != nil || got != want.Digest {
			t.Errorf("without one branch the digest is %s, want %s (%v)", got, want.Digest, err)
		}
	}
}

// A proof that does not hold has no effect.
func TestFalseForkProof(t *testing.T) {
	s := newSite(t)
	p := s.foreign(t, "moth", ferry.GrantWork)
	id := s.issue(t, order("first"))
	claim := p.write(t, &ferry.Claim{Order: id, Attempt: 1})
	deliver(t, s.cfg.Folder, claim)
	u, err := sign.ParseHeader(claim.data)
	must1(t, err)
	liar := pen{key: testKey(t, "liar"), channel: p.channel, prev: p.prev}
	forged := toFile(t, claim.data)
	h := u.Header()
	forged.data, err = sign.Seal(liar.key, h, []byte(`{"order":"","attempt":2}`))
	must1(t, err)
	other, err := sign.ParseHeader(forged.data)
	must1(t, err)
	good := string(u.Top())
	for name, headers := range map[string][]string{
		"another key": {good, string(other.Top())}, "one record twice": {good, good}, "one header": {good}, "garbage": {good, "x"},
	} {
		_, err := s.agent.Update(t.Context(), start, func(tx *channel.Tx) error {
			_, err := tx.Add(&ferry.ForkProof{Writer: p.id(), Epoch: 1, Seq: 1, Headers: headers})
			return err
		})
		must1(t, err)
		if got := s.task(t, id); got.State != ferry.StateClaimed {
			t.Errorf("%s: the order is %s", name, got.State)
		}
	}
	wantIntact(t, s)
}

// The master's word names the branch to keep: it counts again up to there, and the writer goes on in the next epoch with
// another key. The key before is worth nothing.
func TestReadmit(t *testing.T) {
	s, p, id, branches := forked(t)
	next := testKey(t, "moth again")
	readmit := func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Readmit{
			Writer: p.id(), Epoch: 2, Key: next.Public().String(), Keep: ferry.Cut{Epoch: 1, Seq: 2, ID: branches[0].id},
		})
		return err
	}
	_, err := s.master.Update(t.Context(), start, readmit)
	must1(t, err)
	s.wantState(t, id, ferry.StateRunning)
	if _, err := s.Writer(p.key); !errors.Is(err, channel.ErrRevoked) {
		t.Errorf("the writer of the key before: %v", err)
	}
	w, err := s.Writer(next)
	must1(t, err)
	if w.ID() != p.id() {
		t.Fatalf("the writer is %s, want %s", w.ID(), p.id())
	}
	_, err = w.Update(t.Context(), start, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Stop{Order: id, Start: branches[0].id, Reason: ferry.StopOrphan})
		return err
	})
	must1(t, err)
	s.wantState(t, id, ferry.StateOpen)
	deliver(t, s.cfg.Folder, p.write(t, &ferry.Cancel{Order: id})) // too late, whoever holds the key
	if _, err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ledger, err := s.Records(t.Context(), id)
	must1(t, err)
	late := ledger[len(ledger)-1]
	if late.Counted || !strings.Contains(late.Why, "up to 2") {
		t.Errorf("what the key before wrote later: counted %v, %q", late.Counted, late.Why)
	}
	for _, e := range ledger {
		if e.Writer == p.id() && e.Epoch == 2 && (e.Seq != 1 || !e.Counted) {
			t.Errorf("the first record of epoch 2 is number %d, counted %v", e.Seq, e.Counted)
		}
	}
	wantIntact(t, s)
}

func TestRevoke(t *testing.T) {
	s := newSite(t)
	first, second := s.issue(t, order("first")), s.issue(t, order("second"))
	result := s.finish(t, first, 0)
	s.finish(t, second, 0)
	ledger, err := s.Records(t.Context(), first)
	must1(t, err)
	last := ledger[len(ledger)-1]
	_, err = s.master.Update(t.Context(), start, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Revoke{Writer: s.agent.ID(), Keep: ferry.Cut{Epoch: 1, Seq: int64(last.Seq), ID: result}})
		return err
	})
	must1(t, err)
	s.wantState(t, first, ferry.StateDone)
	s.wantState(t, second, ferry.StateOpen)
	if _, err := s.agent.Note(t.Context(), start, ferry.Note{Kind: "x", Text: "y"}); !errors.Is(err, channel.ErrRevoked) {
		t.Errorf("a writer that was shut out writes: %v", err)
	}
	wantIntact(t, s)
}

// A signed number that waits for its predecessor is in use all the same.
func TestParkedOwn(t *testing.T) {
	s := newSite(t)
	p := s.penOf(t, "agent")
	p.write(t, &ferry.Note{Kind: "x", Text: "withheld"})
	deliver(t, s.cfg.Folder, p.write(t, &ferry.Note{Kind: "x", Text: "here"}))
	if _, err := s.agent.Note(t.Context(), start, ferry.Note{Kind: "x", Text: "z"}); !errors.Is(err, channel.ErrLost) {
		t.Errorf("a write below a signed number: %v", err)
	}
}

// While the record that the master keeps is not here, what cannot be forked counts up to there, also behind a proof.
func TestProofAndMissingCut(t *testing.T) {
	s, p, id, branches := forked(t)
	_, err := s.agent.Note(t.Context(), start, ferry.Note{Kind: "x", Text: "with the proof"})
	must1(t, err)
	third := p.write(t, &ferry.Note{Kind: "x", Text: "behind the fork"})
	_, err = s.master.Update(t.Context(), start, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Revoke{Writer: p.id(), Keep: ferry.Cut{Epoch: 1, Seq: 3, ID: third.id}})
		return err
	})
	must1(t, err)
	s.wantState(t, id, ferry.StateClaimed)
	// A machine that has one branch only, and the proof.
	cfg := channel.Config{Folder: t.TempDir(), State: t.TempDir(), Judge: judge}
	must1(t, s.Raw(t.Context(), func(data []byte) error {
		if f := toFile(t, append([]byte(nil), data...)); f.id != branches[1].id {
			deliver(t, cfg.Folder, f)
		}
		return nil
	}))
	c, err := channel.Open(t.Context(), cfg, s.ID())
	must1(t, err)
	defer c.Close()
	other := &site{Channel: c, cfg: cfg}
	if _, err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.wantState(t, id, ferry.StateClaimed)
	wantIntact(t, other)
	deliver(t, cfg.Folder, third)
	if _, err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.wantState(t, id, ferry.StateRunning)
	wantIntact(t, other)
}
