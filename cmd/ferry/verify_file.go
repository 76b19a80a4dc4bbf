package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/land"
)

// proofShape is what a receipt's file proves here.
type proofShape struct {
	land.Proof
	Compared bool        `json:"compared"` // with --channel
	Clone    *cloneShape `json:"clone,omitempty"`
}

// cloneShape says what the git repository around here has of the commit.
type cloneShape struct {
	Dir string   `json:"dir"`
	Has bool     `json:"has"`
	On  []string `json:"on"` // branches that contain it
}

// verifyFile checks a receipt that ferry channel receipt --out wrote. It needs
// no project, no channel and no state.
func (a *app) verifyFile(ctx context.Context, path, id string) error {
	var want ferry.RecordID
	if id != "" {
		var err error
		if want, err = ferry.ParseRecordID(id); err != nil {
			return misuse("a channel's id has 64 hex digits; `ferry status --json` shows it", "--channel: %w", err)
		}
	}
	data, err := atomicfile.ReadBounded(path, land.MaxReceipt)
	if err != nil {
		return fault(classNotFound, "name a receipt, or a channel's folder", err)
	}
	p, err := land.VerifyReceipt(data, evidence.Classify)
	if err != nil {
		return fault(classFailed, "`ferry channel receipt ORDER --out FILE` writes one; send it as it is", fmt.Errorf("%s: %w", clip(path, 200), err))
	}
	shape := proofShape{Proof: p, Compared: !want.IsZero()}
	if shape.Compared && want != p.Channel {
		shape.OK = false
		shape.Problems = append(shape.Problems, fmt.Sprintf("it is of the channel %s, not of %s", p.Channel, want))
	}
	if shape.OK {
		shape.Clone = a.clone(ctx, &p)
	}
	if err := a.print(shape, func(w io.Writer) { a.proofText(w, &shape) }); err != nil {
		return err
	}
	if !shape.OK {
		return &failure{class: classFailed, code: 1, quiet: true}
	}
	return nil
}

// clone looks for the commit in the git repository around here; nil where
// there is none.
func (a *app) clone(ctx context.Context, p *land.Proof) *cloneShape {
	dir, err := a.start()
	if err != nil {
		return nil
	}
	top, err := gitLine(ctx, dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return nil
	}
	c := &cloneShape{Dir: filepath.Clean(top), On: []string{}}
	kind, err := gitLine(ctx, dir, "cat-file", "-t", string(p.Commit))
	if c.Has = err == nil && kind == "commit"; !c.Has {
		return c
	}
	for _, ref := range []string{"refs/heads/" + p.Target, "refs/remotes/origin/" + p.Target, "HEAD"} {
		if _, err := gitLine(ctx, dir, "merge-base", "--is-ancestor", "--end-of-options", string(p.Commit), ref); err == nil {
			c.On = append(c.On, ref)
		}
	}
	return c
}

func (a *app) proofText(w io.Writer, s *proofShape) {
	if !s.OK {
		fmt.Fprintln(w, "this receipt does not hold")
		for _, problem := range s.Problems {
			fmt.Fprintln(w, indentLine("problem: "+problem))
		}
		return
	}
	fmt.Fprintf(w, "%s landed on %s\n", s.Label, redact.Visible(s.Target))
	field(w, "commit", string(s.Commit))
	field(w, "tree", string(s.Tree))
	field(w, "content256", s.Content)
	field(w, "order", s.Order.String())
	field(w, "channel", s.Channel.String())
	fmt.Fprintln(w)
	var rows [][]string
	for _, d := range s.Did {
		rows = append(rows, []string{d.Did, string(d.Name), d.Time.UTC().Format("2006-01-02 15:04:05"), d.Record.String(), redact.Visible(d.Says)})
	}
	a.table(w, []string{"what", "by", "time (utc, theirs)", "record", "it says"}, rows)
	fmt.Fprintln(w)
	if s.Merged {
		fmt.Fprintln(w, "the branch had moved on: the tree holds its changes beside those that were reviewed")
	}
	if c := s.Clone; c != nil {
		switch {
		case !c.Has:
			fmt.Fprintln(w, "the git repository here does not have the commit")
		case len(c.On) == 0:
			fmt.Fprintf(w, "the git repository here has the commit, and not on %s\n", redact.Visible(s.Target))
		default:
			fmt.Fprintf(w, "the git repository here has the commit on %s\n", redact.Visible(c.On[0]))
		}
	}
	fmt.Fprintf(w, "%d records and %d headers hold under the id of this channel\n", s.Records, s.Headers)
	if !s.Compared {
		fmt.Fprintln(w, "whether it is the channel that you mean is for you to say: compare its id with one that you know, or give it with --channel")
	}
}
