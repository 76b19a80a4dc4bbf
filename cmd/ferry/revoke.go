package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// cutFlags say how much of a writer's chain goes on counting, as typed.
type cutFlags struct {
	keep string
	none bool
}

// revokeFlags are the flags of `channel revoke`, as typed.
type revokeFlags struct {
	cut    cutFlags
	reason string
	yes    bool
}

func (a *app) revokeCommand() *cobra.Command {
	var f revokeFlags
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "shut a member out",
		Long: `Revoke shuts a member out on every machine. What it wrote up to the cut goes on
counting, what came or comes after it never does. The cut is the newest record
that is known here, unless --keep names an earlier one or --keep-none cuts off
everything. Its live starts and claims are ended, so that others take its orders.

Revoke takes no right away outside the channel. It says what else there is to do.`,
		Example: `  ferry channel revoke wisp-codex --reason "the laptop was stolen"
  ferry channel revoke wisp-codex --keep 118 --yes`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.revoke(cmd.Context(), args[0], f, cmd.InOrStdin())
		},
	}
	s := cmd.Flags()
	s.StringVar(&f.cut.keep, "keep", "", "`SEQ` of the last record that counts; SEQ:ID where a number was signed twice")
	s.BoolVar(&f.cut.none, "keep-none", false, "nothing that it wrote counts")
	s.StringVar(&f.reason, "reason", "", "why, kept in the record")
	s.BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.MarkFlagsMutuallyExclusive("keep", "keep-none")
	a.jsonFlag(cmd)
	return cmd
}

// revokedShape answers revoke.
type revokedShape struct {
	Name    string   `json:"name"`
	Writer  string   `json:"writer"`
	Epoch   uint32   `json:"epoch"`
	Keep    int64    `json:"keep"`
	KeepID  string   `json:"keep_id"`
	Dropped int      `json:"dropped"`
	Orders  []string `json:"orders"`
	Record  string   `json:"record"`
	Next    []string `json:"next"`
}

func (a *app) revoke(ctx context.Context, who string, f revokeFlags, in io.Reader) error {
	if err := checkNotes(f.reason); err != nil {
		return err
	}
	return a.with(ctx, func(p *project) error {
		w, err := p.operator()
		if err != nil {
			return err
		}
		m, err := p.member(ctx, who)
		if err != nil {
			if out, outErr := p.anyMember(ctx, who); outErr == nil {
				err = p.isOut(ctx, out)
			}
			return err
		}
		if m.Writer == w.ID() {
			return faultf(classRefused, "`ferry channel rotate-root` gives the master another key; `ferry channel recover` is for a master that is lost",
				"revoke %s: that is you", m.Name)
		}
		c, err := p.cutOf(ctx, m, f.cut)
		if err != nil {
			return err
		}
		if !f.yes {
			if err := a.sure(in, fmt.Sprintf("revoke %s on %s: %s. Do it?", m.Name, m.Machine, c.words())); err != nil {
				return err
			}
		}
		return p.shutOut(ctx, w, m, revocation{c, f.reason})
	})
}

// isOut refuses to revoke one that may write no more.
func (p *project) isOut(ctx context.Context, m ferry.Member) error {
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return err
	}
	if p.wasMaster(roster, m.Writer) && len(m.Grants) == 0 {
		return faultf(classRefused, "`ferry channel members` lists who is in", "revoke %s: that was the master, and its key is of no use any more", m.Name)
	}
	return faultf(classRefused, "to let it in again, `ferry channel rejoin` on its machine, then `ferry channel admit` here", "%s is revoked already", m.Name)
}

// sure asks a person, and refuses where there is none or the answer is no.
func (a *app) sure(in io.Reader, question string) error {
	if !a.talks(in) {
		return misuse("look at it, then add --yes", "%s there is no terminal to ask on", question)
	}
	yes, err := a.agrees(in, question)
	if err == nil && !yes {
		err = faultf(classRefused, "nothing was written", "not done: you did not say yes")
	}
	return err
}

// cut says where a chain ends, and what that does.
type cut struct {
	ferry.Cut
	held    int // records that are known
	dropped int // of them, those that stop counting
	forked  bool
}

func (c *cut) words() string {
	if c.held == 0 {
		return "it has written nothing that is known here"
	}
	kept := fmt.Sprintf("what it wrote up to number %d goes on counting", c.Seq)
	if c.Seq == 0 {
		return fmt.Sprintf("nothing that it wrote counts, which is %d records as far as is known here", c.dropped)
	}
	switch c.dropped {
	case 0:
		return kept + ", and nothing later is known here"
	case 1:
		return kept + ", and 1 record that is known here does not"
	}
	return fmt.Sprintf("%s, and %d records that are known here do not", kept, c.dropped)
}

