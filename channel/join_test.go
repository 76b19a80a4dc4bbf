package channel_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// invite writes an invite of the master, for a week.
func (s *site) invite(t *testing.T, key sign.Key, many bool) ferry.RecordID {
	t.Helper()
	added, err := s.master.Update(t.Context(), start, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Invite{Key: key.Public().String(), Grants: []ferry.Grant{ferry.GrantWork}, NotAfter: start.Add(7 * day).Format(time.RFC3339), Many: many})
		return err
	})
	must1(t, err)
	return added[0]
}

func request(s *site, invite ferry.RecordID, name string) channel.JoinRequest {
	return channel.JoinRequest{
		Channel: s.ID(), Invite: invite, Nonce: strings.Repeat("5a", 32), Name: name, Machine: "box", Email: "a@example.org",
		Platform: "linux/amd64", Version: "1.0.0",
	}
}

func (s *site) joins(t *testing.T, now time.Time) []channel.JoinRequest {
	t.Helper()
	r, err := s.JoinRequests(t.Context(), now)
	must1(t, err)
	return r
}

func TestJoinRequests(t *testing.T) {
	s := newSite(t)
	inviteKey, moth := testKey(t, "invite"), testKey(t, "moth")
	invite := s.invite(t, inviteKey, false)
	if got := s.joins(t, start); len(got) != 0 {
		t.Errorf("before anybody asks: %+v", got)
	}
	want := request(s, invite, "moth")
	must1(t, channel.PutJoin(s.cfg.Folder, want, channel.JoinKeys{Invite: inviteKey, Own: moth}))
	want.Writer, want.Key = ferry.WriterID(moth.Public().WriterID()), moth.Public().String()
	if diff := cmp.Diff([]channel.JoinRequest{want}, s.joins(t, start)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if got := s.joins(t, start.Add(8*day)); len(got) != 0 {
		t.Errorf("after the invite has run out: %+v", got)
	}
	plan, err := s.Plan(t.Context(), channel.FindStatements+"type = 'invite' ORDER BY n")
	if must1(t, err); !strings.Contains(plan, "INDEX records_statement") {
		t.Errorf("invites are looked for by: %s", plan)
	}
	must1(t, channel.DropJoin(s.cfg.Folder, invite, want.Writer))
	must1(t, channel.DropJoin(s.cfg.Folder, invite, want.Writer))
	if got := s.joins(t, start); len(got) != 0 {
		t.Errorf("after it was taken back: %+v", got)
	}
	must1(t, channel.PutJoin(s.cfg.Folder, want, channel.JoinKeys{Invite: inviteKey, Own: moth}))
	// A look at the folder takes nothing of it.
	if r := s.refresh(t); r.New != 0 || len(r.Rejected) != 0 {
		t.Errorf("refresh: %+v", r)
	}
	// Once it is used, nobody else gets in by it.
	_, err = s.master.Update(t.Context(), start, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Admit{Member: testMember(moth, "moth", ferry.GrantWork), Epoch: 1, Invite: invite, Nonce: want.Nonce})
		return err
	})
	must1(t, err)
	must1(t, channel.PutJoin(s.cfg.Folder, request(s, invite, "eve"), channel.JoinKeys{Invite: inviteKey, Own: testKey(t, "eve")}))
	if got := s.joins(t, start); len(got) != 0 {
		t.Errorf("after the invite was used: %+v", got)
	}
}

// What was not signed by both keys, or is about something else, is no request.
func TestOddJoinRequests(t *testing.T) {
	s := newSite(t)
	inviteKey, moth, other := testKey(t, "invite"), testKey(t, "moth"), testKey(t, "other")
	invite := s.invite(t, inviteKey, true)
	good := request(s, invite, "moth")
	good.Writer, good.Key = ferry.WriterID(moth.Public().WriterID()), moth.Public().String()
	file := func(r channel.JoinRequest, keys ...sign.Key) []byte {
		body, err := sign.EncodeJSON(r)
		must1(t, err)
		data, err := sign.SealNote(keys[0], sign.TypeJoin, body)
		must1(t, err)
		for _, k := range keys[1:] {
			data, err = sign.CosignNote(k, data)
			must1(t, err)
		}
		return data
	}
	with := func(change func(r *channel.JoinRequest)) channel.JoinRequest {
		r := good
		change(&r)
		return r
	}
	dir := filepath.Join(s.cfg.Folder, "j", invite.String()[:16])
	must1(t, os.MkdirAll(dir, 0o755))
	name := filepath.Join(dir, string(good.Writer)+".fj")
	for what, data := range map[string][]byte{
		"without the invite's key": file(good, moth),
		"without the own key":      file(good, inviteKey),
		"by another key":           file(good, inviteKey, other),
		"for another channel":      file(with(func(r *channel.JoinRequest) { r.Channel = invite }), moth, inviteKey),
		"for another invite":       file(with(func(r *channel.JoinRequest) { r.Invite = s.ID() }), moth, inviteKey),
		"of another writer":        file(with(func(r *channel.JoinRequest) { r.Writer = s.agent.ID() }), moth, inviteKey),
		"with another's key":       file(with(func(r *channel.JoinRequest) { r.Key = other.Public().String() }), other, inviteKey),
		"with a short nonce":       file(with(func(r *channel.JoinRequest) { r.Nonce = "5a" }), moth, inviteKey),
		"with an odd name":         file(with(func(r *channel.JoinRequest) { r.Name = "a\x1b]0;x" }), moth, inviteKey),
		"too large":                file(with(func(r *channel.JoinRequest) { r.Version = strings.Repeat("x", 4<<10) }), moth, inviteKey),
		"garbage":                  []byte("hello"),
		"empty":                    nil,
	} {
		must1(t, os.WriteFile(name, data, 0o644))
		if got := s.joins(t, start); len(got) != 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
	must1(t, os.WriteFile(name, file(good, moth, inviteKey), 0o644))
	must1(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644))
	must1(t, os.Symlink("/etc", filepath.Join(s.cfg.Folder, "j", strings.Repeat("0", 16))))
	if got := s.joins(t, start); len(got) != 1 {
		t.Errorf("requests: %+v", got)
	}
	// A crowd of requests is cut.
	for i := range 20 {
		k := testKey(t, "crowd"+string(rune('a'+i)))
		must1(t, channel.PutJoin(s.cfg.Folder, request(s, invite, "x"), channel.JoinKeys{Invite: inviteKey, Own: k}))
	}
	if got := s.joins(t, start); len(got) > 16 || len(got) < 15 {
		t.Errorf("%d requests of a crowd", len(got))
	}
	for what, r := range map[string]channel.JoinRequest{
		"no invite": with(func(r *channel.JoinRequest) { r.Invite = ferry.RecordID{} }),
		"no nonce":  with(func(r *channel.JoinRequest) { r.Nonce = "" }),
		"no name":   with(func(r *channel.JoinRequest) { r.Name = "" }),
		"too large": with(func(r *channel.JoinRequest) { r.Version = strings.Repeat("x", 4<<10) }),
	} {
		if err := channel.PutJoin(s.cfg.Folder, r, channel.JoinKeys{Invite: inviteKey, Own: moth}); err == nil {
			t.Errorf("%s: it is written", what)
		}
	}
}
