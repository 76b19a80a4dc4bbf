package channel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"slices"

	"github.com/ferry-fleet/ferry"
)

// digest names a set of tasks: two machines that hold the same records print the same one.
type digest struct{ hash.Hash }

func newDigest() digest {
	h := sha256.New()
	h.Write([]byte("ferry-states-v1\x00"))
	return digest{h}
}

// add takes tasks in the order of their ids.
func (d digest) add(id ferry.RecordID, task []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(task)))
	d.Write(id[:])
	d.Write(n[:])
	d.Write(task)
}

func (d digest) String() string { return hex.EncodeToString(d.Sum(nil)) }

func digestOf(tasks map[ferry.RecordID]*ferry.Task) (string, error) {
	ids := make([]ferry.RecordID, 0, len(tasks))
	for id := range tasks {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(x, y ferry.RecordID) int { return bytes.Compare(x[:], y[:]) })
	d := newDigest()
	for _, id := range ids {
		b, err := json.Marshal(tasks[id])
		if err != nil {
			return "", err
		}
		d.add(id, b)
	}
	return d.String(), nil
}
