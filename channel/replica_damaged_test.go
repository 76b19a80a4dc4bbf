package channel_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/sign"
)

// The id of a record covers neither its body nor its signatures. So a copy with damage there that comes first, before the
// key of its writer is known, must not keep the genuine record out.
func TestReplicaDamagedCopyFirst(t *testing.T) {
	key := func(name string) sign.Key {
		k, err := sign.GenerateKey(bytes.NewReader(fmt.Appendf(nil, "%-32s", name)))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	member := func(k sign.Key, name ferry.AgentName, grants ...ferry.Grant) ferry.Member {
		return ferry.Member{Writer: ferry.WriterID(k.Public().WriterID()), Key: k.Public().String(), Name: name, Machine: "here", Grants: grants}
	}
	master, other := key("master"), key("other")
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	body, err := sign.EncodeJSON(&ferry.Root{Version: 1, Project: "demo", Master: member(master, "ada"), Threshold: 1, Recovery: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	root, err := sign.Seal(master, sign.Header{Type: "root", Writer: master.Public().WriterID(), Epoch: 1, Seq: 1, Time: now}, body)
	if err != nil {
		t.Fatal(err)
	}
	u, err := sign.ParseHeader(root)
	if err != nil {
		t.Fatal(err)
	}
	replica := func() *channel.Replica {
		return channel.NewReplica(channel.ReplicaSpec{ID: u.ID(), Judge: evidence.Classify})
	}
	first := replica()
	seal := func(k sign.Key, b ferry.Body) []byte {
		file, _, err := first.Seal(k, now, b)
		if err != nil {
			t.Fatal(err)
		}
		if v := first.Add(file); v.Kind != channel.Accepted {
			t.Fatalf("%s: %v", b.Type(), v)
		}
		return file
	}
	first.Add(root)
	admit := seal(master, &ferry.Admit{Member: member(other, "other", ferry.GrantWork), Epoch: 1})
	genuine := seal(other, &ferry.Note{Kind: "remark", Text: "here"})
	for _, at := range []int{len(genuine) - 3, bytes.Index(genuine, []byte("\nsig ")) + 30} {
		damaged := bytes.Clone(genuine)
		damaged[at] ^= 1
		r := replica()
		for _, file := range [][]byte{root, damaged, genuine, admit} {
			r.Add(file)
		}
		if v := r.Add(genuine); v.Kind != channel.Known {
			t.Errorf("damage at %d: the genuine record is not here: %v %s", at, v.Kind, v.Reason)
		}
	}
}
