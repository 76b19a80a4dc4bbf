package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/machine"
	"github.com/ferry-fleet/ferry/sign"
)

// rootShape answers rotate-root and recover.
type rootShape struct {
	Root       string `json:"root"`
	Generation int64  `json:"generation"`
	Version    int64  `json:"version"`
	Master     string `json:"master"`
	Writer     string `json:"writer"`
	PublicKey  string `json:"public_key"`
	Keep       int64  `json:"keep"`
	Dropped    int    `json:"dropped"`
}

func (a *app) rotateRootCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "rotate-root",
		Short: "give the master another key",
		Long: `Rotate-root makes another key for the master and writes the next version of the
root, signed by the old key and by the new one. What was written before goes on
counting, and the old key writes nothing more. It stays beside the new one.

This is for a key that is merely old. After a theft only ` + "`ferry channel recover`" + `
helps: whoever holds the key can rotate it as well.`,
		Example: `  ferry channel rotate-root`,
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.rotateRoot(cmd.Context(), yes, cmd.InOrStdin())
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) rotateRoot(ctx context.Context, yes bool, in io.Reader) error {
	return a.with(ctx, func(p *project) error {
		w, err := p.operator()
		if err != nil {
			return err
		}
		before, root, err := p.rootInForce(ctx)
		if err != nil {
			return err
		}
		if root.Master.Writer != w.ID() {
			return faultf(classRefused, "`ferry channel rejoin` gives a member its next key", "rotate-root: the master is %s on %s", root.Master.Name, root.Master.Machine)
		}
		if root.Threshold > 1 {
			return faultf(classRefused, "gather them where the other keys are", "rotate-root: %d keys have to sign the next root, and this machine has one", root.Threshold)
		}
		if !yes {
			if err := a.sure(in, "rotate-root: make another key for "+string(root.Master.Name)+". Do it?"); err != nil {
				return err
			}
		}
		key, err := keyAt(p.state.nextKey(p.config.ChannelID, operatorBase))
		if err != nil {
			return err
		}
		next := root
		next.Version, next.Prev, next.Keep = root.Version+1, before.ID, ferry.Cut{}
		next.Master = p.masterOf(root.Master, key.Public())
		ids, err := w.Update(ctx, a.now(), func(tx *channel.Tx) error {
			_, err := tx.AddSigned(&next, key)
			return err
		})
		if err := a.published(err); err != nil {
			return err
		}
		return p.crowned(&next, ids[0], cut{})
	})
}

// rootInForce gives the root that counts, as a record and as what it says.
func (p *project) rootInForce(ctx context.Context) (ferry.Record, ferry.Root, error) {
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return ferry.Record{}, ferry.Root{}, err
	}
	rec := roster.Root()
	b, ok := rec.Body.(*ferry.Root)
	if !ok {
		return rec, ferry.Root{}, fmt.Errorf("channel %s: %w", p.config.ChannelID.Short(), channel.ErrNoRoot)
	}
	return rec, *b, nil
}

// masterOf gives the master's entry for another key on this machine.
func (p *project) masterOf(m ferry.Member, key sign.PublicKey) ferry.Member {
	m.Writer, m.Key, m.Machine = ferry.WriterID(key.WriterID()), key.String(), machine.Name()
	m.Email = cmp.Or(p.config.Email, m.Email)
	return m
}

// crowned puts the next key of the master in its place, and says what is.
func (p *project) crowned(root *ferry.Root, id ferry.RecordID, c cut) error {
	if err := p.state.changeKey(p.config.ChannelID, operatorBase); err != nil {
		return err
	}
	shape := rootShape{
		Root: id.String(), Generation: root.Generation, Version: root.Version, Master: string(root.Master.Name),
		Writer: string(root.Master.Writer), PublicKey: root.Master.Key, Keep: c.Seq, Dropped: c.dropped,
	}
	return p.app.print(shape, func(w io.Writer) {
		fmt.Fprintf(w, "%s is the master with another key: root %s, generation %d, version %d\n", shape.Master, id.Short(), root.Generation, root.Version)
		if c.held > 0 {
			fmt.Fprintln(w, indent("of the master before: "+c.words()))
		}
		fmt.Fprintln(w, "next: keep a copy of "+p.state.keyFile(p.config.ChannelID, operatorBase)+" in a safe place")
	})
}

