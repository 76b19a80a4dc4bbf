package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/sign"
)

// world is everything of one run. Nothing in it is used by two goroutines.
type world struct {
	sc       Scenario
	seed     uint64
	rng      *rand.Rand
	time     timeline
	machines []*machine
	cloned   []bool // by machine: a second one has had its key
	carrier  *carrier
	remote   *remote
	channel  ferry.RecordID
	opened   map[opening]opened
	judged   map[judged]ferry.Evidence
	records  map[ferry.RecordID]*written
	ids      map[*byte]ferry.RecordID // of the bytes of a record
	orders   []*ordered
	byID     map[ferry.RecordID]*ordered
	slow     [][]time.Duration // what a pair of machines needs beyond the others
	stranger stranger
	closing  bool // nobody acts; what is known only spreads
	check    checker
	stats    Stats
	sum      hash.Hash64
	lines    io.Writer // of the trace, or nil
}

// ordered is what the world knows of an order.
type ordered struct {
	n        int
	due      instant
	order    ferry.Order
	id       ferry.RecordID
	issued   instant
	started  bool
	sendBack bool // its first result is sent back
	cancel   instant
	running  []*engine
	overlap  instant // since when two engines run
	results  int
}

// written is a record that some machine sealed.
type written struct {
	by    *machine
	size  int // of its file
	head  sign.Header
	body  ferry.Body
	order *ordered // that it is about
	nth   int      // of the deputy's verdicts, in its chain
}

type opening struct {
	data *byte
	size int
	key  sign.PublicKey
}

type opened struct {
	v   sign.Verified
	err error
}

// open is sign.Open for bytes that never change: the same file is verified once for all machines.
func (w *world) open(file []byte, key sign.PublicKey) (sign.Verified, error) {
	if len(file) == 0 {
		return sign.Open(file, key)
	}
	at := opening{&file[0], len(file), key}
	o, ok := w.opened[at]
	if !ok {
		o.v, o.err = sign.Open(file, key)
		w.opened[at] = o
	}
	return o.v, o.err
}

func (w *world) newReplica() *channel.Replica {
	return channel.NewReplica(channel.ReplicaSpec{ID: w.channel, Judge: w.judge, Open: w.open})
}

// judged names a result, and the order that it was judged for.
type judged struct {
	order ferry.Label
	start ferry.RecordID
	made  ferry.Commit
}

// judge is evidence.Classify, asked once for all machines.
func (w *world) judge(o *ferry.Order, r *ferry.Result) ferry.Evidence {
	key := judged{o.Label, r.Start, r.Commit}
	e, ok := w.judged[key]
	if !ok {
		e = evidence.Classify(o, r)
		w.judged[key] = e
	}
	return e
}

// trace notes an event. Two worlds are the same when their traces are; ids of records are not in them, because those hold
// the date of their writer.
func (w *world) trace(m *machine, what string, n uint64) {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], uint64(w.time.now))
	binary.LittleEndian.PutUint64(b[8:], uint64(m.i))
	binary.LittleEndian.PutUint64(b[16:], n)
	w.sum.Write(b[:])
	io.WriteString(w.sum, what)
	if w.lines != nil {
		fmt.Fprintf(w.lines, "%12.3f %-10s %s %d\n", w.time.now.Seconds(), m.name, what, n)
	}
}

// note writes a line to the trace that is only for reading.
func (w *world) note(m *machine, format string, args ...any) {
	if w.lines != nil {
		fmt.Fprintf(w.lines, "%12.3f %-10s   %s\n", w.time.now.Seconds(), m.name, fmt.Sprintf(format, args...))
	}
}

// newWorld makes the machines, founds the channel and plans what will happen.
func newWorld(seed uint64, sc Scenario, lines io.Writer) *world {
	w := &world{
		sc: sc, seed: seed, rng: rand.New(rand.NewPCG(seed, 's')), lines: lines, sum: fnv.New64a(),
		opened: map[opening]opened{}, judged: map[judged]ferry.Evidence{}, records: map[ferry.RecordID]*written{}, ids: map[*byte]ferry.RecordID{}, byID: map[ferry.RecordID]*ordered{},
	}
	w.check.init(w)
	w.remote = newRemote(w)
	w.addMachines()
	w.carrier = newCarrier(w, len(w.machines))
	w.found()
	w.drawLinks()
	w.drawOrders()
	w.planFaults()
	for _, m := range w.machines {
		if m.copyOf == nil {
			m.start()
		}
	}
	return w
}

