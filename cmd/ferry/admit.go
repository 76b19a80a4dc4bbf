package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// admitFlags are the flags of `channel admit`, as typed.
type admitFlags struct {
	name string
	cut  cutFlags
	yes  bool
}

func (a *app) admitCommand() *cobra.Command {
	var f admitFlags
	cmd := &cobra.Command{
		Use:   "admit [NAME | WORDS]",
		Short: "see who asks to join, and let one in",
		Long: `Admit without a name lists the machines that ask, each with six words. Compare
them with the words that the machine itself shows: only the same words prove that
it is this machine that asks. Give the words, or the name and answer the question.

A member that asks for its next key gets it in the same way. What it wrote under
the key before counts up to the newest record that is known here, or up to --keep.`,
		Example: `  ferry channel admit
  ferry channel admit junk broom open fragile autumn plate
  ferry channel admit wisp-codex --name wisp-codex-2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.admit(cmd.Context(), strings.Join(args, " "), f, cmd.InOrStdin())
		},
	}
	s := cmd.Flags()
	s.StringVar(&f.name, "name", "", "admit it under this `NAME`")
	s.StringVar(&f.cut.keep, "keep", "", "of its key before, `SEQ` of the last record that counts")
	s.BoolVar(&f.yes, "yes", false, "do not compare the words; the record says so")
	a.jsonFlag(cmd)
	return cmd
}

// guest is a machine that asks to be let in.
type guest struct {
	channel.JoinRequest
	words  []string
	role   role
	member *ferry.Member // of one that asks for its next key
	taken  string        // who has the name that it asks for
}

// guestShape shows one guest.
type guestShape struct {
	Name    string   `json:"name"`
	Machine string   `json:"machine"`
	Email   string   `json:"email"`
	Role    string   `json:"role"`
	Rejoin  bool     `json:"rejoin"`
	Key     string   `json:"key"`
	Invite  string   `json:"invite"`
	Version string   `json:"version"`
	Words   []string `json:"words"`
	Why     string   `json:"why"`
}

type guestsShape struct {
	Guests []guestShape `json:"guests"`
}

func shapeOfGuest(g *guest) guestShape {
	s := guestShape{
		Name: g.Name, Machine: g.Machine, Email: g.Email, Role: g.role.name, Rejoin: g.member != nil, Key: g.Key,
		Version: g.Version, Words: g.words, Why: g.why(),
	}
	if !g.Invite.IsZero() {
		s.Invite = g.Invite.String()
	}
	return s
}

// why says why the guest cannot be let in as it asks.
func (g *guest) why() string {
	if g.taken == "" {
		return ""
	}
	return "the name belongs to a member on " + g.taken + ": --name OTHER admits it under another"
}

// admittedShape answers admit.
type admittedShape struct {
	guestShape
	Grants []string `json:"grants"`
	Epoch  int64    `json:"epoch"`
	Auto   bool     `json:"auto"`
	Record string   `json:"record"`
}

// admitHow says how a guest is to be let in.
type admitHow struct {
	name     string
	cut      cutFlags
	yes      bool // without comparing the words
	compared bool // the words were typed
	in       io.Reader
	many     bool
}

func (a *app) admit(ctx context.Context, who string, f admitFlags, in io.Reader) error {
	if f.name != "" {
		if _, err := parseAgent(f.name); err != nil {
			return err
		}
	}
	return a.with(ctx, func(p *project) error {
		guests, err := p.guests(ctx)
		if err != nil {
			return err
		}
		how := admitHow{name: f.name, cut: f.cut, yes: f.yes, in: in}
		if who == "" && (len(guests) != 1 || !f.yes && !a.talks(in)) {
			return a.listGuests(guests)
		}
		g := &guest{}
		if who == "" {
			g = &guests[0]
		} else if g, how.compared, err = guestNamed(guests, who); err != nil {
			return err
		}
		w, err := p.operator()
		if err != nil {
			return err
		}
		return p.letIn(ctx, w, g, how)
	})
}

func (a *app) listGuests(guests []guest) error {
	shape := guestsShape{Guests: []guestShape{}}
	for i := range guests {
		shape.Guests = append(shape.Guests, shapeOfGuest(&guests[i]))
	}
	return a.print(shape, func(w io.Writer) {
		if len(guests) == 0 {
			fmt.Fprintln(w, "nobody asks to join: `ferry channel invite` makes a code for another machine")
			return
		}
		var rows [][]string
		for _, g := range shape.Guests {
			as := g.Role
			if g.Rejoin {
				as = "its next key"
			}
			rows = append(rows, []string{g.Name, g.Machine, as, strings.TrimPrefix(strings.Join(g.Words, " ")+because(g.Why), " ")})
		}
		a.table(w, []string{"name", "machine", "asks for", "words"}, rows)
		fmt.Fprintln(w, "\nCompare the words with those that the machine itself shows, then: `ferry channel admit WORDS`")
	})
}

// guestNamed finds the guest that a name or six words mean. Only words that
// are all the same are those of a guest.
func guestNamed(guests []guest, who string) (g *guest, compared bool, err error) {
	words := strings.Fields(strings.ToLower(who))
	var byName []*guest
	for i := range guests {
		g := &guests[i]
		if slices.Equal(words, g.words) {
			return g, true, nil
		}
		if strings.EqualFold(g.Name, who) {
			byName = append(byName, g)
		}
	}
	switch {
	case len(byName) == 1:
		return byName[0], false, nil
	case len(byName) > 1:
		return nil, false, faultf(classAmbiguous, "give the six words that the machine shows", "admit %s: %d machines ask under this name", clip(who, 64), len(byName))
	case len(words) > 1:
		return nil, false, faultf(classNotFound, "`ferry channel admit` lists who asks; if the machine shows these words, its question is not here yet, or somebody else's is",
			"admit: nobody asks with the words %q", clip(strings.Join(words, " "), 120))
	}
	return nil, false, faultf(classNotFound, "`ferry channel admit` lists who asks; the question may still be on its way, or its code has ended or has been used", "admit %q: nobody asks under this name", clip(who, 64))
}

// guests lists who asks. Those whose code has ended or was used are not
// among them.
func (p *project) guests(ctx context.Context) ([]guest, error) {
	requests, err := p.channel.JoinRequests(ctx, p.app.now())
	if err != nil {
		return nil, err
	}
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return nil, err
	}
	var out []guest
	for _, r := range requests {
		g := guest{JoinRequest: r}
		rec, _, err := p.channel.Record(ctx, r.Invite)
		if err != nil {
			return nil, err
		}
		if invite, ok := rec.Body.(*ferry.Invite); ok {
			g.role = roleOf(invite.Grants)
		}
		if m, taken := nameHolder(roster, ferry.AgentName(r.Name)); taken {
			g.taken = m.Machine
		}
		out = append(out, g)
	}
	again, err := p.channel.RejoinRequests(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range again {
		if m, ok := roster.Member(r.Member); ok {
			g := guest{member: &m, role: roleOf(m.Grants)}
			g.Name, g.Machine, g.Key, g.Nonce, g.Version = string(m.Name), r.Machine, r.Key, r.Nonce, r.Version
			out = append(out, g)
		}
	}
	for i := range out {
		if out[i].words, err = wordsFor(p.config.ChannelID, &out[i].JoinRequest); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// wordsFor gives the six words of a question.
func wordsFor(id ferry.RecordID, r *channel.JoinRequest) ([]string, error) {
	key, err := sign.ParsePublicKey(r.Key)
	if err != nil {
		return nil, err
	}
	nonce, err := hex.DecodeString(r.Nonce)
	if err != nil {
		return nil, fmt.Errorf("nonce of %s: %w", r.Name, err)
	}
	return joinWords(id, key, nonce, r.Invite), nil
}
