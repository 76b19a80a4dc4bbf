package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// stoppedKey is a key of this machine whose next record the channel would refuse.
type stoppedKey struct {
	base  string // of the key's file
	state string // what is the matter, in words
	next  string // what to type
}

// errLookOnly ends a write before anything is written.
var errLookOnly = errors.New("only a look")

// askTime bounds the wait for another process that writes.
const askTime = 5 * time.Second

// stoppedKeys lists the keys of this machine that can write no more. Keys that
// wait for an answer of the master are left out: asked lists those.
func (p *project) stoppedKeys(ctx context.Context) ([]stoppedKey, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return nil, err
	}
	id := p.config.ChannelID
	files := []string{p.state.operatorKey(id)}
	for _, n := range p.state.agents(id) {
		files = append(files, p.state.agentKey(id, n))
	}
	var out []stoppedKey
	for _, path := range files {
		base := strings.TrimSuffix(filepath.Base(path), ".key")
		if _, waits, err := p.state.readAsking(id, base); err != nil || waits {
			continue
		}
		key, err := sign.LoadKey(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			out = append(out, stoppedKey{base, "the key cannot be read: " + err.Error(), "chmod 600 " + path})
			continue
		}
		if r, ok := p.wouldRefuse(ctx, roster, key); ok {
			r.base = base
			out = append(out, r)
		}
	}
	return out, nil
}

// wouldRefuse begins a write under a key, and ends it before it writes. What
// is the folder's or the disk's fault is not the key's.
func (p *project) wouldRefuse(ctx context.Context, roster *authority.Roster, key sign.Key) (stoppedKey, bool) {
	w, err := p.channel.Writer(key)
	if err == nil {
		_, err = w.Update(ctx, p.app.now(), func(*channel.Tx) error { return errLookOnly })
	}
	m := holderOf(roster, key.Public().String())
	again := "`ferry channel rejoin " + string(m.Name) + "` asks the master for another key"
	if master, ok := roster.Master(); ok && master.Writer == m.Writer {
		again = "`ferry channel recover --key FILE`, with the recovery key, gives the master another key"
	}
	switch {
	case errors.Is(err, channel.ErrRevoked):
		return stoppedKey{state: string(m.Name) + " may write no more: the master has taken its key back", next: again}, true
	case errors.Is(err, channel.ErrLost):
		return stoppedKey{state: string(m.Name) + " cannot write: this machine does not remember what it has signed; its state directory was lost, copied or put back", next: again}, true
	case errors.Is(err, channel.ErrForked):
		return stoppedKey{state: string(m.Name) + " cannot write: it has signed one number twice", next: again}, true
	case errors.Is(err, channel.ErrDamaged):
		return stoppedKey{state: string(m.Name) + " cannot write: the store has lost some of its records", next: "bring the folder " + p.config.Channel + " back, which has them"}, true
	}
	return stoppedKey{}, false
}

// holderOf gives the member that has or had a key.
func holderOf(roster *authority.Roster, key string) ferry.Member {
	for _, w := range roster.Known() {
		for epoch := lastEpoch(roster, w); epoch > 0; epoch-- {
			if k, _, ok := roster.Key(w, epoch); ok && k.String() == key {
				m, _ := roster.Member(w)
				return m
			}
		}
	}
	return ferry.Member{}
}
