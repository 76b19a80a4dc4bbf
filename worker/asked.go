package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// The options of the questions about engines. Those that block one engine of several have its name behind them.
const (
	optionBlock = "block"
	optionKeep  = "keep"
	optionWait  = "wait"
)

// asked is a question that this worker has asked about its engines.
type asked struct {
	ID      ferry.RecordID     `json:"id"`
	Order   ferry.RecordID     `json:"order"`
	Engines []ferry.EngineName `json:"engines"`
	Stuck   bool               `json:"stuck,omitempty"` // about an order that no engine is left for
	Done    ferry.RecordID     `json:"done"`            // the answer that was acted on
}

// desk is what this worker has asked about its engines, and which of them an answer keeps out.
type desk struct {
	path string
	file deskFile
	seen *channel.Snapshot // of the channel when the answers were last read
}

type deskFile struct {
	Asked   []asked                     `json:"asked,omitempty"`
	Blocked map[ferry.EngineName]string `json:"blocked,omitempty"` // why
	Counts  map[ferry.EngineName]trust  `json:"counts,omitempty"`  // of their results
}

// Bounds of what is remembered: questions, the file, and the orders that an alert names.
const (
	maxAsked   = 64
	maxDesk    = 1 << 20
	maxTouched = 8
)

func readDesk(path string) (desk, error) {
	d := desk{path: path}
	if path == "" {
		return d, nil
	}
	b, err := atomicfile.ReadBounded(path, maxDesk)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(b, &d.file); err != nil {
		return d, fmt.Errorf("%s: %w; remove the file to forget which engines are blocked", path, err)
	}
	return d, nil
}

func (d *desk) save() error {
	if d.path == "" {
		return nil
	}
	b, err := json.Marshal(d.file)
	if err != nil {
		return err
	}
	return atomicfile.Write(d.path, b, 0o600)
}

// note remembers a question.
func (d *desk) note(q asked) error {
	d.file.Asked = append(d.file.Asked, q)
	d.file.Asked = d.file.Asked[max(0, len(d.file.Asked)-maxAsked):]
	return d.save()
}

// alert asks the master about an engine that keeps failing: once for each rest, and not while an earlier question waits.
func (w *Worker) alert(ctx context.Context, k *known, order ferry.RecordID, now time.Time) {
	if k.Health.Failures < w.cfg.AlertAfter || w.waits(ctx, func(q *asked) bool { return !q.Stuck && slices.Contains(q.Engines, k.Engine.Name) }) {
		return
	}
	c := k.Engine
	name := string(c.Name)
	if c.Model != "" {
		name += " (model " + c.Model + ")"
	}
	text := fmt.Sprintf("Engine %s of %s on %s has failed %d times in a row: %s: %s. Orders: %s. It is expected back at %s.",
		name, w.cfg.Agent, w.cfg.Machine, k.Health.Failures, k.Health.Class, k.Health.Reason, strings.Join(k.touched, ", "),
		k.Health.Until.UTC().Format("2006-01-02 15:04 MST"))
	w.askMaster(ctx, now, asked{Order: order, Engines: []ferry.EngineName{c.Name}}, ferry.Question{
		Order: order, Key: fmt.Sprintf("engine-alert-%s-%s-%s-%d", w.cfg.Machine, w.cfg.Agent, c.Name, k.Health.Until.Unix()), Text: text,
		Options: []ferry.Option{
			{Name: optionBlock, Text: "Block " + string(c.Name)}, {Name: ferry.OptionRetry, Text: "Retry now"}, {Name: optionKeep, Text: "Keep re-routing"},
		},
	})
}

// stuck asks the master about an order that no engine of this worker is left for: once for each order and machine.
func (w *Worker) stuck(ctx context.Context, t *ferry.Task, why string, now time.Time) {
	key := fmt.Sprintf("order-stuck-%s-%s", w.cfg.Machine, w.cfg.Agent)
	if slices.Contains(t.Answered, key) || slices.ContainsFunc(t.Questions, func(q ferry.Open) bool { return q.Question.Key == key }) {
		return
	}
	q := ferry.Question{
		Order: t.ID, Key: key, Text: fmt.Sprintf("No engine of %s on %s is left for %s: %s.", w.cfg.Agent, w.cfg.Machine, t.Order.Label, strings.TrimPrefix(why, "released: ")),
		Options: []ferry.Option{{Name: ferry.OptionRetry, Text: "Retry now"}},
	}
	a := asked{Order: t.ID, Stuck: true}
	for _, k := range w.shelf.known {
		if k.Health.Failures > 0 || k.Blocked != "" {
			a.Engines = append(a.Engines, k.Engine.Name)
			q.Options = append(q.Options, ferry.Option{Name: optionBlock + "-" + string(k.Engine.Name), Text: "Block " + string(k.Engine.Name)})
		}
	}
	q.Options = append(q.Options, ferry.Option{Name: optionWait, Text: "Keep waiting"})
	w.askMaster(ctx, now, a, q)
}

