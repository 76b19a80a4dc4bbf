package worker

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"runtime"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/engines"
)

// introduceAgain is the least time between two records of what the ferry of this worker can do; what changes with every run
// is told less often.
const (
	introduceAgain = time.Minute
	countsAgain    = time.Hour
)

// introduction is what the channel knows of the ferry of this worker and of its engines.
type introduction struct {
	known *ferry.Inventory // nil until it is read
	at    time.Time        // when it was told, or tried
}

// introduce says in the channel what the ferry of this worker can do and how its engines are, unless its last record of that
// kind says the same.
func (w *Worker) introduce(ctx context.Context, now time.Time) {
	if w.cfg.Version == "" || now.Before(w.intro.at.Add(introduceAgain)) && !now.Before(w.intro.at) {
		return
	}
	if err := w.inventory(ctx, now); err != nil && ctx.Err() == nil {
		w.intro.at = now
		w.log.Warn("the channel does not know what this ferry can do; it is told again", "err", err)
	}
}

func (w *Worker) inventory(ctx context.Context, now time.Time) error {
	if w.intro.known == nil {
		me := w.cfg.Writer.ID()
		roster, err := w.cfg.Channel.Roster(ctx)
		if err != nil {
			return fmt.Errorf("read the roster: %w", err)
		}
		known, err := w.cfg.Channel.Traces(ctx, me, roster.Epoch(me))
		if err != nil {
			return fmt.Errorf("read what is known of this worker: %w", err)
		}
		w.intro.known = &known.Have
	}
	have := ferry.Inventory{
		Version: w.cfg.Version, Features: ferry.Features(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Slots: int64(w.cfg.MaxParallel),
	}
	for _, k := range w.shelf.known {
		have.Engines = append(have.Engines, w.seen(k, now))
	}
	if !tells(w.intro.known, &have, now.Sub(w.intro.at)) {
		return nil
	}
	err := w.write(ctx, now, func(tx *channel.Tx) error {
		_, err := tx.Add(&have)
		return err
	})
	if err == nil {
		w.intro = introduction{known: &have, at: now}
	}
	return err
}

// tells reports whether an inventory says something that the channel has to know, so long after the one before.
func tells(known, have *ferry.Inventory, since time.Duration) bool {
	if reflect.DeepEqual(known, have) {
		return false
	}
	return since >= countsAgain || since < 0 || !reflect.DeepEqual(lasting(known), lasting(have))
}

// lasting gives an inventory without what changes with every run and every probe.
func lasting(i *ferry.Inventory) ferry.Inventory {
	out := *i
	out.Engines = nil
	for _, e := range i.Engines {
		if e.State == string(engines.StateUp) || e.Proof == engines.ProofNone {
			e.Proof = ""
		}
		e.Requests, e.MicroUSD, e.Verified, e.Refuted = 0, 0, 0, 0
		out.Engines = append(out.Engines, e)
	}
	return out
}

// seen gives what the fleet is told of an engine.
func (w *Worker) seen(k *known, now time.Time) ferry.EngineSeen {
	s, c, p := k.status(now), k.Engine, k.Profile
	out := ferry.EngineSeen{
		Name: c.Name, Kind: string(c.Kind), Model: c.Model, Tier: s.Tier, Paid: string(c.Paid), State: s.State, Proof: s.Proof,
		Reason: w.cfg.Redactor.String(clip(s.Reason, 300)), Class: p.Class, Can: p.Modalities, ContextK: p.ContextK, Local: p.Local,
		Price: ferry.PriceSeen{
			PerCall: p.Price.PerCall, PerMTokIn: p.Price.PerMTokIn, PerMTokOut: p.Price.PerMTokOut, Source: cmp.Or(p.Price.Source, engines.PriceUnknown),
		},
		Verified: w.desk.file.Counts[c.Name].Verified, Refuted: w.desk.file.Counts[c.Name].Refuted,
	}
	spent := w.purse.ledger.Used(now, engines.AccountOf(c).Name)
	out.Requests, out.MicroUSD = spent.Requests, spent.MicroUSD
	if !s.Until.IsZero() {
		out.Until = s.Until.UTC().Format(time.RFC3339)
	}
	return out
}

// trust is how the results of an engine were found on this machine.
type trust struct {
	Verified int64 `json:"verified,omitempty"`
	Refuted  int64 `json:"refuted,omitempty"`
}

// rate counts how a result that was handed in was found.
func (w *Worker) rate(ctx context.Context, c *closing) {
	t, err := w.cfg.Channel.Task(ctx, c.order.String())
	if err != nil {
		return // the counts are for people
	}
	for i := range t.Results {
		o := &t.Results[i]
		if o.Result.Start != c.start {
			continue
		}
		name := ferry.EngineName(o.Result.Engine)
		if w.desk.file.Counts == nil {
			w.desk.file.Counts = map[ferry.EngineName]trust{}
		}
		n := w.desk.file.Counts[name]
		switch o.Evidence.Status {
		case ferry.EvidenceVerified:
			n.Verified++
		case ferry.EvidenceRefuted:
			n.Refuted++
		default:
			return
		}
		w.desk.file.Counts[name] = n
		if err := w.desk.save(); err != nil {
			w.log.Error("count a result", "err", err)
		}
	}
}
