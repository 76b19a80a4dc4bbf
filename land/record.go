package land

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// maxJournal is the size in bytes of the largest remembered landing.
const maxJournal = 1 << 20

func journalPath(dir string, order ferry.RecordID) string {
	return filepath.Join(dir, order.String()+".json")
}

// intent is what a landing is about to do: what its record will say, and whether a remote was asked to take it first.
type intent struct {
	ferry.Landed
	Remote string `json:"remote,omitempty"`
}

// remember writes what the record will say before anything moves, so that
// after a crash the record can still be written.
func remember(dir string, i *intent) error {
	data, err := json.Marshal(i)
	if err != nil {
		return fmt.Errorf("remember landing: %w", err)
	}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("remember landing: %w", err)
	}
	if err := atomicfile.Write(journalPath(dir, i.Order), data, 0o600); err != nil {
		return fmt.Errorf("remember landing: %w", err)
	}
	return nil
}

// recall reads what a landing was about to do; nil when there is nothing.
func recall(dir string, order ferry.RecordID) (*intent, error) {
	data, err := atomicfile.ReadBounded(journalPath(dir, order), maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("recall landing: %w", err)
	}
	var i intent
	if err := json.Unmarshal(data, &i); err != nil {
		return nil, fmt.Errorf("recall landing from %s: %w", journalPath(dir, order), err)
	}
	if i.Order != order {
		return nil, nil
	}
	return &i, nil
}

func forget(dir string, order ferry.RecordID) error {
	if err := os.Remove(journalPath(dir, order)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget landing: %w", err)
	}
	return nil
}

// record writes the landed record, once.
func (l *landing) record(ctx context.Context, body *ferry.Landed) error {
	l.out.Target, l.out.Old, l.out.Commit = body.Target, body.Old, body.Commit
	var task *ferry.Task
	_, err := l.Writer.Update(ctx, l.Now, func(tx *channel.Tx) error {
		t, err := tx.Task(body.Order)
		if err != nil {
			return err
		}
		if t.Landed != nil {
			l.out.Record = t.LandedID
			return nil
		}
		if l.out.Record, err = tx.Add(body); err != nil {
			return err
		}
		if t, err = tx.Task(body.Order); err == nil && t.Landed == nil {
			task, err = &t, errRefused
		}
		l.wrote = err == nil
		return err
	})
	if errors.Is(err, errRefused) {
		return l.uncounted(ctx, task, body)
	}
	if errors.Is(err, channel.ErrUnpublished) {
		l.out.Warning, err = err.Error(), nil // the record holds and is published later
	}
	if err != nil {
		return fmt.Errorf("%s is at %s, but the record is not written; run the same command again: %w", body.Target, body.Commit.Short(), err)
	}
	l.at("recorded")
	return forget(l.Journal, body.Order)
}

// uncounted refuses a record that was taken back because no reader would count it.
func (l *landing) uncounted(ctx context.Context, t *ferry.Task, body *ferry.Landed) error {
	l.out.Record = ferry.RecordID{}
	d, err := l.mayRecord(ctx, t, body)
	if d == nil && err == nil {
		d = refuse(CodeElsewhere, fmt.Sprintf("%s is on %s as %s, and its record would not count: what it rests on does not count any more", t.Order.Label, body.Target, body.Commit.Short()),
			cmd(t, "review", "--accept")+" or "+cmd(t, "approve", "")+", then "+cmd(t, "land", ""))
	}
	return l.refused(d, err)
}

// finishEarlier completes a landing whose ref is there, or that a remote has
// taken: it writes the record that a crash left out. done says that the order
// has landed.
func (l *landing) finishEarlier(ctx context.Context) (done bool, err error) {
	commit, landed, err := l.Gate.Landed(ctx, l.task.ID)
	if err != nil {
		return false, err
	}
	if err := l.reload(ctx); err != nil {
		return false, err
	}
	if t := &l.task; t.Landed != nil {
		l.out.Target, l.out.Old, l.out.Commit, l.out.Record = t.Landed.Target, t.Landed.Old, t.Landed.Commit, t.LandedID
		l.out.Decision = Decide(t, Facts{})
		return true, forget(l.Journal, t.ID)
	}
	begun, err := recall(l.Journal, l.task.ID)
	if err != nil {
		return false, err
	}
	if !landed {
		return l.finishRemote(ctx, begun)
	}
	e, d, err := l.identify(ctx, commit, begun)
	if d != nil || err != nil {
		return true, l.refused(d, err)
	}
	return true, l.finished(ctx, e)
}