// askMaster writes a question about engines. The order that it is about goes on meanwhile.
func (w *Worker) askMaster(ctx context.Context, now time.Time, a asked, q ferry.Question) {
	q.Aside = true
	q.Text = w.cfg.Redactor.String(clip(q.Text, 2000))
	id, err := w.cfg.Writer.Ask(ctx, now, q)
	if err = w.unpublished(err); err == nil {
		a.ID = id
		err = w.desk.note(a)
	}
	if err != nil {
		w.log.Error("ask about an engine", "err", err)
	}
}

// waits reports whether a question of a kind has no answer yet. One about an order that is settled waits no more.
func (w *Worker) waits(ctx context.Context, of func(*asked) bool) bool {
	for i := range w.desk.file.Asked {
		q := &w.desk.file.Asked[i]
		if !q.Done.IsZero() || !of(q) {
			continue
		}
		t, err := w.cfg.Channel.Task(ctx, q.Order.String())
		if err == nil && !t.State.Final() && slices.ContainsFunc(t.Questions, func(o ferry.Open) bool { return o.ID == q.ID }) {
			return true
		}
	}
	return false
}

// answers acts on what the master, or who stands in for it, has answered since.
func (w *Worker) answers(ctx context.Context, now time.Time) {
	for i := range w.desk.file.Asked {
		q := &w.desk.file.Asked[i]
		entries, err := w.cfg.Channel.Records(ctx, q.Order)
		if err != nil {
			w.log.Error("read the answers about engines", "err", err)
			return
		}
		id, option, ok := answerTo(q.ID, entries)
		if !ok || id == q.Done {
			continue
		}
		q.Done = id
		w.answered(q, option, now)
	}
}

// answered lets an answer take effect on the engines of this worker.
func (w *Worker) answered(q *asked, option string, now time.Time) {
	w.log.Info("answered", "question", q.ID.Short(), "option", option)
	for _, name := range q.Engines {
		k := w.shelf.find(name)
		switch {
		case k == nil:
		case option == optionBlock || option == optionBlock+"-"+string(name):
			k.Blocked = fmt.Sprintf("engine %s is blocked by the answer to question %s", name, q.ID.Short())
		case option == ferry.OptionRetry:
			k.Blocked, k.Health, k.Proof = "", k.Health.Lift(now), engines.Proof{}
		case option == optionKeep:
			k.Blocked = ""
		}
	}
	w.desk.file.Blocked = map[ferry.EngineName]string{}
	for _, k := range w.shelf.known {
		if k.Blocked != "" {
			w.desk.file.Blocked[k.Engine.Name] = k.Blocked
		}
	}
	if err := errors.Join(w.desk.save(), w.shelf.save()); err != nil {
		w.log.Error("remember an answer about engines", "err", err)
	}
}

// answerTo gives the answer to a question that counts: of the master before that of a delegate, then the later word. Who has
// no more than a grant is not asked about engines.
func answerTo(question ferry.RecordID, entries []channel.Entry) (id ferry.RecordID, option string, ok bool) {
	var best *channel.Entry
	for i := range entries {
		e := &entries[i]
		a, is := e.Body.(*ferry.Answer)
		if !is || !e.Counted || a.Question != question || e.Level > ferry.LevelDelegate {
			continue
		}
		if best == nil || e.Level < best.Level || e.Level == best.Level && (e.Writer != best.Writer || e.Seq > best.Seq) {
			best, id, option, ok = e, e.ID, a.Option, true
		}
	}
	return id, option, ok
}

// held asks about the orders that only a blocked engine keeps from being begun: the block would never end by itself.
func (w *Worker) held(ctx context.Context, steps []Step, now time.Time) {
	if !slices.ContainsFunc(w.shelf.known, func(k *known) bool { return k.Blocked != "" }) {
		return
	}
	for _, s := range steps {
		if s.Do != DoHold {
			continue
		}
		t, err := w.cfg.Channel.Task(ctx, s.Order.String())
		if err != nil {
			continue // it has gone meanwhile
		}
		if c := w.choose(t.Order, nil, now); c.Engine.Name == "" && words(c.Left) == s.Reason {
			w.stuck(ctx, &t, s.Reason, now)
		}
	}
}
