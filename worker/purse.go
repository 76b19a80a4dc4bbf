package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// purse is the ledger of this worker's engines, with its file. The goroutine that owns the worker owns it.
type purse struct {
	path   string
	ledger engines.Ledger
}

// readPurse reads the ledger. What was set aside by a process that has crashed counts as used.
func readPurse(path string, now time.Time) (purse, error) {
	p := purse{path: path}
	if path == "" {
		return p, nil
	}
	b, err := atomicfile.ReadBounded(path, engines.MaxLedger)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	l, err := engines.ParseLedger(b)
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	p.ledger = l.Recover(now)
	return p, nil
}

// keep makes a ledger the present one, once it is in the file.
func (p *purse) keep(l engines.Ledger) error {
	if p.path != "" {
		b, err := l.Encode()
		if err != nil {
			return err
		}
		if err := atomicfile.Write(p.path, b, 0o600); err != nil {
			return fmt.Errorf("write what the engines may use: %w", err)
		}
	}
	p.ledger = l
	return nil
}

// claimOn is what a run of an engine about an order asks of the ledger.
func claimOn(run string, o *ferry.Order, c engines.Config) engines.Ask {
	price := engines.CapPrice(c)
	return engines.Ask{
		Run: run, Order: string(o.Label), Accounts: []engines.Account{engines.AccountOf(c)},
		Least: engines.Estimate(o.Size, price), Most: engines.Worst(c.Kind, o.Size, price),
	}
}

// budget says in a stand whether the engine's budget lets it run for an order.
func (p *purse) budget(s *Stand, o *ferry.Order, now time.Time) {
	if _, d := p.ledger.Reserve(now, claimOn("?", o, s.Engine)); !d.OK {
		s.Spent, s.Opens = d.Why, d.Until
	}
}

// exhausted notes for people which engines have used up their budgets.
func (p *purse) exhausted(s *shelf, now time.Time) {
	for _, k := range s.known {
		k.Opens, k.Spent, _ = p.ledger.Exhausted(now, engines.AccountOf(k.Engine))
	}
}

// reserve sets aside what an engine may use in an attempt, under a name that is never used again, and tells the attempt.
func (p *purse) reserve(a *attempt, name string, c engines.Config, now time.Time) error {
	l, d := p.ledger.Reserve(now, claimOn(name, a.task.Order, c))
	if !d.OK {
		return errors.New(d.Why)
	}
	if err := p.keep(l); err != nil {
		return err
	}
	a.reserved = name
	a.allow(d.Limit)
	return nil
}

// settle counts what was used of a reservation.
func (p *purse) settle(run string, used engines.Amount, now time.Time) error {
	l, open := p.ledger.Settle(now, run, used)
	if !open {
		return nil
	}
	return p.keep(l)
}

// reservation names what is set aside for the n-th engine of an attempt.
func reservation(order ferry.RecordID, attempt int64, n int) string {
	return fmt.Sprintf("%s/%d/%d", order, attempt, n)
}

// used adds what a run used to what its engine has used in the attempt.
func (w *Worker) used(a *attempt, j *Journal) {
	k := w.shelf.find(ferry.EngineName(j.Engine))
	if a == nil || k == nil || a.reserved == "" {
		return
	}
	u := engines.UsedBy(j.Usage, engines.CapPrice(k.Engine), max(0, j.Ended.Sub(j.Started)))
	a.sum = engines.Amount{
		Requests: a.sum.Requests + u.Requests, Tokens: a.sum.Tokens + u.Tokens, MicroUSD: a.sum.MicroUSD + u.MicroUSD, Time: a.sum.Time + u.Time,
	}
}

// settle counts what the engine of an attempt has used, when it is through with it.
func (w *Worker) settle(a *attempt, now time.Time) {
	if a == nil || a.reserved == "" {
		return
	}
	if err := w.purse.settle(a.reserved, a.sum, now); err != nil {
		w.log.Error("count what an engine used", "err", err)
		return // it stays set aside
	}
	a.reserved, a.sum = "", engines.Amount{}
}
