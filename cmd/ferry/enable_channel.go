package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/machine"
	"github.com/ferry-fleet/ferry/sign"
)

// founded is channel.json beside the keys of a channel: what the keys are for.
type founded struct {
	ID      ferry.RecordID `json:"id"`
	Project string         `json:"project"`
	Folder  string         `json:"folder"`
}

const foundedFile = "channel.json"

// join finds the project's channel or founds it, and lets the agent in.
func (e *enabling) join(ctx context.Context) error {
	if err := e.findChannel(ctx); err != nil {
		return err
	}
	e.shape.ChannelID = e.c.ChannelID.String()
	ch, err := channel.Open(ctx, e.channelConfig(e.state.store(e.c.ChannelID)), e.c.ChannelID)
	if err != nil {
		return err
	}
	return errors.Join(e.admit(ctx, ch), ch.Close())
}

func (e *enabling) channelConfig(store string) channel.Config {
	return channel.Config{Folder: e.c.Channel, State: store, Judge: evidence.Classify, Log: e.a.log()}
}

// findChannel settles the channel's id: the configured one, the one of this
// folder that this machine has the keys of, or a new one.
func (e *enabling) findChannel(ctx context.Context) error {
	if !e.c.ChannelID.IsZero() {
		e.shape.AlreadyConfigured = e.shape.AlreadyConfigured || e.second == ""
		return nil
	}
	if err := e.finishFounding(ctx); err != nil {
		return err
	}
	if id, ok := e.state.channelAt(e.c.Channel); ok {
		e.c.ChannelID = id
		e.found("the channel of %s, which this machine has the keys of", e.c.Channel)
		e.warnRecovery()
		return nil
	}
	return e.foundChannel(ctx)
}

// channelAt gives the channel with this folder that this machine has keys for.
func (s state) channelAt(folder string) (ferry.RecordID, bool) {
	dirs, err := os.ReadDir(filepath.Join(string(s), "keys"))
	if err != nil {
		return ferry.RecordID{}, false
	}
	for _, d := range dirs {
		var f founded
		err := readJSON(filepath.Join(string(s), "keys", d.Name(), foundedFile), &f)
		if err == nil && f.Folder == folder && channel12(f.ID) == d.Name() {
			return f.ID, true
		}
	}
	return ferry.RecordID{}, false
}

// begun is where the keys and the store of a channel lie until it has an id.
func (e *enabling) begun() (keys, store string) {
	name := "founding-" + e.c.Project
	return filepath.Join(string(e.state), "keys", name), filepath.Join(string(e.state), "store", name)
}

// foundChannel founds the channel. Keys and store are made under a name of
// their own and moved once the id is known, so that a crash between any two
// steps is mended by the next call.
func (e *enabling) foundChannel(ctx context.Context) error {
	keys, store := e.begun()
	if err := atomicfile.MkdirAll(keys, 0o700); err != nil {
		return err
	}
	master, err := keyAt(filepath.Join(keys, "operator.key"))
	if err != nil {
		return err
	}
	recovery, err := keyAt(filepath.Join(keys, "recovery.key"))
	if err != nil {
		return err
	}
	ch, err := channel.Found(ctx, e.channelConfig(store), channel.FoundSpec{
		Project: e.c.Project, Key: master, Recovery: []sign.PublicKey{recovery.Public()}, Now: e.a.now(),
		Master: ferry.Member{Name: e.personName(), Machine: machine.Name(), Email: e.c.Email},
	})
	if errors.Is(err, channel.ErrOtherChannel) {
		return fault(classChannel, "choose another --channel DIR; a channel of another machine is joined by an invite of its master", err)
	}
	if err != nil {
		return err
	}
	id := ch.ID()
	if err := ch.Close(); err != nil {
		return err
	}
	f := founded{ID: id, Project: e.c.Project, Folder: e.c.Channel}
	if err := saveJSON(filepath.Join(keys, foundedFile), f, 0o600); err != nil {
		return err
	}
	if err := e.finishFounding(ctx); err != nil {
		return err
	}
	e.c.ChannelID = id
	e.found("no channel: founded %s, and you are its master", id.Short())
	e.warnRecovery()
	return nil
}

// warnRecovery says where the recovery key is, for as long as it is here.
func (e *enabling) warnRecovery() {
	if path := e.state.recoveryKey(e.c.ChannelID); isFile(path) {
		e.warn("the recovery key is in %s: move it to a place that is not on this machine", path)
	}
}

// finishFounding moves what foundChannel made to the place of the channel's id.
func (e *enabling) finishFounding(context.Context) error {
	keys, store := e.begun()
	var f founded
	err := readJSON(filepath.Join(keys, foundedFile), &f)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(filepath.Dir(e.state.store(f.ID)), 0o700); err != nil {
		return err
	}
	if err := os.Rename(store, e.state.store(f.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("found channel %s: %w", f.ID.Short(), err)
	}
	if err := os.Rename(keys, e.state.keys(f.ID)); err != nil {
		return fmt.Errorf("found channel %s: %w", f.ID.Short(), err)
	}
	return nil
}

// keyAt loads a key, or makes one where there is none.
func keyAt(path string) (sign.Key, error) {
	key, err := sign.LoadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = sign.GenerateKey(rand.Reader); err != nil {
		return key, err
	}
	return key, key.Save(path)
}

// personName is the name of the operator: of the address, else of the user.
func (e *enabling) personName() ferry.AgentName {
	local, _, _ := strings.Cut(e.c.Email, "@")
	n := cleanName(cmp.Or(local, machine.User()), "person")
	if n == string(e.c.Agent) {
		n += "-person"
	}
	return ferry.AgentName(n)
}

// admit makes the agent's key and lets it in, where that is not done yet.
func (e *enabling) admit(ctx context.Context, ch *channel.Channel) error {
	if _, err := ch.Refresh(ctx); err != nil {
		return fmt.Errorf("read the channel: %w", err)
	}
	if err := atomicfile.MkdirAll(e.state.keys(e.c.ChannelID), 0o700); err != nil {
		return err
	}
	master, masterErr := sign.LoadKey(e.state.operatorKey(e.c.ChannelID))
	if masterErr == nil {
		e.shape.OperatorKey = master.Public().String()
	}
	path := e.state.agentKey(e.c.ChannelID, e.c.Agent)
	cannot := func() error {
		return fault(classKey, "the master admits it, on the machine where the channel was founded", fmt.Errorf("admit %s: %w", e.c.Agent, masterErr))
	}
	if masterErr != nil && !isFile(path) {
		return cannot()
	}
	key, err := keyAt(path)
	if err != nil {
		return err
	}
	public := key.Public()
	e.shape.PublicKey = public.String()
	members, err := ch.Members(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(members, func(m ferry.Member) bool { return m.Key == public.String() }) {
		return nil
	}
	if masterErr != nil {
		return cannot()
	}
	if slices.ContainsFunc(members, func(m ferry.Member) bool { return strings.EqualFold(string(m.Name), string(e.c.Agent)) }) {
		return faultf(classChannel, "choose another with --agent NAME", "agent %s: a member of the channel has this name already", e.c.Agent)
	}
	w, err := ch.Writer(master)
	if err != nil {
		return err
	}
	_, err = w.Admit(ctx, e.a.now(), ferry.Member{
		Writer: ferry.WriterID(public.WriterID()), Key: public.String(), Name: e.c.Agent, Machine: machine.Name(),
		Email: e.c.Email, Grants: []ferry.Grant{ferry.GrantWork},
	})
	return e.a.published(err)
}