func (w *world) addMachines() {
	w.add("operator")
	if w.sc.Reviewers+w.sc.Both < 2 {
		w.machines[0].grants = []ferry.Grant{ferry.GrantReview, ferry.GrantLand} // as the master it needs none
	}
	for i := range w.sc.Workers {
		w.add(fmt.Sprintf("worker%d", i+1), ferry.GrantWork)
	}
	for i := range w.sc.Both {
		w.add(fmt.Sprintf("both%d", i+1), ferry.GrantWork, ferry.GrantReview, ferry.GrantLand)
		if w.sc.Faults&faultOverdue != 0 {
			m := w.machines[len(w.machines)-1]
			m.grants = append(m.grants, ferry.GrantDispatch)
		}
	}
	for i := range w.sc.Reviewers {
		w.add(fmt.Sprintf("critic%d", i+1), ferry.GrantReview, ferry.GrantLand)
	}
	if w.sc.Faults&faultAuthority != 0 {
		w.add("deputy")
		w.machines[len(w.machines)-1].deputy = true
	}
	if w.sc.Faults&faultByzantine != 0 && w.sc.Workers > 1 {
		w.machines[1+w.rng.IntN(w.sc.Workers)].rogue = drawRogue(w)
	}
	if w.sc.Faults&faultClone != 0 && w.sc.Workers > 1 {
		w.addClone()
	}
	walls := rand.New(rand.NewPCG(w.seed+w.sc.WallSeed, 't'))
	for _, m := range w.machines[1:] { // the date in an order is part of its id, and that of the ranks of its claims
		if w.sc.Faults&faultWall != 0 || w.sc.WallSeed != 0 {
			m.wallOff = time.Duration(walls.Int64N(int64(20*365*24*time.Hour))) - 10*365*24*time.Hour
		}
	}
	for _, m := range w.machines {
		if w.sc.Faults&faultDrift != 0 {
			m.drift = w.rng.Int64N(401) - 200
		}
	}
}

func (w *world) add(name string, grants ...ferry.Grant) *machine {
	m := &machine{w: w, i: len(w.machines), name: ferry.AgentName(name), grants: grants}
	m.newKey(1)
	m.id = ferry.WriterID(m.key.Public().WriterID())
	w.machines = append(w.machines, m)
	w.cloned = append(w.cloned, false)
	return m
}

// newKey makes the machine's key of an epoch, the same in every world.
func (m *machine) newKey(epoch int) {
	key, err := sign.GenerateKey(bytes.NewReader(fmt.Appendf(nil, "%-32s", fmt.Sprintf("%s %d", m.name, epoch))))
	if err != nil {
		panic(err) // 32 bytes are enough
	}
	m.key, m.keyEpoch = key, max(epoch, 1)
}

// addClone adds a machine that will begin with the disk and the key of another.
func (w *world) addClone() {
	of := w.machines[1+w.rng.IntN(w.sc.Workers)]
	if of.rogue != nil {
		return
	}
	m := w.add("clone", ferry.GrantWork)
	m.key, m.id, m.name, m.copyOf = of.key, of.id, of.name, of
}

