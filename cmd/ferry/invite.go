package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// role is what a new member is to do: the grants that it gets, and whether it
// is a person or an agent.
type role struct {
	name   string
	person bool
	grants []ferry.Grant
	what   string
}

func roles() []role {
	return []role{
		{"worker", false, []ferry.Grant{ferry.GrantWork}, "an agent that takes orders"},
		{"reviewer", true, []ferry.Grant{ferry.GrantReview}, "a person who reviews"},
		{"operator", true, []ferry.Grant{ferry.GrantOrder, ferry.GrantReview, ferry.GrantLand, ferry.GrantDispatch, ferry.GrantAnswer}, "a person who orders, reviews, answers and lands"},
	}
}

func roleNamed(name string) (role, error) {
	var names []string
	for _, r := range roles() {
		if r.name == name {
			return r, nil
		}
		names = append(names, r.name)
	}
	return role{}, misuse("it is one of "+strings.Join(names, ", "), "--role %q: there is no such role", clip(name, 40))
}

// roleOf gives the role with these grants. Grants that are no role's are
// those of an agent, if it can work.
func roleOf(grants []ferry.Grant) role {
	for _, r := range roles() {
		if len(r.grants) == len(grants) && !slices.ContainsFunc(r.grants, func(g ferry.Grant) bool { return !slices.Contains(grants, g) }) {
			return r
		}
	}
	return role{strings.Join(wordsOf(grants), "+"), !slices.Contains(grants, ferry.GrantWork), grants, ""}
}

// inviteFlags are the flags of `channel invite`, as typed.
type inviteFlags struct {
	role, name, expires   string
	many, yes, noWait, qr bool
}

func (a *app) inviteCommand() *cobra.Command {
	var f inviteFlags
	cmd := &cobra.Command{
		Use:   "invite",
		Short: "let another machine ask to join",
		Long: `Invite prints one code. On the other machine, ` + "`ferry channel join CODE`" + ` reads it
and asks to be let in; both machines then show the same six words. On a terminal
invite waits for the question, shows the words, and lets the machine in when you
say that they are the same. Without one, ` + "`ferry channel admit`" + ` does that later.

The code is a secret until it has been used or has ended: whoever holds it can
ask to join. The roles are: ` + rolesLine() + `.`,
		Example: `  ferry channel invite
  ferry channel invite --role operator --name bob --expires 2h`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.invite(cmd.Context(), f, cmd.InOrStdin()) },
	}
	s := cmd.Flags()
	s.StringVar(&f.role, "role", "worker", "`ROLE` of the new member: worker, reviewer or operator")
	s.StringVar(&f.name, "name", "", "what the new member is to be called (default: it says so itself)")
	s.StringVar(&f.expires, "expires", "24h", "`TIME` until the code ends, like 30m, 24h or 7d")
	s.BoolVar(&f.many, "many", false, "the code serves any number of machines")
	s.BoolVar(&f.yes, "yes", false, "admit who asks without comparing the words; the record says so")
	s.BoolVar(&f.noWait, "no-wait", false, "print the code and do not wait for the machine")
	s.BoolVar(&f.qr, "qr", false, "draw the QR code even where there is no terminal")
	a.jsonFlag(cmd)
	return cmd
}

func rolesLine() string {
	var words []string
	for _, r := range roles() {
		words = append(words, r.name+" ("+r.what+")")
	}
	return strings.Join(words, ", ")
}

// invitedShape answers invite.
type invitedShape struct {
	Code     string    `json:"code"`
	Invite   string    `json:"invite"`
	Role     string    `json:"role"`
	Grants   []string  `json:"grants"`
	Name     string    `json:"name"`
	Many     bool      `json:"many"`
	NotAfter time.Time `json:"not_after"`
	Next     string    `json:"next"`
}

