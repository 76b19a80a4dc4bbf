package channel

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ferry-fleet/ferry/sign"
)

// aheadChunk is how many records a core takes at a time: some milliseconds of work.
const aheadChunk = 64

// ahead checks the signatures of many records on all cores, while the first of them are taken in already.
type ahead struct {
	records []form
	key     func(sign.Header) (sign.PublicKey, bool)
	opened  []opened
	ready   []chan struct{} // one for each chunk
	next    atomic.Int64    // the first chunk that no core has begun
	stop    atomic.Bool
	running sync.WaitGroup
}

// opened is what came of opening a record under a key.
type opened struct {
	key sign.PublicKey
	v   form
	err error
}

// openAhead begins to open records in their order, each under the key that key gives. The caller has to call close.
func openAhead(records []form, key func(sign.Header) (sign.PublicKey, bool)) *ahead {
	a := &ahead{
		records: records, key: key, opened: make([]opened, len(records)),
		ready: make([]chan struct{}, (len(records)+aheadChunk-1)/aheadChunk),
	}
	for i := range a.ready {
		a.ready[i] = make(chan struct{})
	}
	for range min(len(a.ready), runtime.GOMAXPROCS(0)) {
		a.running.Go(a.work)
	}
	return a
}

func (a *ahead) work() {
	for !a.stop.Load() {
		chunk := int(a.next.Add(1)) - 1
		if chunk >= len(a.ready) {
			return
		}
		for i := chunk * aheadChunk; i < min((chunk+1)*aheadChunk, len(a.records)); i++ {
			o, known := &a.opened[i], false
			if o.key, known = a.key(a.records[i].Header()); known {
				o.v, o.err = openForm(a.records[i], o.key)
			}
		}
		close(a.ready[chunk])
	}
}

// open gives what opening record i under a key gives. A key that came to be known since is used here and now.
func (a *ahead) open(i int, key sign.PublicKey) (form, error) {
	<-a.ready[i/aheadChunk]
	if o := a.opened[i]; o.key == key {
		return o.v, o.err
	}
	return openForm(a.records[i], key)
}

// close ends what is under way.
func (a *ahead) close() {
	a.stop.Store(true)
	a.running.Wait()
}
