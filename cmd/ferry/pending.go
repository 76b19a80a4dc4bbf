package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// asking is what this machine remembers of a question to be let in, beside the
// key that it is about. While it is there, nothing is done under that key.
type asking struct {
	Rejoin bool            `json:"rejoin"` // a member asks for its next key
	Name   ferry.AgentName `json:"name"`
	Writer ferry.WriterID  `json:"writer"`
	Key    string          `json:"key"` // the public half
	Invite ferry.RecordID  `json:"invite"`
	Nonce  string          `json:"nonce"`
	Words  []string        `json:"words"`
	Since  time.Time       `json:"since"`
	base   string          // of the key's file
}

// The names of key files that are no agents'.
const (
	operatorBase = "operator"
	recoveryBase = "recovery"
)

// asking is where the question about a key is remembered.
func (s state) asking(id ferry.RecordID, base string) string {
	return filepath.Join(s.keys(id), base+".asking.json")
}

// nextKey is where the key lies that a member asks to go on with.
func (s state) nextKey(id ferry.RecordID, base string) string {
	return filepath.Join(s.keys(id), base+".next.key")
}

// keyFile is the key that a question is about.
func (s state) keyFile(id ferry.RecordID, base string) string {
	return filepath.Join(s.keys(id), base+".key")
}

// readAsking reads the question about a key; ok is false when there is none.
func (s state) readAsking(id ferry.RecordID, base string) (q asking, ok bool, err error) {
	err = readJSON(s.asking(id, base), &q)
	q.base = base
	if errors.Is(err, fs.ErrNotExist) {
		return q, false, nil
	}
	return q, err == nil, err
}

// answer is what the master has said to a question: the name, and the number
// of the key.
type answer struct {
	name  ferry.AgentName
	epoch int64
}

// answered finds the admission that repeats the nonce of a question. An
// admission of the same key that does not is no answer: it may be older than
// the question, and so may everything beside it.
func answered(ctx context.Context, ch *channel.Channel, q *asking) (answer, bool, error) {
	records, err := ch.Admissions(ctx, q.Writer)
	if err != nil {
		return answer{}, false, err
	}
	roster, err := ch.Roster(ctx)
	if err != nil {
		return answer{}, false, err
	}
	for _, rec := range records {
		if _, _, counts := roster.Counts(rec, ""); !counts {
			continue
		}
		a := answer{name: q.Name}
		switch b := rec.Body.(type) {
		case *ferry.Admit:
			if b.Nonce != q.Nonce || b.Member.Key != q.Key {
				continue
			}
			a.name, a.epoch = b.Member.Name, b.Epoch
		case *ferry.Readmit:
			if b.Nonce != q.Nonce || b.Key != q.Key {
				continue
			}
			a.epoch = b.Epoch
		}
		if key, _, ok := roster.Key(q.Writer, uint32(a.epoch)); ok && key.String() == q.Key {
			return a, true, nil
		}
	}
	return answer{}, false, nil
}

// settle takes note of an answer: the key may be used from here, and the
// question need not lie in the folder any more.
func (s state) settle(c config, base string, q *asking) error {
	id := c.ChannelID
	if q.Rejoin {
		if err := s.changeKey(id, base); err != nil {
			return err
		}
	}
	if err := os.Remove(s.asking(id, base)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("admitted: %w", err)
	}
	if q.Rejoin {
		_ = channel.DropRejoin(c.Channel, q.again(id)) // answered, it is in nobody's way
	} else {
		_ = channel.DropJoin(c.Channel, q.Invite, q.Writer)
	}
	return nil
}

// changeKey puts the next key in the place of the one before, which is kept
// under a name that tells which it is.
func (s state) changeKey(id ferry.RecordID, base string) error {
	next, at := s.nextKey(id, base), s.keyFile(id, base)
	if !isFile(next) {
		return nil // done before
	}
	old := base + ".old"
	if key, err := sign.LoadKey(at); err == nil {
		old = base + "." + key.Public().KeyID()
	}
	if err := os.Rename(at, s.keyFile(id, old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("change the key of %s: %w", base, err)
	}
	if err := os.Rename(next, at); err != nil {
		return fmt.Errorf("change the key of %s: %w", base, err)
	}
	return nil
}

// mayUse refuses a key that waits to be admitted, unless the answer has come.
func (p *project) mayUse(base string) error {
	ctx := context.Background() // the store is local
	q, ok, err := p.state.readAsking(p.config.ChannelID, base)
	if err != nil {
		return err
	}
	if !ok {
		return p.crownedBefore(ctx, base)
	}
	_, ok, err = answered(ctx, p.channel, &q)
	if err != nil {
		return err
	}
	if ok {
		return p.state.settle(p.config, base, &q)
	}
	return q.waits()
}

// crownedBefore finishes a change of the master's key that was cut off after
// its root was written.
func (p *project) crownedBefore(ctx context.Context, base string) error {
	if base != operatorBase || !isFile(p.state.nextKey(p.config.ChannelID, base)) {
		return nil
	}
	key, err := sign.LoadKey(p.state.nextKey(p.config.ChannelID, base))
	if err != nil {
		return err
	}
	master, err := p.channel.Master(ctx)
	if err != nil || master.Key != key.Public().String() {
		return err
	}
	return p.state.changeKey(p.config.ChannelID, base)
}

// waits says that a key waits, and what to do about it.
func (q *asking) waits() error {
	return faultf(classNotReady, q.next(), "%s", q.state())
}

func (q *asking) state() string {
	what := "waits to be admitted"
	if q.Rejoin {
		what = "waits for its next key"
	}
	return fmt.Sprintf("%s %s, since %s", q.Name, what, q.Since.Local().Format("2006-01-02 15:04"))
}

func (q *asking) next() string {
	return "on the master's machine: `ferry channel admit`, if it shows the words " + strings.Join(q.Words, " ")
}

// asked lists the questions of this machine in the channel that have no answer.
func (p *project) asked(ctx context.Context) ([]asking, error) {
	entries, err := os.ReadDir(p.state.keys(p.config.ChannelID))
	if err != nil {
		return nil, nil // no keys, no questions
	}
	var out []asking
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".asking.json")
		if !ok {
			continue
		}
		q, ok, err := p.state.readAsking(p.config.ChannelID, base)
		if err != nil || !ok {
			return out, err
		}
		_, done, err := answered(ctx, p.channel, &q)
		if err != nil {
			return out, err
		}
		if !done {
			out = append(out, q)
		}
	}
	return out, nil
}
