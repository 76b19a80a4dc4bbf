package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

func (a *app) membersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "members",
		Short: "who is in the channel, what each may do, and who asks to join",
		Long: `Members lists everybody who is or was in the channel, and who asks to join. "Last"
is the time that the newest record of a member gives, or the file of the beat of
its worker; no other machine's clock is believed for more than that. "Version" is
the ferry of its worker, as that has said.`,
		Example: `  ferry channel members --json`,
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.members(cmd.Context()) },
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) members(ctx context.Context) error {
	return a.with(ctx, func(p *project) error {
		shape, err := p.membersShape(ctx)
		if err != nil {
			return err
		}
		return a.print(shape, func(w io.Writer) { a.membersText(w, &shape) })
	})
}

func (p *project) membersShape(ctx context.Context) (membersShape, error) {
	shape := membersShape{Members: []memberShape{}, Guests: []guestShape{}}
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return shape, err
	}
	doubts, err := p.channel.Doubts(ctx)
	if err != nil {
		return shape, err
	}
	here := p.writersHere()
	for _, w := range roster.Known() {
		s, err := p.memberShape(ctx, roster, w)
		if err != nil {
			return shape, err
		}
		for _, d := range doubts {
			if d.Witness == w && s.Why == "" {
				s.Why = doubtWords(roster, d)
			}
		}
		s.Here = here[s.Key]
		shape.Members = append(shape.Members, s)
	}
	guests, err := p.guests(ctx)
	for i := range guests {
		shape.Guests = append(shape.Guests, shapeOfGuest(&guests[i]))
	}
	return shape, err
}

// memberShape says everything that is known of one writer.
func (p *project) memberShape(ctx context.Context, roster *authority.Roster, w ferry.WriterID) (memberShape, error) {
	m, _ := roster.Member(w)
	master, _ := roster.Master()
	epoch := lastEpoch(roster, w)
	s := memberShape{
		Name: string(m.Name), Writer: string(m.Writer), Key: m.Key, Machine: m.Machine, Email: m.Email,
		Grants: wordsOf(m.Grants), Master: w == master.Writer, Epoch: epoch, Standing: standingMember, Scopes: []string{},
	}
	traces, err := p.channel.Traces(ctx, w, epoch)
	if err != nil {
		return s, err
	}
	s.Version = traces.Have.Version
	if !traces.Last.IsZero() {
		s.Last = &traces.Last
	}
	if d, _, ok := roster.Delegation(w); ok && !roster.Expired(d, p.app.now()) {
		s.Scopes = wordsOf(d.Scopes)
	}
	switch {
	case s.Master:
		s.Standing = standingMaster
	case roster.Epoch(w) == 0 && len(m.Grants) == 0 && p.wasMaster(roster, w):
		s.Standing = standingWas
	case roster.Epoch(w) == 0:
		s.Standing = standingRevoked
		err = p.sinceRevoked(ctx, &s)
	case traces.Fork > 0:
		s.Standing, s.Why = standingForked, fmt.Sprintf("it has signed number %d twice, and nothing from there on counts", traces.Fork)
	}
	return s, err
}

// The standings of a member.
const (
	standingMaster  = "master"
	standingMember  = "member"
	standingWas     = "was the master"
	standingRevoked = "revoked"
	standingForked  = "forked"
)

func (p *project) wasMaster(roster *authority.Roster, w ferry.WriterID) bool {
	for _, rec := range roster.Roots() {
		if b, ok := rec.Body.(*ferry.Root); ok && b.Master.Writer == w {
			return true
		}
	}
	return false
}

// sinceRevoked says when a member was shut out, and why.
func (p *project) sinceRevoked(ctx context.Context, s *memberShape) error {
	rulings, err := p.channel.Rulings(ctx, ferry.WriterID(s.Writer))
	for _, rec := range rulings {
		if b, ok := rec.Body.(*ferry.Revoke); ok {
			s.Why = fmt.Sprintf("since %s%s", rec.Time.Local().Format("2006-01-02"), colon(b.Reason))
		}
	}
	return err
}

func (a *app) membersText(w io.Writer, shape *membersShape) {
	var rows [][]string
	for _, m := range shape.Members {
		may := strings.Join(m.Grants, ", ")
		if m.Master {
			may = "everything but work"
		}
		if len(m.Scopes) > 0 {
			may += "; for the master: " + strings.Join(m.Scopes, ", ")
		}
		last := ""
		if m.Last != nil {
			last = age(a.now(), *m.Last)
		}
		key := fmt.Sprint(m.Epoch)
		if m.Here {
			key += " here"
		}
		standing := m.Standing
		if m.Why != "" {
			standing += " " + m.Why
		}
		rows = append(rows, []string{m.Name, m.Machine, may, key, last, m.Version, standing})
	}
	for _, g := range shape.Guests {
		asks := "asks to join"
		if g.Rejoin {
			asks = "asks for its next key"
		}
		rows = append(rows, []string{g.Name, g.Machine, g.Role, "", "", g.Version, asks + ": `ferry channel admit`"})
	}
	a.table(w, []string{"name", "machine", "may", "key", "last", "version", "standing"}, rows)
}

func (a *app) verifyCommand() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "verify [DIR|FILE]",
		Short: "check every record again, from the bytes",
		Long: `Verify reads every record of this machine's store and of the folder again:
signature, chain, authority, and the state that follows. With DIR it checks a
channel's folder that this machine knows nothing else about, with FILE a receipt
that ` + "`ferry channel receipt --out`" + ` wrote, or an archive. These need no project
here.`,
		Example: `  ferry channel verify
  ferry channel verify /mnt/backup/channel --channel 5c1e…
  ferry channel verify t-first.receipt --channel 5c1e…`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.verifyDir(cmd.Context(), args[0], id)
			}
			return a.verify(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&id, "channel", "", "the channel's `ID` that the folder or the receipt must have")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) verifyText(w io.Writer, s *verifyShape) {
	if s.OK {
		fmt.Fprintf(w, "%d records of %d writers hold; digest of all states %s\n", s.Records, s.Writers, s.Digest)
		return
	}
	var rows [][]string
	for _, p := range s.Problems {
		rows = append(rows, []string{p.Writer, fmt.Sprint(p.Seq), p.Kind, p.Detail})
	}
	a.table(w, []string{"writer", "seq", "kind", "detail"}, rows)
	fmt.Fprintf(w, "%d problems in %d records of %d writers\n", len(s.Problems), s.Records, s.Writers)
}
