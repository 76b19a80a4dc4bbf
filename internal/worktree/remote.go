package worktree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/process"
)

// RemoteSpec says which remote landings are pushed to, and with what.
type RemoteSpec struct {
	// Name is that of a remote in the person's repository, or a URL, or the path of a repository.
	Name string
	// Env is the person's environment. What ssh, proxies and credential helpers need is taken out of it.
	Env []string
	// Accept takes the remote as it is: at another place than before, or with a branch that was rewound.
	Accept bool
	// Timeout bounds one talk with the remote; 0 means two minutes.
	Timeout time.Duration
}

// Remote is the repository that landings are pushed to, at the place that is pinned in the gate.
type Remote struct {
	gate    *Gate
	spec    RemoteSpec
	address address
	env     []string
	set     []string
}

// pin is what a gate remembers of its remote.
type pin struct {
	URL  string                  `json:"url"`
	Tips map[string]ferry.Commit `json:"tips,omitempty"` // of branches, as they were seen last
}

// maxPin is the size in bytes of the largest pin.
const maxPin = 1 << 20

func (g *Gate) pinFile() string { return filepath.Join(g.dir, "remote.json") }

func (g *Gate) readPin() (pin, error) {
	p := pin{Tips: map[string]ferry.Commit{}}
	data, err := atomicfile.ReadBounded(g.pinFile(), maxPin)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("read %s: %w", g.pinFile(), err)
	}
	if p.Tips == nil {
		p.Tips = map[string]ferry.Commit{}
	}
	return p, nil
}

// Remote finds the remote. It talks to nobody. It refuses with ErrRemoteURL, and with ErrRemoteChanged when landings were
// pushed to another place before.
func (g *Gate) Remote(ctx context.Context, spec RemoteSpec) (*Remote, error) {
	if spec.Timeout == 0 {
		spec.Timeout = 2 * time.Minute
	}
	r := &Remote{gate: g, spec: spec}
	account := g.newAccount(spec.Env)
	var err error
	if r.address, err = g.findAddress(ctx, account, spec.Name); err != nil {
		return nil, fmt.Errorf("remote %s: %w", visible(spec.Name), err)
	}
	known, err := g.readPin()
	if err != nil {
		return nil, fmt.Errorf("remote %s: %w", r, err)
	}
	if known.URL != "" && known.URL != r.address.url && !spec.Accept {
		before, err := parseAddress(known.URL, "/")
		return nil, fmt.Errorf("remote %s: %w: it was %s", r, ErrRemoteChanged, cmp.Or(before.shown, fmt.Sprint(err)))
	}
	if r.env, r.set, err = account.reaching(ctx, r.address.protocol); err != nil {
		return nil, fmt.Errorf("remote %s: %w", r, err)
	}
	return r, nil
}

// String gives the name of the remote, or where it is, without what names an account.
func (r *Remote) String() string {
	if strings.ContainsAny(r.spec.Name, ":/") {
		return r.address.shown
	}
	return r.spec.Name
}

// Place says where the remote is, without what names an account.
func (r *Remote) Place() string { return r.address.shown }

// maxPack bounds what a remote may make git write into one file of the gate, in bytes.
const maxPack = 16 << 30

// talk runs one git command of the gate that reaches the remote. Hooks and settings of a remote at a path on this machine
// are off, as everywhere; those of a server are the server's.
func (r *Remote) talk(ctx context.Context, service string, args ...string) (string, error) {
	limit := fmt.Errorf("%s did not answer within %s", r, r.spec.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, r.spec.Timeout, limit)
	defer cancel()
	argv := []string{r.gate.git.path, "--git-dir=" + r.gate.dir}
	for _, s := range r.set {
		argv = append(argv, "-c", s)
	}
	if args[0] == "fetch" {
		for _, fault := range tolerated {
			argv = append(argv, "-c", "fetch.fsck."+fault+"=ignore")
		}
	}
	argv = append(argv, args[0])
	if r.address.protocol == "file" {
		argv = append(argv, r.service(service))
	}
	argv = append(argv, args[1:]...)
	spec := process.Spec{Argv: argv, Env: r.env, Dir: r.gate.dir, Limits: process.Limits{FileBytes: maxPack}}
	out, err := execute(ctx, spec, args[0], outputLimit)
	if err != nil {
		return out, fmt.Errorf("%w: %w", ErrRemote, err)
	}
	return out, nil
}