// cutOf finds where the chain of a member is to end: with the newest record
// that counts, or where the flags say.
func (p *project) cutOf(ctx context.Context, m ferry.Member, f cutFlags) (cut, error) {
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return cut{}, err
	}
	epoch := lastEpoch(roster, m.Writer)
	links, err := p.channel.Chain(ctx, m.Writer, epoch)
	if err != nil {
		return cut{}, err
	}
	c := cut{Cut: ferry.Cut{Epoch: int64(epoch)}, held: len(links)}
	for i, l := range links {
		c.forked = c.forked || i > 0 && links[i-1].Seq == l.Seq
		if l.Counts && !f.none && f.keep == "" {
			c.Seq, c.ID = int64(l.Seq), l.ID
		}
	}
	if f.keep != "" {
		if c.Seq, c.ID, err = linkNamed(links, f.keep); err != nil {
			return c, err
		}
	}
	for _, l := range links {
		if int64(l.Seq) > c.Seq {
			c.dropped++
		}
	}
	return c, nil
}

// linkNamed finds the record that --keep names by its number, and where that
// was signed twice by the beginning of its id.
func linkNamed(links []channel.Link, keep string) (int64, ferry.RecordID, error) {
	number, prefix, _ := strings.Cut(keep, ":")
	seq, err := strconv.ParseUint(number, 10, 63)
	if err != nil || seq == 0 {
		return 0, ferry.RecordID{}, misuse("give the number of its last good record, as `ferry channel log` shows it", "--keep %q: not such a number", clip(keep, 80))
	}
	var found []channel.Link
	var ids []string
	for _, l := range links {
		if l.Seq == seq && strings.HasPrefix(l.ID.String(), strings.ToLower(prefix)) {
			found = append(found, l)
			ids = append(ids, fmt.Sprintf("%d:%s", seq, l.ID.Short()))
		}
	}
	switch len(found) {
	case 1:
		return int64(seq), found[0].ID, nil
	case 0:
		last := uint64(0)
		if n := len(links); n > 0 {
			last = links[n-1].Seq
		}
		return 0, ferry.RecordID{}, faultf(classNotFound, fmt.Sprintf("the newest that is known here is number %d", last), "--keep %s: no such record is known here", clip(keep, 80))
	}
	return 0, ferry.RecordID{}, faultf(classAmbiguous, "give one of --keep "+strings.Join(ids, ", --keep "), "--keep %s: this number was signed twice", clip(keep, 80))
}

// revocation is what a revoke is going to write.
type revocation struct {
	cut    cut
	reason string
}

// shutOut writes the revocation and ends what its writer holds.
func (p *project) shutOut(ctx context.Context, w *channel.Writer, m ferry.Member, r revocation) error {
	reason, err := p.note(r.reason)
	if err != nil {
		return err
	}
	held, err := p.heldBy(ctx, m.Writer, "")
	if err != nil {
		return err
	}
	ids, err := w.Update(ctx, p.app.now(), func(tx *channel.Tx) error {
		if _, err := tx.Add(&ferry.Revoke{Writer: m.Writer, Keep: r.cut.Cut, Reason: reason}); err != nil {
			return err
		}
		return endAll(tx, held, m.Writer, "revoked")
	})
	if err := p.app.published(err); err != nil {
		return err
	}
	shape := revokedShape{
		Name: string(m.Name), Writer: string(m.Writer), Epoch: uint32(r.cut.Epoch), Keep: r.cut.Seq, Dropped: r.cut.dropped,
		Orders: []string{}, Record: ids[0].String(), Next: p.afterRevoke(m),
	}
	if r.cut.Seq > 0 {
		shape.KeepID = r.cut.ID.String()
	}
	for _, id := range held {
		t, err := p.channel.Task(ctx, id.String())
		if err != nil {
			return err
		}
		shape.Orders = append(shape.Orders, string(t.Order.Label))
	}
	return p.app.print(shape, func(w io.Writer) {
		fmt.Fprintf(w, "%s is shut out: %s\n", m.Name, r.cut.words())
		if len(shape.Orders) > 0 {
			fmt.Fprintf(w, "given back: %s\n", strings.Join(shape.Orders, ", "))
		}
		for _, s := range shape.Next {
			fmt.Fprintln(w, indent("- "+s))
		}
	})
}

// afterRevoke says what a revocation does not do by itself.
func (p *project) afterRevoke(m ferry.Member) []string {
	next := []string{
		"take " + m.Machine + " out of what moves the folder " + p.config.Channel + ": it can still read what comes",
		"change what that machine could log in with: the git remote, the engines' keys, tokens in its environment",
	}
	if slices.Contains(m.Grants, ferry.GrantLand) {
		next = append(next, "look at what it has landed: `ferry channel tasks`, and git log of the branches it could push to")
	}
	return next
}