func (a *app) invite(ctx context.Context, f inviteFlags, in io.Reader) error {
	r, err := roleNamed(f.role)
	if err != nil {
		return err
	}
	span, err := parseSpan("--expires", f.expires)
	if err != nil {
		return err
	}
	if f.name != "" {
		if _, err := parseAgent(f.name); err != nil {
			return err
		}
	}
	if f.many && f.name != "" {
		return misuse("leave --name out: each machine names itself", "--many --name %s: two members cannot have one name", f.name)
	}
	return a.with(ctx, func(p *project) error {
		w, err := p.operator()
		if err != nil {
			return err
		}
		if err := p.nameFree(ctx, ferry.AgentName(f.name)); err != nil {
			return err
		}
		t, err := p.writeInvite(ctx, w, r, inviteSpec{many: f.many, notAfter: a.now().Add(span).UTC().Truncate(time.Second), name: f.name})
		if err != nil {
			return err
		}
		wait := !f.noWait && !a.json && (f.yes || a.talks(in))
		if err := a.printInvite(&t, r, f, wait); err != nil || !wait {
			return err
		}
		return p.awaitGuest(ctx, w, t.Invite, admitHow{yes: f.yes, in: in, many: f.many})
	})
}

// nameFree refuses a name that a member has or had.
func (p *project) nameFree(ctx context.Context, n ferry.AgentName) error {
	roster, err := p.channel.Roster(ctx)
	if err != nil || n == "" {
		return err
	}
	if m, taken := nameHolder(roster, n); taken {
		return faultf(classRefused, "choose another with --name NAME; `ferry channel members` lists those in use", "the name %s: it belongs to a member on %s", n, m.Machine)
	}
	return nil
}

type inviteSpec struct {
	many     bool
	notAfter time.Time
	name     string
}

// writeInvite writes the record and makes the token that belongs to it.
func (p *project) writeInvite(ctx context.Context, w *channel.Writer, r role, s inviteSpec) (channel.Token, error) {
	t := channel.NewToken()
	key, err := t.Key()
	if err != nil {
		return t, err
	}
	id, err := p.says(ctx, w, &ferry.Invite{
		Key: key.Public().String(), Grants: r.grants, NotAfter: s.notAfter.Format(time.RFC3339), Many: s.many,
	})
	if err != nil {
		return t, err
	}
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return t, err
	}
	at, ok, err := p.channel.Record(ctx, id)
	if err != nil || !ok {
		return t, cmp.Or(err, fmt.Errorf("invite %s: it is not in the store", id.Short()))
	}
	t.Channel, t.Root, t.Master = p.config.ChannelID, roster.Root().ID, at.Writer
	t.Invite, t.Epoch, t.Seq = id, at.Epoch, at.Seq
	t.NotAfter, t.Name, t.Carrier = s.notAfter, s.name, hintOf(p.config.Channel)
	return t, nil
}

// maxHint bounds the path in a code: a longer one would make it longer for
// little use.
const maxHint = 100

// hintOf says where the folder is on this machine, which helps where machines
// share a disk or are set up alike.
func hintOf(folder string) channel.Hint {
	if home, err := os.UserHomeDir(); err == nil && home != "/" {
		if rel, err := filepath.Rel(home, folder); err == nil && filepath.IsLocal(rel) {
			folder = filepath.Join("~", rel)
		}
	}
	if len(folder) > maxHint || folder != strings.ToValidUTF8(folder, "") {
		return channel.Hint{Kind: carrierFolder}
	}
	return channel.Hint{Kind: carrierFolder, Text: folder}
}

const carrierFolder = "folder"

func (a *app) printInvite(t *channel.Token, r role, f inviteFlags, wait bool) error {
	code, err := t.Code()
	if err != nil {
		return err
	}
	shape := invitedShape{
		Code: code, Invite: t.Invite.String(), Role: r.name, Grants: wordsOf(r.grants), Name: t.Name, Many: f.many,
		NotAfter: t.NotAfter, Next: "ferry channel admit",
	}
	return a.print(shape, func(w io.Writer) {
		if f.qr || screenOf(a.out).width > 0 {
			qrCode(w, code)
		}
		fmt.Fprintf(w, "%s\n\n", code)
		once := "for one machine"
		if f.many {
			once = "for any number of machines"
		}
		fmt.Fprintf(w, "This code lets its holder ask to join as %s, %s, until %s. Keep it to yourself.\n", r.name, once, t.NotAfter.Local().Format("2006-01-02 15:04"))
		fmt.Fprintf(w, "On the other machine, in a clone of this repository:\n\n  ferry channel join CODE --channel DIR\n\n")
		if !wait {
			fmt.Fprintln(w, "Then here: `ferry channel admit` shows who asks.")
		}
	})
}