// service words how git starts the other side of a remote on this machine.
func (r *Remote) service(name string) string {
	command := []string{quoteWord(r.gate.git.path)}
	set := []string{"receive.denyCurrentBranch=refuse", "receive.autogc=false", "receive.updateServerInfo=false"}
	for _, s := range slices.Concat(r.set, set) {
		command = append(command, "-c", quoteWord(s))
	}
	return "--" + name + "=" + strings.Join(append(command, name), " ")
}

func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// refs reads refs of the remote. One that is not there is not in the answer.
func (r *Remote) refs(ctx context.Context, names ...string) (map[string]ferry.Commit, error) {
	out, err := r.talk(ctx, "upload-pack", append([]string{"ls-remote", "--quiet", "--refs", "--end-of-options", r.address.url}, names...)...)
	if err != nil {
		return nil, err
	}
	found := map[string]ferry.Commit{}
	for line := range strings.Lines(out) {
		id, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !slices.Contains(names, name) {
			continue // git matches the ends of names
		}
		if found[name], err = ferry.ParseCommit(id); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Seen is what a remote holds. Landed is the commit that the order has landed as there; "" means that it has not.
type Seen struct {
	Tip    ferry.Commit
	Landed ferry.Commit
}

// Landed asks the remote whether an order has landed.
func (r *Remote) Landed(ctx context.Context, order ferry.RecordID) (ferry.Commit, error) {
	found, err := r.refs(ctx, landedRef(order))
	if err != nil {
		return "", fmt.Errorf("ask %s about order %s: %w", r, order.Short(), err)
	}
	return found[landedRef(order)], nil
}

// Look asks the remote where its branch is and whether the order has landed there, and brings the tip into the gate. It
// refuses with ErrNoRemoteBranch, and with ErrRewound when the tip does not contain what the branch held before.
func (r *Remote) Look(ctx context.Context, branch string, order ferry.RecordID) (Seen, error) {
	seen, err := r.look(ctx, branch, order)
	if err != nil {
		return seen, fmt.Errorf("look at %s of %s: %w", visible(branch), r, err)
	}
	return seen, nil
}

func (r *Remote) look(ctx context.Context, branch string, order ferry.RecordID) (Seen, error) {
	ref := "refs/heads/" + branch
	if badRef(ref) {
		return Seen{}, fmt.Errorf("%q is not a branch name", branch)
	}
	for range maxLooks {
		found, err := r.refs(ctx, ref, landedRef(order))
		if err != nil {
			return Seen{}, err
		}
		seen := Seen{Tip: found[ref], Landed: found[landedRef(order)]}
		if seen.Tip == "" {
			return seen, ErrNoRemoteBranch
		}
		here, err := r.fetch(ctx, ref, seen.Tip)
		if err != nil {
			return seen, err
		}
		if here {
			return seen, r.know(ctx, branch, seen.Tip)
		}
	}
	return Seen{}, fmt.Errorf("%w: the branch keeps moving", ErrMoved)
}

// maxLooks is how often a look begins again because the branch moved while its commits came.
const maxLooks = 3

// Fetch brings the commit that the order has landed as on the remote into the gate.
func (r *Remote) Fetch(ctx context.Context, order ferry.RecordID, commit ferry.Commit) error {
	here, err := r.fetch(ctx, landedRef(order), commit)
	if err == nil && !here {
		err = errors.New("the remote gives another one")
	}
	if err != nil {
		return fmt.Errorf("fetch %s from %s: %w", commit.Short(), r, err)
	}
	return nil
}

// fetch brings a ref of the remote into the gate, checked strictly, and pins the commit that it was at. here is false
// when the ref has moved since.
func (r *Remote) fetch(ctx context.Context, ref string, commit ferry.Commit) (here bool, err error) {
	if r.gate.pinned(ctx, commit) {
		return true, nil
	}
	if !r.gate.Has(ctx, commit) {
		_, err := r.talk(ctx, "upload-pack", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--update-shallow",
			"--end-of-options", r.address.url, ref)
		if err != nil || !r.gate.Has(ctx, commit) {
			return false, err
		}
	}
	return true, r.gate.keep(ctx, baseRef(commit), commit)
}

// know compares the tip of a branch with the one that was seen before, and remembers it.
func (r *Remote) know(ctx context.Context, branch string, tip ferry.Commit) error {
	unlock, err := r.gate.lockLanding(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	known, err := r.gate.readPin()
	if err != nil {
		return err
	}
	before := known.Tips[branch]
	if before == tip {
		return nil
	}
	if before != "" && !r.spec.Accept {
		err := r.gate.checkFollows(ctx, r.gate.dir, before, tip)
		if errors.Is(err, ErrDiverged) {
			return fmt.Errorf("%w: it was at %s and is at %s", ErrRewound, before.Short(), tip.Short())
		}
		if err != nil {
			return err
		}
	}
	known.Tips[branch] = tip
	return r.gate.writePin(known)
}

func (g *Gate) writePin(p pin) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return atomicfile.Write(g.pinFile(), data, 0o600)
}

// remember pins the place of the remote, before anything is pushed there.
func (r *Remote) remember(ctx context.Context) error {
	unlock, err := r.gate.lockLanding(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	known, err := r.gate.readPin()
	if err != nil || known.URL == r.address.url {
		return err
	}
	if known.URL != "" && !r.spec.Accept {
		return ErrRemoteChanged
	}
	known.URL = r.address.url
	return r.gate.writePin(known)
}

// Push moves the branch of the remote and creates the order's landed ref there in one transaction: a fast-forward that is
// never forced, and a ref that may not exist. Then it reads both back. It refuses with a *LandedError, and with ErrMoved
// when the branch is not at Old any more. After an ErrRemote it is not known what the remote has done: Landed asks it.
func (r *Remote) Push(ctx context.Context, spec LandSpec) error {
	if err := r.push(ctx, spec); err != nil {
		return fmt.Errorf("land %s on %s of %s: %w", spec.New.Short(), visible(spec.Branch), r, err)
	}
	return nil
}

func (r *Remote) push(ctx context.Context, spec LandSpec) error {
	branch, mark := "refs/heads/"+spec.Branch, landedRef(spec.Order)
	if badRef(branch) {
		return fmt.Errorf("%q is not a branch name", spec.Branch)
	}
	if err := r.gate.checkFollows(ctx, r.gate.dir, spec.Old, spec.New); err != nil {
		return err
	}
	if err := r.remember(ctx); err != nil {
		return err
	}
	_, pushErr := r.talk(ctx, "receive-pack", "push", "--atomic", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags",
		"--recurse-submodules=no", "--force-with-lease="+mark+":", "--end-of-options", r.address.url,
		string(spec.New)+":"+branch, string(spec.New)+":"+mark)
	found, err := r.refs(ctx, branch, mark)
	if err != nil {
		return errors.Join(pushErr, err)
	}
	switch landed := found[mark]; {
	case landed != "" && landed != spec.New:
		return &LandedError{Order: spec.Order, Commit: landed}
	case landed == "" && found[branch] != spec.Old:
		return fmt.Errorf("%w: it is at %s, not at %s", ErrMoved, found[branch].Short(), spec.Old.Short())
	case landed == "" && pushErr != nil:
		return pushErr
	case landed == "":
		return fmt.Errorf("%w: it took the push and does not show it", ErrRemote)
	}
	return r.know(ctx, spec.Branch, spec.New) // should somebody take it out again, the next look says so
}
