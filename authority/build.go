package authority

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// Build is Evaluate for a channel with one root and one master, whose statements are all known and none of them twice.
func Build(statements []ferry.Record, channel ferry.RecordID) *Roster {
	var roots []RootRecord
	for _, s := range statements {
		b, ok := s.Body.(*ferry.Root)
		if !ok || s.ID != channel {
			continue
		}
		if k, err := sign.ParsePublicKey(b.Master.Key); err == nil {
			roots = append(roots, RootRecord{Record: s, Signers: []sign.PublicKey{k}})
		}
	}
	return Evaluate(channel, roots, given(statements))
}

type given []ferry.Record

func (g given) Statements(w ferry.WriterID, epoch uint32, _ *ferry.Cut) ([]ferry.Record, bool) {
	var out []ferry.Record
	for _, s := range g {
		if s.Writer == w && s.Epoch == epoch {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b ferry.Record) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return out, true
}

func (g given) Acts(ferry.WriterID) []ferry.Record { return nil }