// found writes the root of the channel and the admissions, and gives them to every machine: joining is not part of this.
func (w *world) found() {
	chief := w.machines[0]
	root := &ferry.Root{Version: 1, Project: "demo", Master: w.member(chief), Threshold: 1, Recovery: []string{}}
	body, err := sign.EncodeJSON(root)
	if err != nil {
		panic(err)
	}
	file, err := sign.Seal(chief.key, sign.Header{
		Type: string(ferry.TypeRoot), Writer: sign.WriterID(chief.id), Epoch: 1, Seq: 1, Time: dayZero(),
	}, body)
	if err != nil {
		panic(err)
	}
	v, err := w.open(file, chief.key.Public())
	if err != nil {
		panic(err)
	}
	w.channel = v.ID()
	w.sealed(chief, file, root)
	chief.rep = w.newReplica()
	chief.rep.Add(file)
	prologue := [][]byte{file}
	for _, m := range w.machines[1:] {
		if m.copyOf != nil {
			continue
		}
		admit := &ferry.Admit{Member: w.member(m), Epoch: 1}
		file, _, err := chief.rep.Seal(chief.key, dayZero(), admit)
		if err != nil {
			panic(err)
		}
		chief.rep.Add(file)
		w.sealed(chief, file, admit)
		prologue = append(prologue, file)
	}
	for _, m := range w.machines {
		m.disk.store = slices.Clone(prologue)
		m.sync()
	}
	for _, file := range prologue {
		f := w.carrier.create(path{owner: 0, first: file})
		w.carrier.versions = append(w.carrier.versions, version{data: file})
		for i := range w.carrier.nodes {
			w.carrier.nodes[i].have[f] = int32(len(w.carrier.versions) - 1)
		}
		chief.disk.own = append(chief.disk.own, ownFile{f, file})
	}
}

func (w *world) member(m *machine) ferry.Member {
	return ferry.Member{Writer: m.id, Key: m.key.Public().String(), Name: m.name, Machine: string(m.name), Grants: m.grants}
}

// drawLinks makes some pairs of machines slow, and with the fault cuts pairs for ever, but never those with the operator.
func (w *world) drawLinks() {
	n := len(w.machines)
	w.slow = make([][]time.Duration, n)
	for a := range n {
		w.slow[a] = make([]time.Duration, n)
	}
	for a := range n {
		for b := range n {
			if w.sc.Faults&faultTail != 0 && w.rng.IntN(4) == 0 {
				w.slow[a][b] = time.Duration(w.rng.Int64N(int64(4 * time.Second)))
			}
			if w.sc.Faults&faultRelay != 0 && 0 < a && a < b && w.rng.IntN(3) == 0 {
				w.carrier.cut[a][b], w.carrier.cut[b][a] = true, true
			}
		}
	}
}

// orderTime is what an order gives a run, where it names a time; checkTime what each check of it gets.
const (
	orderTime = 5 * time.Minute
	checkTime = 30 * time.Second
)

func (w *world) drawOrders() {
	for n := range w.sc.Orders {
		o := &ordered{n: n + 1, due: 5*time.Second + time.Duration(w.rng.Int64N(int64(w.sc.issue)))}
		label := fmt.Sprintf("order-%d", o.n)
		o.order = ferry.Order{
			Label: ferry.Label(label), Project: "demo", Text: "do " + label, Kind: "code-change", Checks: []string{"go test ./..."},
			NeedsReview: true, Land: true, Target: "main", Base: commitOf("base"), MaxAttempts: 3,
		}
		o.sendBack = w.sc.Faults&faultSendBack != 0 && w.rng.Float64() < w.sc.sendBack
		if w.sc.Faults&faultOverdue != 0 && o.n%2 == 1 {
			o.order.TimeoutSecs = int64(orderTime / time.Second)
		}
		if w.sc.Faults&faultCancel != 0 && w.rng.IntN(6) == 0 {
			o.cancel = o.due + time.Duration(w.rng.Int64N(int64(10*time.Minute)))
		}
		w.orders = append(w.orders, o)
	}
	slices.SortStableFunc(w.orders, func(a, b *ordered) int { return int(a.due - b.due) })
	chief := w.machines[0]
	for _, o := range w.orders {
		w.time.at(o.due, chief.soon)
		if o.cancel > 0 {
			w.time.at(o.cancel, chief.soon)
		}
	}
}

// sealed notes a record that a machine has signed.
func (w *world) sealed(m *machine, file []byte, b ferry.Body) {
	v, err := w.open(file, m.key.Public())
	if err != nil {
		w.check.fail(m, "bug", "its own record does not open: %v", err)
		return
	}
	r := &written{by: m, size: len(file), head: v.Header(), body: b, order: w.byID[b.Subject()]}
	w.records[v.ID()] = r
	w.ids[&file[0]] = v.ID()
	w.check.sealed(r)
}

// recordOf gives what the world knows of a record by its bytes, or nil.
func (w *world) recordOf(file []byte) *written {
	if id, ok := w.ids[&file[0]]; ok {
		return w.records[id]
	}
	return nil
}
