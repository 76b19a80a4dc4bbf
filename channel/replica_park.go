package channel

import (
	"crypto/sha256"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

// Bounds of what a replica keeps of records that it cannot take in yet.
const (
	maxParked      = 4096
	maxParkedBytes = 32 << 20
	maxRefused     = 256 // with a signature that does not hold: another key may come
)

// waiting is a record that is not taken in yet.
type waiting struct {
	id      ferry.RecordID
	ch      chain
	file    []byte
	prev    ferry.RecordID // waits for this record
	keyless bool           // waits for a key
	key     sign.PublicKey // did not go with this key,
	first   ferry.RecordID // nor behind this record
}

// content is the hash of a whole file. The id of a record will not do where no signature was checked: it covers neither the
// signatures nor the body, so that a damaged copy that comes first would keep the genuine file out.
type content [sha256.Size]byte

func contentOf(file []byte) content { return sha256.Sum256(file) }

// parking holds what waits.
type parking struct {
	after   map[ferry.RecordID][]waiting
	without map[content]waiting
	refused map[content]waiting
	files   map[content]bool
	bytes   int
}

func (p *parking) clear() {
	*p = parking{
		after: map[ferry.RecordID][]waiting{}, without: map[content]waiting{},
		refused: map[content]waiting{}, files: map[content]bool{},
	}
}

func (p *parking) has(file []byte) bool { return len(p.files) > 0 && p.files[contentOf(file)] }

func (p *parking) add(w waiting) bool {
	if len(p.files) >= maxParked || p.bytes+len(w.file) > maxParkedBytes {
		return false
	}
	sum := contentOf(w.file)
	p.files[sum] = true
	p.bytes += len(w.file)
	if w.keyless {
		p.without[sum] = w
	} else {
		p.after[w.prev] = append(p.after[w.prev], w)
	}
	return true
}

// refuse remembers a record whose signature does not hold. It holds nothing up, and may be forgotten.
func (p *parking) refuse(w waiting) {
	sum := contentOf(w.file)
	if _, have := p.refused[sum]; have || len(p.refused) < maxRefused {
		p.refused[sum] = w
	}
}

// behind takes out what has waited for a record.
func (p *parking) behind(id ferry.RecordID) [][]byte {
	var out [][]byte
	for _, w := range p.after[id] {
		out = append(out, p.remove(w))
	}
	delete(p.after, id)
	return out
}

func (p *parking) remove(w waiting) []byte {
	if sum := contentOf(w.file); p.files[sum] {
		delete(p.files, sum)
		p.bytes -= len(w.file)
	}
	return w.file
}

// keyless gives how many records wait for a key.
func (p *parking) keyless() int { return len(p.without) + len(p.refused) }

// keyed takes out what may be taken in under a roster.
func (p *parking) keyed(r *authority.Roster) [][]byte {
	var out [][]byte
	for sum, w := range p.without {
		_, _, ok := r.Key(w.ch.writer, w.ch.epoch)
		if !ok && len(sign.Signers(w.file, r.RecoveryKeys())) == 0 {
			continue
		}
		out = append(out, p.remove(w))
		delete(p.without, sum)
	}
	for sum, w := range p.refused {
		key, first, ok := r.Key(w.ch.writer, w.ch.epoch)
		if ok && (key != w.key || first != w.first) {
			out = append(out, w.file)
			delete(p.refused, sum)
		}
	}
	return out
}
