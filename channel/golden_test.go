package channel_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

const goldenDir = "testdata/v1"

var goldenAdd = flag.Bool("golden-add", false, "make the golden files that are missing; one that is there is never written")

// golden gives the content of a file as version 1 of the format wrote it. The format is frozen: a file that exists is not
// written again.
func golden(t *testing.T, name string, fresh func() []byte) []byte {
	t.Helper()
	name = filepath.Join(goldenDir, name)
	want, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && *goldenAdd {
		want = fresh()
		must1(t, os.MkdirAll(goldenDir, 0o755))
		must1(t, os.WriteFile(name, want, 0o644))
		return want
	}
	must1(t, err)
	return want
}

// same compares what is written today with a golden file.
func same(t *testing.T, name string, want, again []byte) {
	t.Helper()
	if diff := cmp.Diff(string(want), string(again)); diff != "" {
		t.Errorf("%s is not written as it was (-want +got):\n%s", name, diff)
	}
}

func goldenKey(t *testing.T) sign.Key {
	t.Helper()
	key, err := sign.GenerateKey(bytes.NewReader([]byte("golden golden golden golden gold")))
	must1(t, err)
	return key
}

// goldenOthers are the golden files beside those of the types.
var goldenOthers = []string{"archive", "bare.fr", "beat", "join.fj", "pack.fp", "rejoin.fj", "two-signatures.fr"}

// A record of every type is read as version 1 wrote it, and written again with the same bytes.
func TestGoldenRecords(t *testing.T) {
	key := goldenKey(t)
	for i, typ := range ferry.Types() {
		name := string(typ) + ".fr"
		want := golden(t, name, func() []byte { return goldenRecord(t, key, typ, i) })
		v, err := sign.Open(want, key.Public())
		must1(t, err)
		b, err := channel.DecodeBody(typ, v.Body())
		must1(t, err)
		body, err := channel.EncodeBody(b)
		must1(t, err)
		again, err := sign.Seal(key, v.Header(), body)
		must1(t, err)
		same(t, name, want, again)
	}
	order, err := os.ReadFile(filepath.Join(goldenDir, "order.fr"))
	must1(t, err)
	other := testKey(t, "another signer")
	twice := golden(t, "two-signatures.fr", func() []byte { return cosigned(t, other, order) })
	same(t, "two-signatures.fr", twice, cosigned(t, other, order))
	bare := golden(t, "bare.fr", func() []byte { return bareFile(t, order) })
	same(t, "bare.fr", bare, bareFile(t, order))
	top, err := sign.ParseBare(bare)
	must1(t, err)
	if _, err := top.Open(key.Public()); err != nil || top.ID() != toFile(t, order).id || top.ID() != toFile(t, twice).id {
		t.Errorf("the bare form and the record with two signatures: %v", err)
	}
}

func cosigned(t *testing.T, key sign.Key, file []byte) []byte {
	t.Helper()
	out, err := sign.Cosign(key, file)
	must1(t, err)
	return out
}

// A pack and an archive are read as version 1 wrote them, and written again with the same bytes.
func TestGoldenContainers(t *testing.T) {
	want := golden(t, "pack.fp", func() []byte {
		var records [][]byte
		for _, name := range []string{"claim.fr", "start.fr", "bare.fr"} {
			data, err := os.ReadFile(filepath.Join(goldenDir, name))
			must1(t, err)
			records = append(records, data)
		}
		return channel.PackFile(records)
	})
	records, err := channel.ParsePackFile(want)
	must1(t, err)
	same(t, "pack.fp", want, channel.PackFile(records))

	want = golden(t, "archive", func() []byte {
		s := newSite(t)
		id, result := leak(t, s, "first")
		clean(t, s, id, result)
		s.refresh(t)
		var out bytes.Buffer
		_, err := s.Archive(t.Context(), &out)
		must1(t, err)
		return out.Bytes()
	})
	again, n := []byte(channel.ArchiveLine), 0
	var root ferry.RecordID
	must1(t, channel.ReadArchive(bytes.NewReader(want), func(record []byte) error {
		if n++; n == 1 {
			root = toFile(t, record).id
		}
		again = fmt.Appendf(again, "%d\n%s\n", len(record), record)
		return nil
	}))
	same(t, "archive", want, fmt.Appendf(again, "end %d\n", n))
	v, err := channel.VerifyArchive(context.Background(), bytes.NewReader(want), root, judge)
	if err != nil || !v.OK || v.Records != n {
		t.Errorf("the archive: %d of %d records, %+v, %v", v.Records, n, v.Problems, err)
	}
}