// recoverFlags are the flags of `channel recover`, as typed.
type recoverFlags struct {
	key string
	cut cutFlags
	yes bool
}

func (a *app) recoverCommand() *cobra.Command {
	var f recoverFlags
	cmd := &cobra.Command{
		Use:   "recover --key FILE",
		Short: "take the channel back with the recovery key",
		Long: `Recover makes this machine's person the master, with a fresh key, by a root of the
next generation that the recovery key signs. Every machine takes it over any root
that the old key can sign. It is for a master's machine that was lost or stolen.

Of what the old master wrote, that up to the cut goes on counting: the newest
record that is known here, unless --keep names an earlier one. After a theft look
at ` + "`ferry channel log`" + ` first, and keep only what was written before it.`,
		Example: `  ferry channel recover --key /media/stick/recovery.key
  ferry channel recover --key /media/stick/recovery.key --keep 118`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.recover(cmd.Context(), f, cmd.InOrStdin()) },
	}
	s := cmd.Flags()
	s.StringVar(&f.key, "key", "", "`FILE` of the recovery key")
	s.StringVar(&f.cut.keep, "keep", "", "`SEQ` of the old master's last record that counts; SEQ:ID where a number was signed twice")
	s.BoolVar(&f.cut.none, "keep-none", false, "nothing that the old master wrote counts, but the founding")
	s.BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.MarkFlagsMutuallyExclusive("keep", "keep-none")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) recover(ctx context.Context, f recoverFlags, in io.Reader) error {
	if f.key == "" {
		return misuse("name the file that `ferry enable` made as recovery.key: --key FILE", "recover: --key is missing")
	}
	recovery, err := sign.LoadKey(f.key)
	if errors.Is(err, fs.ErrNotExist) {
		return misuse("check the path", "recover: %w", err)
	}
	if err != nil {
		return fault(classKey, "a key is a file of mode 0600 that only you own", fmt.Errorf("recover: %w", err))
	}
	return a.with(ctx, func(p *project) error {
		before, root, err := p.rootInForce(ctx)
		if err != nil {
			return err
		}
		if !slices.Contains(root.Recovery, recovery.Public().String()) {
			return faultf(classKey, "find the recovery.key that belongs to the channel "+p.config.ChannelID.Short(), "recover: %s is not a recovery key of this channel", f.key)
		}
		c, err := p.cutOf(ctx, root.Master, f.cut)
		if err != nil {
			return err
		}
		if !f.yes {
			if err := a.sure(in, fmt.Sprintf("recover: take the place of %s on %s: %s. Do it?", root.Master.Name, root.Master.Machine, c.words())); err != nil {
				return err
			}
		}
		return p.takeOver(ctx, recovery, before.ID, root, c)
	})
}

// takeOver writes the root of the next generation.
func (p *project) takeOver(ctx context.Context, recovery sign.Key, before ferry.RecordID, root ferry.Root, c cut) error {
	if err := atomicfile.MkdirAll(p.state.keys(p.config.ChannelID), 0o700); err != nil {
		return err
	}
	key, err := keyAt(p.state.nextKey(p.config.ChannelID, operatorBase))
	if err != nil {
		return err
	}
	next := root
	next.Generation, next.Version, next.Prev, next.Keep = root.Generation+1, 1, before, c.Cut
	next.Threshold, next.Keys = 1, nil
	next.Master = p.masterOf(root.Master, key.Public())
	id, err := p.channel.Recover(ctx, channel.RecoverSpec{Root: next, Key: key, Recovery: recovery, Now: p.app.now()})
	if err := p.app.published(err); err != nil {
		return err
	}
	return p.crowned(&next, id, c)
}
