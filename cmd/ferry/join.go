package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// joinFlags are the flags of `channel join`, as typed.
type joinFlags struct {
	enableFlags
	timeout string
	noWait  bool
}

func (a *app) joinCommand() *cobra.Command {
	var f joinFlags
	cmd := &cobra.Command{
		Use:   "join CODE",
		Short: "ask to be let into a channel, with an invite's code",
		Long: `Join makes this repository a project of a channel that another machine founded.
It checks that the folder holds the channel of the code, at least as far as it
was when the code was given, makes a key, and asks the master to let it in. It
shows six words: the master's machine has to show the same. Until the master
has answered, nothing is done here under the new key.

Ctrl-C does not take the question back. Run join again to go on waiting, or
look at ` + "`ferry status`" + `.`,
		Example: `  ferry channel join ferry1.aeaf… --channel ~/sync/my-project
  ferry channel join ferry1.aeaf… --channel ~/sync/my-project --agent gale-claude --command claude`,
		Args: exactly("CODE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.join(cmd.Context(), args[0], f) },
	}
	s := cmd.Flags()
	s.StringVar(&f.channel, "channel", "", "`DIR` of the channel on this machine, which a carrier fills (default: where the code says)")
	s.StringVar(&f.agent, "agent", "", "`NAME` of the new member (default: as the code says, or machine and engine)")
	s.StringVar(&f.email, "email", "", "your e-mail address (default: git's user.email)")
	s.StringVar(&f.command, "command", "", "the engine's `CLI` (default: the first of codex, claude, pi that is installed)")
	s.StringVar(&f.sandbox, "sandbox", "", "auto, bwrap, landlock or none")
	s.StringVar(&f.timeout, "timeout", "10m", "how long to wait for a folder that is still being filled, a `TIME` like 10m")
	s.BoolVar(&f.noWait, "no-wait", false, "ask, and do not wait for the answer")
	a.jsonFlag(cmd)
	return cmd
}

// joining is one call of join: an enabling whose channel is another's.
type joining struct {
	enabling
	token channel.Token
	flags joinFlags
	role  role
	ch    *channel.Channel
	store string // made by this call, and of no use when it refuses
	base  string // of the key's file
	ask   asking
	done  bool // the master has answered
}

// joinedShape answers join.
type joinedShape struct {
	enableShape
	Admitted bool     `json:"admitted"`
	Name     string   `json:"name"`
	Role     string   `json:"role"`
	Words    []string `json:"words"`
	Next     string   `json:"next"`
}

func (a *app) join(ctx context.Context, code string, f joinFlags) (err error) {
	j := &joining{flags: f}
	j.a, j.f = a, f.enableFlags
	j.shape = enableShape{Files: []string{}, Found: []string{}, Warnings: []string{}}
	if j.token, err = parseCode(code, a.now()); err != nil {
		return err
	}
	if j.state, err = stateDir(); err != nil {
		return err
	}
	start, err := a.start()
	if err != nil {
		return err
	}
	if j.repo, err = findRepository(ctx, start); err != nil {
		return err
	}
	defer func() {
		if j.ch != nil {
			err = errors.Join(err, j.ch.Close())
		}
		if j.store != "" {
			err = errors.Join(err, os.RemoveAll(j.store))
		}
	}()
	for _, step := range []func(context.Context) error{
		j.configured, j.sameChannel, j.folder, j.reach, j.callProject, j.names, j.member, j.room, j.keep, j.question, j.write, j.put, j.wait,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return j.report()
}

// parseCode reads an invite's code and refuses one that is of no use here.
func parseCode(code string, now time.Time) (channel.Token, error) {
	t, err := channel.ParseToken(code)
	if err != nil {
		return t, misuse("copy the whole code that `ferry channel invite` printed", "join: %w", err)
	}
	if now.After(t.NotAfter) {
		return t, faultf(classRefused, "ask for another code; if this machine's clock is wrong, set it right",
			"join: the code ended at %s", t.NotAfter.Local().Format("2006-01-02 15:04"))
	}
	if have := version().Version; olderThan(have, t.Version) {
		return t, faultf(classRefused, "install a newer ferry on this machine", "join: this channel needs ferry %s, and this is %s", t.Version, have)
	}
	return t, nil
}

// olderThan compares versions like v1.2.3. What is no such version is never
// older: it was built from a checkout.
func olderThan(have, want string) bool {
	h, okHave := dotted(have)
	w, okWant := dotted(want)
	return okHave && okWant && slices.Compare(h, w) < 0
}

func dotted(v string) ([]int, bool) {
	v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "-")
	var out []int
	for _, part := range strings.Split(v, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

// sameChannel refuses a repository that is a project of another channel.
func (j *joining) sameChannel(context.Context) error {
	if id := j.c.ChannelID; j.had && !id.IsZero() && id != j.token.Channel {
		return faultf(classConfig, "join in another clone of the repository; one project has one channel",
			"join: %s is a project of the channel %s, and the code is of %s", j.repo.top, id.Short(), j.token.Channel.Short())
	}
	j.c.ChannelID = j.token.Channel
	return nil
}

// folder settles where the channel's folder is on this machine.
func (j *joining) folder(context.Context) error {
	dir := cmp.Or(j.f.channel, j.c.Channel)
	if path, err := filepath.Abs(dir); j.had && j.c.Channel != "" && err == nil && path != j.c.Channel {
		return faultf(classConfig, "edit channel in "+j.file(configFile)+" to move it", "--channel %s: this project's channel is %s", path, j.c.Channel)
	}
	if dir == "" && j.token.Carrier.Kind == carrierFolder && j.token.Carrier.Text != "" {
		if path, err := absolute(j.token.Carrier.Text); err == nil {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				dir = path
			}
		}
	}
	if dir == "" {
		return misuse("say where its folder is on this machine: --channel DIR (on the master's it is "+cmp.Or(j.token.Carrier.Text, "elsewhere")+")",
			"join: the channel's folder is not known here")
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("--channel %s: %w", dir, err)
	}
	j.f.channel = path
	return nil
}

// The pace of the waits: how often the folder is looked at, and when a person
// is told for the first time what is missing; each later time takes twice as
// long.
const (
	lookEvery = 500 * time.Millisecond
	tellFirst = 10 * time.Second
)

// until looks again and again until look says that it is done. What it waits
// for is told from time to time.
func (a *app) until(ctx context.Context, look func() (done bool, missing string, err error)) error {
	told, every := a.now(), tellFirst
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		done, missing, err := look()
		if err != nil || done {
			return err
		}
		if now := a.now(); now.Sub(told) >= every {
			told, every = now, 2*every
			a.warn("waiting: %s", missing)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// reach opens the channel and waits until the folder has it as far as it was
// when the code was given.
func (j *joining) reach(ctx context.Context) error {
	span, err := time.ParseDuration(j.flags.timeout)
	if err != nil || span < 0 {
		return misuse("give a time like 30s or 10m", "--timeout %q: not such a time", clip(j.flags.timeout, 40))
	}
	limited, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	last := "the folder has no channel yet"
	err = j.a.until(limited, func() (bool, string, error) {
		done, missing, err := j.look(ctx)
		last = cmp.Or(missing, last)
		if err == nil && !done && span == 0 {
			err = context.DeadlineExceeded
		}
		return done, missing, err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return faultf(classChannel, "see that a carrier fills "+j.f.channel+", then run this again; if it has all there is, it is an old copy or another channel",
			"join: within %s the folder did not reach the state of the code: %s", span, last)
	}
	return err
}

// look opens the channel if that is not done, reads what is there, and says
// what is missing.
func (j *joining) look(ctx context.Context) (done bool, missing string, err error) {
	if j.ch == nil {
		j.c.Channel = j.f.channel
		store := j.state.store(j.token.Channel)
		if _, err := os.Stat(store); errors.Is(err, fs.ErrNotExist) {
			j.store = store
		}
		ch, err := channel.Open(ctx, j.channelConfig(store), j.token.Channel)
		if errors.Is(err, channel.ErrNoRoot) {
			return false, "the folder has no root record yet", nil
		}
		if err != nil {
			return false, "", err
		}
		j.ch = ch
	}
	if _, err := j.ch.Refresh(ctx); err != nil {
		return false, "", fmt.Errorf("read the channel: %w", err)
	}
	return j.covers(ctx)
}

// covers reports whether the master's chain holds the invite's record where
// the code says, and the chain of roots the root of the code.
func (j *joining) covers(ctx context.Context) (done bool, missing string, err error) {
	links, err := j.ch.Chain(ctx, j.token.Master, j.token.Epoch)
	if err != nil {
		return false, "", err
	}
	at := uint64(0)
	for _, l := range links {
		at = max(at, l.Seq)
		if l.Seq == j.token.Seq && l.ID == j.token.Invite && l.Counts {
			done = true
		}
	}
	if !done && at >= j.token.Seq {
		return false, "", faultf(classChannel, "this folder is not the one of the code, or somebody put records of another machine into it; ask the master",
			"join: the master's record number %d is not the one that the code names", j.token.Seq)
	}
	if !done {
		return false, fmt.Sprintf("of the master's records %d of %d are here", at, j.token.Seq), nil
	}
	roster, err := j.ch.Roster(ctx)
	if err != nil {
		return false, "", err
	}
	if !slices.ContainsFunc(roster.Roots(), func(r ferry.Record) bool { return r.ID == j.token.Root }) {
		return false, "the root " + j.token.Root.Short() + " is not here", nil
	}
	return true, "", nil
}

// keep keeps what was made: there is nothing left to refuse.
func (j *joining) keep(context.Context) error {
	j.store = ""
	return nil
}

// callProject takes the name that the channel gives the project, where this
// machine has no other project of that name.
func (j *joining) callProject(ctx context.Context) error {
	roster, err := j.ch.Roster(ctx)
	if err != nil {
		return err
	}
	name := roster.Project()
	if j.had || j.a.project != "" || checkProject(name) != nil {
		return nil
	}
	if !slices.ContainsFunc(j.state.registry(), func(r registered) bool { return r.Name == name && r.Dir != j.repo.top }) {
		j.c.Project = name
	}
	return nil
}

// member reads what the invite is for, and settles what the new member is
// called.
func (j *joining) member(ctx context.Context) error {
	rec, _, err := j.ch.Record(ctx, j.token.Invite)
	if err != nil {
		return err
	}
	invite, ok := rec.Body.(*ferry.Invite)
	key, err := j.token.Key()
	if err != nil {
		return err
	}
	if !ok || invite.Key != key.Public().String() {
		return faultf(classChannel, "ask the master for another code", "join: the record %s of the code is not its invite", j.token.Invite.Short())
	}
	j.role = roleOf(invite.Grants)
	if err := j.used(ctx, invite); err != nil {
		return err
	}
	if j.role.person {
		return j.person(ctx)
	}
	j.f.agent = cmp.Or(j.f.agent, j.token.Name)
	free := j.f.agent == "" && !j.had
	if err := j.engine(ctx); err != nil {
		return err
	}
	if free {
		if err := j.freeName(ctx); err != nil {
			return err
		}
	}
	j.base, j.ask.Name = string(j.c.Agent), j.c.Agent
	return j.sandbox(ctx)
}

// freeName changes a name that nobody has chosen until no member has it.
func (j *joining) freeName(ctx context.Context) error {
	roster, err := j.ch.Roster(ctx)
	if err != nil {
		return err
	}
	base := j.c.Agent
	for n := 2; ; n++ {
		if _, taken := nameHolder(roster, j.c.Agent); !taken {
			j.shape.Agent = string(j.c.Agent)
			return nil
		}
		j.c.Agent = ferry.AgentName(fmt.Sprintf("%s-%d", base, n))
	}
}

// used refuses a code that has let somebody else in.
func (j *joining) used(ctx context.Context, invite *ferry.Invite) error {
	if invite.Many {
		return nil
	}
	members, err := j.ch.Members(ctx)
	if err != nil {
		return err
	}
	here := (&project{place: place{config: j.c}, state: j.state, app: j.a}).writersHere()
	for _, m := range members {
		admissions, err := j.ch.Admissions(ctx, m.Writer)
		if err != nil {
			return err
		}
		for _, rec := range admissions {
			if b, ok := rec.Body.(*ferry.Admit); ok && b.Invite == j.token.Invite && !here[m.Key] {
				return faultf(classRefused, "ask the master for another code", "join: the code has let %s in already", m.Name)
			}
		}
	}
	return nil
}

// person settles the name of a member that is a person, whose machine runs no
// engine for the channel by that.
func (j *joining) person(context.Context) error {
	name := cmp.Or(j.f.agent, j.token.Name, string(j.personName()))
	n, err := parseAgent(name)
	if err != nil {
		return err
	}
	j.base, j.ask.Name = operatorBase, n
	j.shape.Agent = string(j.c.Agent)
	return nil
}

const nonceBytes = 32

// question makes the key and the question, or takes up those of an earlier
// call.
func (j *joining) question(ctx context.Context) error {
	id := j.token.Channel
	if err := atomicfile.MkdirAll(j.state.keys(id), 0o700); err != nil {
		return err
	}
	key, err := keyAt(j.state.keyFile(id, j.base))
	if err != nil {
		return err
	}
	public := key.Public()
	old, have, err := j.state.readAsking(id, j.base)
	if err != nil {
		return err
	}
	if have && old.Invite == j.token.Invite && old.Key == public.String() {
		j.ask = old
		return nil
	}
	roster, err := j.ch.Roster(ctx)
	if err != nil {
		return err
	}
	if m, ok := roster.Member(ferry.WriterID(public.WriterID())); ok && !have {
		j.done = true
		j.found("the key of %s, which is a member already", m.Name)
		return nil
	}
	if m, ok := nameHolder(roster, j.ask.Name); ok {
		return faultf(classRefused, "choose another with --agent NAME", "join: the name %s belongs to a member on %s", m.Name, m.Machine)
	}
	j.ask = newAsking(j.ask.Name, id, j.token.Invite, public)
	j.ask.Since = j.a.now().UTC()
	return saveJSON(j.state.asking(id, j.base), j.ask, 0o600)
}

// newAsking makes a question with a nonce of its own.
func newAsking(n ferry.AgentName, id, invite ferry.RecordID, key sign.PublicKey) asking {
	nonce := make([]byte, nonceBytes)
	rand.Read(nonce) // it never returns an error: crypto/rand ends the program instead
	return asking{
		Name: n, Writer: ferry.WriterID(key.WriterID()), Key: key.String(), Invite: invite, Nonce: hex.EncodeToString(nonce),
		Words: joinWords(id, key, nonce, invite),
	}
}

// joinWords gives the six words of a question to be let in.
func joinWords(id ferry.RecordID, key sign.PublicKey, nonce []byte, invite ferry.RecordID) []string {
	return channel.Words(id[:], key[:], nonce, invite[:])
}