// A beat and requests to join are read as version 1 wrote them, and written again with the same bytes.
func TestGoldenNotes(t *testing.T) {
	key, invite := goldenKey(t), testKey(t, "invite")
	public := key.Public()
	id := ferry.RecordID(sha256.Sum256([]byte("channel")))
	nonce := fmt.Sprintf("%064x", 7)
	written := func(name string, do func(folder string) error, glob ...string) {
		t.Helper()
		folder := t.TempDir()
		must1(t, do(folder))
		found, err := filepath.Glob(filepath.Join(append([]string{folder}, glob...)...))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: written are %v, %v", name, found, err)
		}
		again, err := os.ReadFile(found[0])
		must1(t, err)
		same(t, name, golden(t, name, func() []byte { return again }), again)
	}
	written("join.fj", func(folder string) error {
		return channel.PutJoin(folder, channel.JoinRequest{
			Channel: id, Invite: ferry.RecordID(sha256.Sum256([]byte("invite"))), Nonce: nonce, Name: "wisp", Machine: "box",
			Email: "p@example.com", Platform: "linux/amd64", Version: "v1.0.0",
		}, channel.JoinKeys{Invite: invite, Own: key})
	}, "j", "*", "*.fj")
	written("rejoin.fj", func(folder string) error {
		return channel.PutRejoin(folder, channel.RejoinRequest{
			Channel: id, Member: ferry.WriterID(public.WriterID()), Nonce: nonce, Machine: "box", Version: "v1.0.0",
		}, key)
	}, "j", "*", "*.fj")

	s := newSite(t)
	agent := testKey(t, "agent")
	var beat ferry.Beat
	want := golden(t, "beat", func() []byte {
		fillAll(reflect.ValueOf(&beat).Elem(), public)
		beat.Epoch = 1
		must1(t, s.PutBeat(agent, beat))
		data, err := os.ReadFile(filepath.Join(s.cfg.Folder, "w", string(s.agent.ID()), "beat"))
		must1(t, err)
		return data
	})
	body, err := sign.OpenNote(want, sign.TypeBeat, agent.Public())
	must1(t, err)
	must1(t, json.Unmarshal(body, &beat))
	must1(t, s.PutBeat(agent, beat))
	again, err := os.ReadFile(filepath.Join(s.cfg.Folder, "w", string(s.agent.ID()), "beat"))
	must1(t, err)
	same(t, "beat", want, again)
}

// goldenRecord makes a record of a type in which every field has a value.
func goldenRecord(t *testing.T, key sign.Key, typ ferry.Type, n int) []byte {
	t.Helper()
	b := ferry.New(typ)
	fillAll(reflect.ValueOf(b).Elem(), key.Public())
	if o, is := b.(*ferry.Order); is {
		o.Kind, o.Size, o.Tier, o.Touches = "code-change", "small", "build", []string{"docs/**", "*.go"}
	}
	body, err := channel.EncodeBody(b)
	if err != nil {
		t.Fatalf("%s: %v", typ, err)
	}
	file, err := sign.Seal(key, sign.Header{
		Channel: sha256.Sum256([]byte("channel")), Type: string(typ), Writer: key.Public().WriterID(), Epoch: 1, Seq: uint64(n + 2),
		Prev: sha256.Sum256([]byte("prev")), Time: time.Date(2026, 11, 30, 12, 0, 0, 5e6, time.UTC), Need: []string{"claim.2", "sandbox.1"},
		Saw: []sign.Head{{Writer: key.Public().WriterID(), Epoch: 1, Seq: 7, ID32: fmt.Sprintf("%032x", 7)}},
	}, body)
	if err != nil {
		t.Fatalf("%s: %v", typ, err)
	}
	return file
}

// fillAll sets every field to something that its grammar allows.
func fillAll(v reflect.Value, key sign.PublicKey) {
	if special(v, key) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillAll(v.Field(i), key)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillAll(v.Index(i), key)
		}
	case reflect.String:
		v.SetString("text \u00e4 \" \\ <&>\n")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(2)
	}
}

// special sets what has a grammar of its own.
func special(v reflect.Value, key sign.PublicKey) bool {
	w := ferry.WriterID(key.WriterID())
	set := map[reflect.Type]any{
		reflect.TypeFor[ferry.RecordID]():  ferry.RecordID(sha256.Sum256([]byte("record"))),
		reflect.TypeFor[ferry.WriterID]():  w,
		reflect.TypeFor[ferry.AgentName](): ferry.AgentName("wisp"),
		reflect.TypeFor[ferry.Label]():     ferry.Label("t-first"),
		reflect.TypeFor[ferry.RunID]():     ferry.RunID("aaaabbbbccccdddd"),
		reflect.TypeFor[ferry.Commit]():    ferry.Commit("0123456789abcdef0123456789abcdef01234567"),
		reflect.TypeFor[ferry.Grant]():     ferry.GrantWork,
		reflect.TypeFor[ferry.Decision]():  ferry.DecisionChanges,
		reflect.TypeFor[ferry.Action]():    ferry.ActionSteer,
		reflect.TypeFor[ferry.Head]():      ferry.Head{Writer: w, Epoch: 2, Seq: 3, ID32: fmt.Sprintf("%032x", 9)},
		reflect.TypeFor[ferry.Member](): ferry.Member{
			Writer: w, Key: key.String(), Name: "wisp", Machine: "box", Email: "p@example.com", Grants: []ferry.Grant{ferry.GrantWork, ferry.GrantReview},
		},
	}
	value, ok := set[v.Type()]
	if ok {
		v.Set(reflect.ValueOf(value))
	}
	return ok
}

// Each type of version 1 has a golden file, and no other has.
func TestGoldenFiles(t *testing.T) {
	want := slices.Clone(goldenOthers)
	for _, typ := range ferry.Types() {
		want = append(want, string(typ)+".fr")
	}
	slices.Sort(want)
	found, err := os.ReadDir(goldenDir)
	must1(t, err)
	var got []string
	for _, e := range found {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the golden files (-want +got); `go test ./channel -run TestGolden -golden-add` makes what is missing:\n%s", diff)
	}
}