// finished writes the record of a landing that another call began.
func (l *landing) finished(ctx context.Context, e *earlier) error {
	l.out.Decision = Decision{Code: CodeAlreadyLanded}
	err := l.record(ctx, &e.body)
	if err != nil || l.out.Decision.Code != CodeAlreadyLanded {
		return err
	}
	l.out.Decision.Reason, err = e.words(ctx, l)
	return err
}

// Repair completes every landing that a crash left between its ref and its
// record, and brings checkouts along. It returns how many records it wrote;
// with nothing to do it reads two directories.
func Repair(ctx context.Context, s Spec) (int, error) {
	var failed []error
	if _, err := s.Gate.RepairCheckout(ctx); err != nil {
		failed = append(failed, err)
	}
	entries, err := os.ReadDir(s.Journal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		failed = append(failed, err)
	}
	written := 0
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		id, err := ferry.ParseRecordID(name)
		if !ok || err != nil {
			continue
		}
		wrote, err := s.repairOne(ctx, id)
		if err != nil {
			failed = append(failed, fmt.Errorf("order %s: %w", id.Short(), err))
		}
		if wrote {
			written++
		}
	}
	if err := errors.Join(failed...); err != nil {
		return written, fmt.Errorf("repair landings: %w", err)
	}
	return written, nil
}

func (s Spec) repairOne(ctx context.Context, id ferry.RecordID) (wrote bool, err error) {
	task, err := s.Channel.Task(ctx, id.String())
	if err != nil {
		return false, err
	}
	if task.ID != id {
		return false, fmt.Errorf("the label %q of another order looks like its id", task.Order.Label)
	}
	l := newLanding(s, task)
	missing := task.Landed == nil
	done, err := l.finishEarlier(ctx)
	switch {
	case errors.Is(err, worktree.ErrRemote):
		// The remote is asked again, but not by every command.
		return false, errors.Join(err, os.Chtimes(journalPath(s.Journal, id), s.Now, s.Now))
	case err == nil && !done:
		err = forget(s.Journal, id) // the crash came before the ref: nothing has landed
	case err == nil && !l.out.Landed():
		err = l.out.Decision
	}
	return done && missing && err == nil && !l.out.Record.IsZero(), err
}

// The trailers by which a landing whose journal is lost is known again.
const (
	trailerOrder   = "Ferry-Order"
	trailerResult  = "Ferry-Result"
	trailerVerdict = "Ferry-Verdict"
	trailerApprove = "Ferry-Approve"
	trailerTarget  = "Ferry-Target"
	trailerLander  = "Ferry-Lander"
)

// maxSubject is the length in characters of the first line of a commit.
const maxSubject = 72

// message words the squashed commit: what was asked for, who did it, and the
// records by which it may be there.
func (l *landing) message(ctx context.Context) (text, author string, err error) {
	members, err := l.Channel.Members(ctx)
	if err != nil {
		return "", "", err
	}
	o := l.task.StandingResult()
	author = string(o.Writer)
	for _, m := range members {
		if m.Writer == o.Writer {
			author = string(m.Name)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nOrder %s, done by %s with %s.\n\n", subject(l.task.Order), l.task.Order.Label, author, o.Result.Engine)
	for _, t := range []struct {
		key string
		id  ferry.RecordID
	}{{trailerOrder, l.task.ID}, {trailerResult, o.ID}, {trailerVerdict, o.Verdict}, {trailerApprove, l.task.Approve}} {
		if !t.id.IsZero() {
			fmt.Fprintf(&b, "%s: %s\n", t.key, t.id)
		}
	}
	fmt.Fprintf(&b, "%s: %s\n%s: %s\n", trailerTarget, l.out.Target, trailerLander, l.Writer.ID())
	return b.String(), author, nil
}

// subject takes the first line of the order's text that says something.
func subject(o *ferry.Order) string {
	s := string(o.Label)
	for line := range strings.Lines(o.Text) {
		if line = strings.TrimSpace(strings.TrimLeft(line, "#")); line != "" {
			s = redact.Visible(line)
			break
		}
	}
	if utf8.RuneCountInString(s) > maxSubject {
		s = strings.TrimSpace(string([]rune(s)[:maxSubject-1])) + "…"
	}
	return s
}

func list(paths []string) string {
	const most = 10
	if len(paths) <= most {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(paths[:most], ", "), len(paths)-most)
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}
