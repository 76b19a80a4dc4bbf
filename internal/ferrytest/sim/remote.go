package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/ferry-fleet/ferry"
)

// What a git remote answers.
var (
	errUnreachable = errors.New("the remote cannot be reached")
	errLost        = errors.New("the answer was lost")
	errExists      = errors.New("the ref exists already")
	errMoved       = errors.New("the branch is not an ancestor")
)

const mainRef = "refs/heads/main"

// gitCommit is what the world knows of a commit.
type gitCommit struct {
	by     *machine // of a landing
	parent ferry.Commit
	order  ferry.RecordID
	result ferry.RecordID // of a landing: the result it squashes, as its trailer says
	real   bool           // an engine made it, or the gate from one that an engine made
	kept   bool           // of a landing: its machine held an accept that counts when it sent the push
}

// remote is one linearizable git repository: its refs change one push at a time.
type remote struct {
	w       *world
	down    bool
	refs    map[string]ferry.Commit
	commits map[ferry.Commit]gitCommit
	landed  map[ferry.RecordID]int // landings on main, by order
}

func newRemote(w *world) *remote {
	r := &remote{w: w, refs: map[string]ferry.Commit{}, commits: map[ferry.Commit]gitCommit{}, landed: map[ferry.RecordID]int{}}
	base := commitOf("base")
	r.commits[base] = gitCommit{real: true}
	r.refs[mainRef] = base
	return r
}

// commitOf makes an object id from what identifies it.
func commitOf(parts ...any) ferry.Commit {
	sum := sha256.Sum256(fmt.Append(nil, parts...))
	return ferry.Commit(hex.EncodeToString(sum[:20]))
}

// call does something at the remote for a machine and brings back the answer, or loses it. What was lost may have
// happened.
func (r *remote) call(m *machine, do func() error, answer func(error)) {
	there := 100*time.Millisecond + time.Duration(r.w.rng.Int64N(int64(900*time.Millisecond)))
	lost := r.w.hit(faultLostAnswer, r.w.sc.lostAnswer)
	boot := m.boots
	r.w.time.at(r.w.time.now+there, func() {
		if m.boots != boot {
			return // it died before the packets were out
		}
		err := errUnreachable
		if !r.down {
			err = do()
		}
		if lost && err != errUnreachable {
			if err == nil {
				r.w.seen(sawLostPush)
			}
			err = errLost
		}
		m.after(100*time.Millisecond, func() { answer(err) })
	})
}

// branch pushes a candidate to a name that nobody has.
func (r *remote) branch(ref string, c ferry.Commit, g gitCommit) error {
	if have, ok := r.refs[ref]; ok {
		if have == c {
			return nil
		}
		return errExists
	}
	r.refs[ref], r.commits[c] = c, g
	return nil
}

func landedRef(order ferry.RecordID) string { return "refs/ferry/landed/" + order.String() }

// land moves main and creates the order's landed ref, both or none.
func (r *remote) land(by *machine, order ferry.RecordID, c ferry.Commit, g gitCommit) error {
	ref := landedRef(order)
	tip := r.refs[mainRef]
	if _, ok := r.refs[ref]; ok {
		r.w.seen(sawRefused)
		return errExists
	}
	if g.parent != tip {
		return errMoved
	}
	if r.w.sc.Mutant != MutantLeaseOnMain { // it has a lease on the branch, and nothing that is created once
		r.refs[ref] = c
	}
	r.moveMain(by, order, c, g)
	return nil
}

func (r *remote) moveMain(by *machine, order ferry.RecordID, c ferry.Commit, g gitCommit) {
	tip := r.refs[mainRef]
	r.commits[c] = g
	r.refs[mainRef] = c
	r.landed[order]++
	r.w.checkLanding(by, order, landing{commit: c, git: g, tip: tip})
}
