package channel

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
)

// audit computes everything from bytes alone, in a replica, and collects what is wrong.
type audit struct {
	*Replica
	left   map[ferry.RecordID][]byte // what the replica did not take in at once
	report VerifyReport
}

func newAudit(id ferry.RecordID, judge ferry.Judge) *audit {
	return &audit{Replica: NewReplica(ReplicaSpec{ID: id, Judge: judge}), left: map[ferry.RecordID][]byte{}}
}

func (a *audit) problem(w ferry.WriterID, seq uint64, kind ProblemKind, detail string) {
	a.report.Problems = append(a.report.Problems, Problem{Writer: w, Seq: seq, Kind: kind, Detail: detail})
}

// add hands a record to the replica; ok is false when the bytes are not those of a record.
func (a *audit) add(data []byte) (id ferry.RecordID, ok bool) {
	v := a.Add(data)
	if v.ID.IsZero() {
		return v.ID, false
	}
	if a.records[v.ID] == nil && a.left[v.ID] == nil {
		a.left[v.ID] = data
	}
	return v.ID, true
}

// stored gives the bytes of a record that were collected, or nil.
func (a *audit) stored(id ferry.RecordID) []byte {
	if h := a.records[id]; h != nil {
		return h.file
	}
	return a.left[id]
}

func (a *audit) finish() (VerifyReport, error) {
	digest, err := a.Digest()
	if err != nil {
		return VerifyReport{}, fmt.Errorf("verify: %w", err)
	}
	if a.records[a.spec.ID] == nil {
		a.problem("", 0, ProblemRoot, "the root record "+a.spec.ID.String()+" is missing or not genuine")
	}
	a.forks()
	a.leftovers()
	writers := map[ferry.WriterID]bool{}
	for ch, b := range a.chains {
		if len(b.nodes) > 0 {
			writers[ch.writer] = true
		}
	}
	a.report.Digest, a.report.Writers, a.report.Records = digest, len(writers), len(a.records)
	a.report.OK = len(a.report.Problems) == 0
	slices.SortFunc(a.report.Problems, func(x, y Problem) int {
		return cmp.Or(cmp.Compare(x.Writer, y.Writer), cmp.Compare(x.Seq, y.Seq), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Detail, y.Detail))
	})
	return a.report, nil
}

// forks names the numbers that were signed twice and that nobody has answered.
func (a *audit) forks() {
	for ch, b := range a.chains {
		if b.fork == 0 || b.keep != nil {
			continue
		}
		a.problem(ch.writer, b.fork, ProblemFork, fmt.Sprintf(
			"number %d of epoch %d is signed twice: nothing from it on counts until the master names the branch to keep", b.fork, ch.epoch))
	}
}

// leftovers names what no chain reaches.
func (a *audit) leftovers() {
	known := a.Roster().Known()
	for id, data := range a.left {
		if a.records[id] != nil {
			continue // what it waited for came
		}
		r, err := parseStored(data)
		if err != nil {
			continue // Add parsed it before
		}
		w := ferry.WriterID(r.head.Writer)
		switch v := a.Add(data); {
		case v.Kind == Parked && v.Reason == whyAlone:
			a.problem(w, r.head.Seq, ProblemGap, whyAlone)
		case v.Kind == Refused:
			a.problem(w, r.head.Seq, ProblemSignature, v.Reason)
		case !slices.Contains(known, w):
			a.problem(w, r.head.Seq, ProblemStranger, "a record of a writer whom no admission names")
		default:
			a.problem(w, r.head.Seq, ProblemGap, "its predecessor "+hex.EncodeToString(r.head.Prev[:8])+"… is missing")
		}
	}
}
