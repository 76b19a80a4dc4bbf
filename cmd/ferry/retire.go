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
)

func (a *app) retireCommand() *cobra.Command {
	var order, reason string
	cmd := &cobra.Command{
		Use:   "retire NAME",
		Short: "give back the orders of a worker that is gone",
		Long: `Retire ends the live starts and claims of a worker that will not come back, so
that others take its orders. What it did is kept, nothing counts against the
orders, and the worker stays a member: should it come back, it stops what it
runs. To shut it out, use revoke.`,
		Example: `  ferry channel retire wisp-codex --reason "the laptop was sold"
  ferry channel retire wisp-codex --order t-first`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.retire(cmd.Context(), args[0], order, reason)
		},
	}
	cmd.Flags().StringVar(&order, "order", "", "only this `ORDER`")
	cmd.Flags().StringVar(&reason, "reason", "", "why, kept in the ledger")
	a.jsonFlag(cmd)
	return cmd
}

// retiredShape answers retire: the orders that were given back.
type retiredShape struct {
	Name   string       `json:"name"`
	Writer string       `json:"writer"`
	Orders []actedShape `json:"orders"`
}

func (a *app) retire(ctx context.Context, who, order, reason string) error {
	if err := checkNotes(reason); err != nil {
		return err
	}
	return a.with(ctx, func(p *project) error {
		w, err := p.operator()
		if err != nil {
			return err
		}
		m, err := p.anyMember(ctx, who)
		if err != nil {
			return err
		}
		for _, s := range p.workersAlive() {
			if s.Writer == m.Writer {
				return faultf(classRefused, "stop it first: end `ferry agent run`, which gives its orders back by itself",
					"retire %s: it works on this machine, as process %d", m.Name, s.PID)
			}
		}
		held, err := p.heldBy(ctx, m.Writer, order)
		if err != nil {
			return err
		}
		if len(held) == 0 {
			return faultf(classRefused, "`ferry channel tasks` shows who holds what", "retire %s: it holds nothing%s", m.Name, ofOrder(order))
		}
		if reason, err = p.note(reason); err != nil {
			return err
		}
		ids, err := w.Update(ctx, a.now(), func(tx *channel.Tx) error { return endAll(tx, held, m.Writer, reason) })
		if err := a.published(err); err != nil {
			return err
		}
		return a.retired(ctx, p, m, held, ids)
	})
}

func ofOrder(ref string) string {
	if ref == "" {
		return ""
	}
	return " of " + clip(ref, 64)
}

// retired says where the orders stand that were given back.
func (a *app) retired(ctx context.Context, p *project, m ferry.Member, held, ids []ferry.RecordID) error {
	shape := retiredShape{Name: string(m.Name), Writer: string(m.Writer), Orders: []actedShape{}}
	for i, id := range held {
		t, err := p.channel.Task(ctx, id.String())
		if err != nil {
			return err
		}
		record := ferry.RecordID{}
		if len(ids) == len(held) {
			record = ids[i]
		}
		shape.Orders = append(shape.Orders, actedOf(&t, record))
	}
	return a.print(shape, func(w io.Writer) {
		for _, o := range shape.Orders {
			fmt.Fprintf(w, "%s is %s\n", o.Label, stateWords(o.State, o.Hold))
		}
	})
}

// heldBy gives the active orders of which a writer has a live start or claim,
// or the one of them that ref means.
func (p *project) heldBy(ctx context.Context, w ferry.WriterID, ref string) ([]ferry.RecordID, error) {
	var tasks []ferry.Task
	if ref != "" {
		t, err := p.channel.Task(ctx, ref)
		if err != nil {
			return nil, err
		}
		tasks = []ferry.Task{t}
	} else {
		snap, err := p.channel.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		tasks = snap.Active
	}
	var held []ferry.RecordID
	for i := range tasks {
		if len(liveOf(&tasks[i], w)) > 0 {
			held = append(held, tasks[i].ID)
		}
	}
	return held, nil
}

// live is a start or a claim that has not ended.
type live struct {
	id    ferry.RecordID
	start bool
}

// liveOf gives the live starts and claims of a writer.
func liveOf(t *ferry.Task, w ferry.WriterID) []live {
	var out []live
	for _, at := range t.Attempts {
		if at.Stop == nil && at.Result.IsZero() && at.Holder == w {
			out = append(out, live{at.Start, true})
		}
	}
	for _, c := range t.Claims {
		if c.Writer == w {
			out = append(out, live{c.ID, false})
		}
	}
	return out
}

// endAll writes a retirement for each live start and claim of a writer. What
// ended in the meantime is left alone.
func endAll(tx *channel.Tx, orders []ferry.RecordID, w ferry.WriterID, reason string) error {
	for _, id := range orders {
		t, err := tx.Task(id)
		if err != nil {
			return err
		}
		for _, l := range liveOf(&t, w) {
			b := ferry.Retire{Order: id, Reason: reason}
			if l.start {
				b.Start = l.id
			} else {
				b.Claim = l.id
			}
			if _, err := tx.Add(&b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *app) reassignCommand() *cobra.Command {
	var to, reason string
	cmd := &cobra.Command{
		Use:   "reassign ORDER --to AGENT|any",
		Short: "give an order to another agent",
		Long: `Reassign ends the live starts and claims of the order and gives it to another
agent, or with "any" to whoever takes it. A worker that runs it stops its engine
as soon as it hears of it; what it did is kept, and the next attempt goes on
from there.`,
		Example: `  ferry channel reassign t-first --to gale-claude
  ferry channel reassign t-first --to any --reason "no need to wait for it"`,
		Args: exactly("ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return misuse("say to whom: --to AGENT, or --to any", "reassign %s: --to is missing", clip(args[0], 64))
			}
			return a.reassign(cmd.Context(), args[0], to, reason)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the only `AGENT` that may take it, or any")
	cmd.Flags().StringVar(&reason, "reason", "", "why, kept in the ledger")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) reassign(ctx context.Context, ref, to, reason string) error {
	if err := checkNotes(reason); err != nil {
		return err
	}
	return a.with(ctx, func(p *project) error {
		w, err := p.operator()
		if err != nil {
			return err
		}
		t, err := p.channel.Task(ctx, ref)
		if err != nil {
			return err
		}
		b := ferry.Reassign{Order: t.ID}
		if b.To, err = p.addressee(ctx, to); err != nil {
			return err
		}
		if b.Reason, err = p.note(reason); err != nil {
			return err
		}
		id, err := w.Reassign(ctx, a.now(), b)
		if err := a.published(err); err != nil {
			return err
		}
		return a.acted(ctx, p, t.ID, id)
	})
}

// addressee gives the agent that a name means, "" for any.
func (p *project) addressee(ctx context.Context, to string) (ferry.AgentName, error) {
	if to == "any" {
		return "", nil
	}
	members, err := p.channel.Members(ctx)
	if err != nil {
		return "", err
	}
	m, err := workerNamed(members, to)
	return m.Name, err
}

// workerNamed finds a member that can work.
func workerNamed(members []ferry.Member, who string) (ferry.Member, error) {
	var can []string
	for _, m := range members {
		if !slices.Contains(m.Grants, ferry.GrantWork) {
			continue
		}
		if strings.EqualFold(string(m.Name), who) {
			return m, nil
		}
		can = append(can, string(m.Name))
	}
	next := "no member can work: `ferry channel invite` brings one"
	if len(can) > 0 {
		next = "it is any, or one of " + strings.Join(can, ", ")
	}
	return ferry.Member{}, faultf(classNotFound, next, "agent %q: no member of this name can work", clip(who, 64))
}
