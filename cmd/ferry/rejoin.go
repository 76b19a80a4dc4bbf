package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/machine"
)

func (a *app) rejoinCommand() *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use:   "rejoin [NAME]",
		Short: "ask for the next key of a member of this machine",
		Long: `Rejoin makes another key for a member of this machine, by default the agent of
this project, and asks the master to let it go on with that one. It helps where
the key or the store was lost, where a copy of this machine has used the same
key, and where you want a fresh one.

Like join it shows six words, which the master's machine has to show as well.
The member's name stays, and so does what it wrote before.`,
		Example: `  ferry channel rejoin
  ferry channel rejoin bob`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			who := ""
			if len(args) == 1 {
				who = args[0]
			}
			return a.rejoin(cmd.Context(), who, noWait)
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "ask, and do not wait for the answer")
	a.jsonFlag(cmd)
	return cmd
}

// rejoinedShape answers rejoin.
type rejoinedShape struct {
	Name      string   `json:"name"`
	Admitted  bool     `json:"admitted"`
	Epoch     int64    `json:"epoch"`
	Words     []string `json:"words"`
	PublicKey string   `json:"public_key"`
	Next      string   `json:"next"`
}

func (a *app) rejoin(ctx context.Context, who string, noWait bool) error {
	return a.with(ctx, func(p *project) error {
		m, base, err := p.ownMember(ctx, who)
		if err != nil {
			return err
		}
		q, err := p.askAgain(ctx, m, base)
		if err != nil {
			return err
		}
		if !a.json {
			fmt.Fprintf(a.err, "Asked for the next key of %s. The words of this machine:\n\n  %s\n\n", m.Name, strings.Join(q.Words, " "))
		}
		shape := rejoinedShape{Name: string(m.Name), Words: q.Words, PublicKey: q.Key, Next: q.next()}
		look := func() (bool, string, error) {
			if _, err := p.channel.Refresh(ctx); err != nil {
				return false, "", fmt.Errorf("read the channel: %w", err)
			}
			got, ok, err := answered(ctx, p.channel, &q)
			if err != nil || !ok {
				return false, "the master has not answered yet: there, `ferry channel admit`", err
			}
			shape.Admitted, shape.Epoch, shape.Words, shape.Next = true, got.epoch, []string{}, "`ferry doctor`"
			return true, "", p.state.settle(p.config, base, &q)
		}
		if noWait {
			_, _, err = look()
		} else {
			err = a.until(ctx, look)
		}
		if err != nil {
			return err
		}
		return a.print(shape, func(w io.Writer) {
			if shape.Admitted {
				fmt.Fprintf(w, "%s goes on with its next key, as epoch %d\n", m.Name, shape.Epoch)
			}
			fmt.Fprintln(w, "next: "+shape.Next)
		})
	})
}

// ownMember finds the member that a name means, and the file of its key here.
func (p *project) ownMember(ctx context.Context, who string) (ferry.Member, string, error) {
	if who == "" {
		who = string(p.config.Agent)
	}
	if who == "" {
		return ferry.Member{}, "", misuse("say who: `ferry channel rejoin NAME`; `ferry channel members` lists the names", "rejoin: this project has no agent")
	}
	m, err := p.anyMember(ctx, who)
	if err != nil {
		return m, "", err
	}
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return m, "", err
	}
	if master, ok := roster.Master(); ok && master.Writer == m.Writer {
		return m, "", faultf(classRefused, "`ferry channel rotate-root` gives the master another key; `ferry channel recover` is for a key that is lost",
			"rejoin %s: that is the master", m.Name)
	}
	if slices.Contains(m.Grants, ferry.GrantWork) {
		return m, string(m.Name), nil
	}
	return m, operatorBase, nil
}

// askAgain makes the next key and the question about it, or takes up those of
// an earlier call.
func (p *project) askAgain(ctx context.Context, m ferry.Member, base string) (asking, error) {
	id := p.config.ChannelID
	if err := atomicfile.MkdirAll(p.state.keys(id), 0o700); err != nil {
		return asking{}, err
	}
	key, err := keyAt(p.state.nextKey(id, base))
	if err != nil {
		return asking{}, err
	}
	q, have, err := p.state.readAsking(id, base)
	switch {
	case err != nil:
		return q, err
	case have && !q.Rejoin:
		return q, q.waits()
	case !have || q.Key != key.Public().String() || q.Writer != m.Writer:
		q = newAsking(m.Name, id, ferry.RecordID{}, key.Public())
		q.Rejoin, q.Writer, q.Since = true, m.Writer, p.app.now().UTC()
		if err := saveJSON(p.state.asking(id, base), q, 0o600); err != nil {
			return q, err
		}
	}
	if err := channel.PutRejoin(p.config.Channel, q.again(id), key); err != nil {
		return q, fault(classChannel, "make "+p.config.Channel+" writable for you, then run this again", err)
	}
	return q, nil
}

// again gives the question of a member as it stands in the folder.
func (q *asking) again(id ferry.RecordID) channel.RejoinRequest {
	return channel.RejoinRequest{Channel: id, Member: q.Writer, Key: q.Key, Nonce: q.Nonce, Machine: machine.Name(), Version: version().Version}
}
