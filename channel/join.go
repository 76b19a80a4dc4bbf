package channel

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// Bounds of the join slot.
const (
	maxJoinBytes = 4 << 10
	maxJoins     = 16 // requests that are read for one invite
	maxJoinNames = 256
)

// JoinRequest is what a machine that wants to join says of itself. Nobody has vouched for it: that it holds the private half
// of the invite and of its own key is all that is certain.
type JoinRequest struct {
	Channel  ferry.RecordID `json:"channel"`
	Invite   ferry.RecordID `json:"invite"`
	Writer   ferry.WriterID `json:"writer"`
	Key      string         `json:"key"`   // hex of the ed25519 public key
	Nonce    string         `json:"nonce"` // 64 hex digits; the admission repeats it
	Name     string         `json:"name"`
	Machine  string         `json:"machine"`
	Email    string         `json:"email"`
	Platform string         `json:"platform"`
	Version  string         `json:"version"`
}

// JoinKeys are the keys that sign a request: that of the invite, and the one that the new machine made.
type JoinKeys struct {
	Invite sign.Key
	Own    sign.Key
}

// PutJoin writes a request to join into a folder. It fills in the writer and the key of the request.
func PutJoin(folder string, r JoinRequest, keys JoinKeys) error {
	public := keys.Own.Public()
	r.Writer, r.Key = ferry.WriterID(public.WriterID()), public.String()
	if err := r.check(); err != nil {
		return fmt.Errorf("ask to join: %w", err)
	}
	body, err := sign.EncodeJSON(r)
	if err != nil {
		return fmt.Errorf("ask to join: %w", err)
	}
	file, err := sign.SealNote(keys.Own, sign.TypeJoin, body)
	if err == nil {
		file, err = sign.CosignNote(keys.Invite, file)
	}
	if err != nil {
		return fmt.Errorf("ask to join: %w", err)
	}
	if len(file) > maxJoinBytes {
		return fmt.Errorf("ask to join: the request has %d bytes, the limit is %d; shorten its texts", len(file), maxJoinBytes)
	}
	root, err := atomicfile.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("ask to join: %w", err)
	}
	defer root.Close()
	if err := root.MkdirAll(joinPath(r.Invite), folderMode); err != nil {
		return fmt.Errorf("ask to join: %w", err)
	}
	if err := root.Write(path.Join(joinPath(r.Invite), string(r.Writer)+".fj"), file, fileMode); err != nil {
		return fmt.Errorf("ask to join: %w", err)
	}
	return nil
}

// DropJoin takes a request away that has its answer. One that is gone already is none.
func DropJoin(folder string, invite ferry.RecordID, w ferry.WriterID) error {
	root, err := atomicfile.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("take back what was asked: %w", err)
	}
	defer root.Close()
	err = root.Remove(path.Join(joinPath(invite), string(w)+".fj"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take back what was asked: %w", err)
	}
	return nil
}

// check refuses what no admission could repeat.
func (r *JoinRequest) check() error {
	key, err := sign.ParsePublicKey(r.Key)
	if err != nil {
		return err
	}
	nonce, err := hex.DecodeString(r.Nonce)
	switch {
	case ferry.WriterID(key.WriterID()) != r.Writer:
		return errors.New("the writer is not that of the key")
	case err != nil || len(nonce) != 32 || strings.ToLower(r.Nonce) != r.Nonce:
		return errors.New("the nonce is not 64 lowercase hex digits")
	case r.Channel.IsZero() || r.Invite.IsZero():
		return errors.New("it names no channel or no invite")
	}
	_, err = ferry.ParseAgentName(r.Name)
	return err
}

// JoinRequests gives the requests for the invites that are live at a time: written by somebody who may, not run out, not
// used up. Each was signed by the key of its invite and by the key that it brings. Requests of writers who are members
// already are left out.
func (c *Channel) JoinRequests(ctx context.Context, now time.Time) ([]JoinRequest, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	invites, err := c.liveInvites(ctx, now)
	if err != nil || len(invites) == 0 {
		return nil, err
	}
	root, err := atomicfile.OpenRoot(c.cfg.Folder)
	if err != nil {
		return nil, fmt.Errorf("look for requests to join: %w", err)
	}
	defer root.Close()
	var out []JoinRequest
	for _, i := range invites {
		names, _, err := root.ReadDir(joinPath(i.id), maxJoinNames)
		if err != nil {
			continue // nobody has asked, or something else stands there: neither holds up the other invites
		}
		read := 0
		for _, e := range names {
			n, ok := parsePath(path.Join(joinPath(i.id), e.Name()))
			if !ok || c.isMember(n.of) || read == maxJoins {
				continue
			}
			read++
			if r, ok := c.readJoin(root, n, i); ok {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

func (c *Channel) isMember(w ferry.WriterID) bool {
	_, ok := c.authority().Member(w)
	return ok
}

// readJoin reads one request; ok is false for anything else.
func (c *Channel) readJoin(root *atomicfile.Root, n fileName, i liveInvite) (r JoinRequest, ok bool) {
	data, _, err := root.ReadFile(n.path(), maxJoinBytes)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.log.Debug("a request to join is not read", "name", n.path(), "err", err)
		}
		return r, false
	}
	note, err := sign.ParseNote(data)
	if err != nil || note.PayloadType() != sign.TypeJoin || note.Verify(i.key) != nil {
		return r, false
	}
	if _, err := sign.DecodeJSON(note.Body(), &r, sign.Ignore); err != nil || r.check() != nil {
		return r, false
	}
	key, err := sign.ParsePublicKey(r.Key)
	if err != nil || note.Verify(key) != nil {
		return r, false
	}
	return r, r.Channel == c.id && r.Invite == i.id && r.Writer == n.of
}

// liveInvite is an invite that somebody can still answer to.
type liveInvite struct {
	id   ferry.RecordID
	key  sign.PublicKey
	many bool // it is not used up by an admission
}

func (c *Channel) liveInvites(ctx context.Context, now time.Time) ([]liveInvite, error) {
	at, err := places(ctx, c.db, findStatements+`type = 'invite' ORDER BY n`)
	if err != nil || len(at) == 0 {
		return nil, err
	}
	entries, err := c.entries(ctx, at)
	if err != nil {
		return nil, err
	}
	var out []liveInvite
	for _, e := range entries {
		b, ok := e.Body.(*ferry.Invite)
		if !ok || !e.Counted {
			continue
		}
		key, err := sign.ParsePublicKey(b.Key)
		until, timeErr := time.Parse(time.RFC3339, b.NotAfter)
		if err == nil && timeErr == nil && !now.After(until) {
			out = append(out, liveInvite{id: e.ID, key: key, many: b.Many})
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	used, err := c.usedInvites(ctx)
	return slices.DeleteFunc(out, func(i liveInvite) bool { return used[i.id] && !i.many }), err
}

// usedInvites gives the invites that an admission which counts has answered.
func (c *Channel) usedInvites(ctx context.Context) (map[ferry.RecordID]bool, error) {
	at, err := places(ctx, c.db, findStatements+`type = 'admit' ORDER BY n`)
	if err != nil {
		return nil, err
	}
	entries, err := c.entries(ctx, at)
	if err != nil {
		return nil, err
	}
	used := map[ferry.RecordID]bool{}
	for _, e := range entries {
		if b, ok := e.Body.(*ferry.Admit); ok && e.Counted && !b.Invite.IsZero() {
			used[b.Invite] = true
		}
	}
	return used, nil
}
