package attack_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/sign"
)

func TestMain(m *testing.M) {
	box.Main()
	dir, err := os.MkdirTemp("", "ferry-attack-")
	if err == nil {
		err = os.Setenv(builtEnv, dir)
	}
	code := 1
	if err == nil {
		code = m.Run()
		err = os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var day = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// judge stands for package evidence: a result with a failed check is refuted.
func judge(_ *ferry.Order, r *ferry.Result) ferry.Evidence {
	for _, c := range r.Checks {
		if c.Exit != 0 {
			return ferry.Evidence{Status: ferry.EvidenceRefuted, Reasons: []string{"a check failed"}}
		}
	}
	return ferry.Evidence{Status: ferry.EvidenceVerified}
}

func key(t testing.TB, name string) sign.Key {
	t.Helper()
	k, err := sign.GenerateKey(bytes.NewReader(fmt.Appendf(nil, "%-32s", name)))
	must(t, err)
	return k
}

func wid(t testing.TB, name string) ferry.WriterID {
	t.Helper()
	return ferry.WriterID(key(t, name).Public().WriterID())
}

func member(t testing.TB, name string, grants ...ferry.Grant) ferry.Member {
	t.Helper()
	return ferry.Member{Writer: wid(t, name), Key: key(t, name).Public().String(), Name: ferry.AgentName(name), Machine: "box", Grants: grants}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// machine is one machine of a fleet: a state directory of its own over the folder that all share.
type machine struct {
	*channel.Channel
	t   testing.TB
	cfg channel.Config
}

// fleet is a channel with an operator, two agents on two machines, and a reviewer who is the operator's delegate.
type fleet struct {
	t                        testing.TB
	dir, folder              string
	id                       ferry.RecordID
	home, left, right        *machine
	master, wisp, moth, lynx *channel.Writer
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	return foundedAt(t, day)
}

// foundedAt is a fleet whose channel was founded at a time. Another time makes another channel of the same keys.
func foundedAt(t testing.TB, now time.Time) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir()}
	f.folder = filepath.Join(f.dir, "folder")
	cfg := channel.Config{Folder: f.folder, State: filepath.Join(f.dir, "home"), Judge: judge}
	c, err := channel.Found(t.Context(), cfg, channel.FoundSpec{
		Project: "demo", Master: ferry.Member{Name: "ada", Machine: "home"}, Key: key(t, "ada"),
		Recovery: []sign.PublicKey{key(t, "recovery").Public()}, Now: now,
	})
	must(t, err)
	f.id, f.home = c.ID(), &machine{Channel: c, t: t, cfg: cfg}
	t.Cleanup(func() { must(t, f.home.Close()) })
	f.master = f.home.writer("ada")
	for _, m := range []ferry.Member{member(t, "wisp", ferry.GrantWork), member(t, "moth", ferry.GrantWork), member(t, "lynx")} {
		_, err := f.master.Admit(t.Context(), day, m)
		must(t, err)
	}
	f.say(&ferry.Delegate{To: wid(t, "lynx"), Scopes: []ferry.Scope{ferry.ScopeReview}})
	f.left, f.right = f.open("left"), f.open("right")
	f.wisp, f.moth, f.lynx = f.left.writer("wisp"), f.right.writer("moth"), f.right.writer("lynx")
	return f
}

// open opens the channel on a further machine.
func (f *fleet) open(name string) *machine {
	f.t.Helper()
	m := &machine{t: f.t, cfg: channel.Config{Folder: f.folder, State: filepath.Join(f.dir, name), Judge: judge}}
	c, err := channel.Open(f.t.Context(), m.cfg, f.id)
	must(f.t, err)
	m.Channel = c
	f.t.Cleanup(func() { must(f.t, m.Close()) })
	m.look()
	return m
}

func (m *machine) writer(name string) *channel.Writer {
	m.t.Helper()
	w, err := m.Writer(key(m.t, name))
	must(m.t, err)
	return w
}

// look is one look at the folder.
func (m *machine) look() channel.Report {
	m.t.Helper()
	r, err := m.Refresh(m.t.Context())
	must(m.t, err)
	return r
}

func (f *fleet) machines() []*machine { return []*machine{f.home, f.left, f.right} }

// sync lets every machine see what every other has written.
func (f *fleet) sync() {
	f.t.Helper()
	for range 2 {
		for _, m := range f.machines() {
			m.look()
		}
	}
}

// say writes one record of the operator.
func (f *fleet) say(b ferry.Body) ferry.RecordID {
	f.t.Helper()
	return write(f.t, f.master, b)
}

func write(t testing.TB, w *channel.Writer, b ferry.Body) ferry.RecordID {
	t.Helper()
	ids, err := w.Update(t.Context(), day, func(tx *channel.Tx) error {
		_, err := tx.Add(b)
		return err
	})
	must(t, err)
	return ids[0]
}

func order(label string) *ferry.Order {
	return &ferry.Order{Label: ferry.Label(label), Project: "demo", Text: "do " + label}
}

// asked is an order that nothing is accepted of without a review and an approval.
func asked(label string) *ferry.Order {
	o := order(label)
	o.NeedsReview, o.NeedsApproval = true, true
	return o
}

func (f *fleet) begin(m *machine, w *channel.Writer, id ferry.RecordID) (claim, start ferry.RecordID) {
	f.t.Helper()
	m.look()
	claim, start, err := w.Begin(f.t.Context(), day, channel.BeginSpec{
		Order: id, Attempt: m.task(id).Next.Attempt, Start: ferry.Start{Engine: "script", Sandbox: "none"},
	})
	must(f.t, err)
	return claim, start
}

// finish has an order done by wisp.
func (f *fleet) finish(id ferry.RecordID) (start, result ferry.RecordID) {
	f.t.Helper()
	_, start = f.begin(f.left, f.wisp, id)
	n := f.left.task(id).Attempt
	return start, write(f.t, f.wisp, &ferry.Result{Order: id, Start: start, Attempt: n, Revision: n, Engine: "script"})
}

func (m *machine) task(id ferry.RecordID) ferry.Task {
	m.t.Helper()
	t, err := m.Task(m.t.Context(), id.String())
	must(m.t, err)
	return t
}

func (f *fleet) wantState(id ferry.RecordID, want ferry.State) {
	f.t.Helper()
	f.sync()
	for _, m := range f.machines() {
		if got := m.task(id); got.State != want {
			f.t.Errorf("on %s the order %s is %s (%s), want %s", filepath.Base(m.cfg.State), got.Order.Label, got.State, got.Hold, want)
		}
	}
}

// state is everything that a machine decides by: the tasks, the members, their delegations and the policies.
func (m *machine) state() string {
	m.t.Helper()
	ctx := m.t.Context()
	tasks, err := m.Tasks(ctx, channel.Filter{})
	must(m.t, err)
	roster, err := m.Roster(ctx)
	must(m.t, err)
	questions, err := m.Questions(ctx)
	must(m.t, err)
	snap, err := m.Snapshot(ctx)
	must(m.t, err)
	s := map[string]any{
		"tasks": tasks, "members": roster.Members(), "digest": roster.Digest(), "root": roster.Root().ID, "hold": roster.Hold(),
		"questions": questions, "snapshot hold": snap.Hold, "behind": snap.Behind, "requires": roster.Requires(),
	}
	for _, k := range []ferry.PolicyKind{ferry.PolicyEngine, ferry.PolicyAdversary, ferry.PolicySwitch} {
		rec, hold := roster.Policy(k)
		s["policy "+string(k)] = []any{rec.ID, hold}
	}
	for _, w := range roster.Known() {
		d, id, ok := roster.Delegation(w)
		keep, _ := roster.Chain(w, 1)
		s["writer "+string(w)] = []any{roster.Epoch(w), d, id, ok, keep}
	}
	out, err := json.MarshalIndent(s, "", " ")
	must(m.t, err)
	return string(out)
}

// unmoved makes sure that what is done changes nothing that any machine decides by, and that each still computes the same
// from the bytes of its records.
func (f *fleet) unmoved(what string, do func()) {
	f.t.Helper()
	f.still(what, (*machine).state, do)
}

// still is unmoved for a part of what a machine decides by.
func (f *fleet) still(what string, part func(*machine) string, do func()) {
	f.t.Helper()
	f.sync()
	before := part(f.home)
	do()
	f.sync()
	for _, m := range f.machines() {
		if diff := cmp.Diff(before, part(m)); diff != "" {
			f.t.Errorf("%s changes what %s decides by (-before +after):\n%s", what, filepath.Base(m.cfg.State), diff)
		}
	}
	f.agree()
}

// agree makes sure that all machines compute the same state from the bytes of their records as they have in their index.
func (f *fleet) agree() {
	f.t.Helper()
	digests := map[string]bool{}
	for _, m := range f.machines() {
		v, err := m.Verify(f.t.Context())
		must(f.t, err)
		digests[v.Digest] = true
		for _, p := range v.Problems {
			if p.Kind == channel.ProblemIndex || p.Kind == channel.ProblemStore {
				f.t.Errorf("%s: %+v", filepath.Base(m.cfg.State), p)
			}
		}
	}
	if len(digests) != 1 {
		f.t.Errorf("the machines have %d states", len(digests))
	}
}

// pen signs whatever it is told to, as somebody does who has a key and a program of their own.
type pen struct {
	t     testing.TB
	f     *fleet
	key   sign.Key
	epoch uint32
	seq   uint64
	prev  ferry.RecordID
	time  time.Time
	saw   []sign.Head
}

// pen continues the chain of a member.
func (f *fleet) pen(name string) *pen {
	f.t.Helper()
	f.home.look()
	p := &pen{t: f.t, f: f, key: key(f.t, name), epoch: 1, time: day}
	roster, err := f.home.Roster(f.t.Context())
	must(f.t, err)
	p.epoch = max(1, roster.Epoch(p.id()))
	_, p.prev, _ = roster.Key(p.id(), p.epoch)
	links, err := f.home.Chain(f.t.Context(), p.id(), p.epoch)
	must(f.t, err)
	for _, l := range links {
		p.seq, p.prev = l.Seq, l.ID
	}
	return p
}

// admit admits a member that has a pen instead of a ferry.
func (f *fleet) admit(name string, grants ...ferry.Grant) *pen {
	f.t.Helper()
	_, err := f.master.Admit(f.t.Context(), day, member(f.t, name, grants...))
	must(f.t, err)
	return f.pen(name)
}

func (p *pen) id() ferry.WriterID { return ferry.WriterID(p.key.Public().WriterID()) }

// paper is a record as it lies in a folder.
type paper struct {
	path string
	data []byte
	id   ferry.RecordID
}

// seal makes the next record without taking its place.
func (p *pen) seal(typ string, body []byte, edit func(*sign.Header)) paper {
	p.t.Helper()
	h := sign.Header{
		Channel: p.f.id, Type: typ, Writer: sign.WriterID(p.id()), Epoch: p.epoch, Seq: p.seq + 1, Prev: p.prev, Time: p.time, Saw: p.saw,
	}
	if edit != nil {
		edit(&h)
	}
	data, err := sign.Seal(p.key, h, body)
	must(p.t, err)
	return toPaper(p.t, data)
}

func toPaper(t testing.TB, data []byte) paper {
	t.Helper()
	u, err := sign.ParseHeader(data)
	must(t, err)
	id := u.ID()
	h := u.Header()
	return paper{fmt.Sprintf("w/%s/t/%04d-%010d-%s.fr", h.Writer, h.Epoch, h.Seq, hex.EncodeToString(id[:16])), data, id}
}

// raw puts the next record of a type with any body into the folder.
func (p *pen) raw(typ string, body []byte, need ...string) paper {
	p.t.Helper()
	r := p.seal(typ, body, func(h *sign.Header) { h.Need = need })
	p.seq, p.prev = p.seq+1, r.id
	p.f.put(r.path, r.data)
	return r
}

// write puts the next record into the folder, whether or not its writer may write it.
func (p *pen) write(b ferry.Body) ferry.RecordID {
	p.t.Helper()
	body, err := sign.EncodeJSON(b)
	must(p.t, err)
	return p.raw(string(b.Type()), body).id
}

// put writes a file into the folder as a carrier does: beside its place, and then moved there.
func (f *fleet) put(name string, data []byte) {
	f.t.Helper()
	name = filepath.Join(f.folder, name)
	must(f.t, os.MkdirAll(filepath.Dir(name), 0o755))
	arriving := filepath.Join(f.dir, "arriving")
	must(f.t, os.WriteFile(arriving, data, 0o644))
	must(f.t, os.Rename(arriving, name))
}

// papers reads every file of the folder, by its name in it.
func (f *fleet) papers() map[string][]byte {
	f.t.Helper()
	out := map[string][]byte{}
	must(f.t, filepath.WalkDir(f.folder, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(f.folder, name)
		if err != nil {
			return err
		}
		out[rel], err = os.ReadFile(name)
		return err
	}))
	return out
}

// records gives the records of the folder.
func (f *fleet) records() []paper {
	f.t.Helper()
	var out []paper
	for name, data := range f.papers() {
		if strings.HasSuffix(name, ".fr") {
			out = append(out, toPaper(f.t, data))
		}
	}
	return out
}

// restore makes the folder what it was.
func (f *fleet) restore(was map[string][]byte) {
	f.t.Helper()
	must(f.t, os.RemoveAll(f.folder))
	must(f.t, os.MkdirAll(f.folder, 0o755))
	for name, data := range was {
		f.put(name, data)
	}
}

// ledger gives every record of the store at home.
func (f *fleet) ledger() map[ferry.RecordID]channel.Entry {
	f.t.Helper()
	ledger, err := f.home.Ledger(f.t.Context(), 0)
	must(f.t, err)
	out := map[ferry.RecordID]channel.Entry{}
	for _, e := range ledger {
		out[e.ID] = e
	}
	return out
}

func isOneOf(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
