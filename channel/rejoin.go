package channel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// RejoinRequest is what a machine says that wants to go on as a member with another key. Nobody has vouched for it: that it
// holds the private half of the key is all that is certain.
type RejoinRequest struct {
	Channel ferry.RecordID `json:"channel"`
	Member  ferry.WriterID `json:"member"`
	Key     string         `json:"key"`   // hex of the ed25519 public key that is to come
	Nonce   string         `json:"nonce"` // 64 hex digits; the readmission repeats it
	Machine string         `json:"machine"`
	Version string         `json:"version"`
}

const typeRejoin = "application/vnd.ferry.rejoin.v1"

// path gives the place of the request: beside the requests to join, in a directory that is no invite's but the channel's.
func (r *RejoinRequest) path() (string, error) {
	key, err := sign.ParsePublicKey(r.Key)
	if err != nil {
		return "", err
	}
	return fileName{kind: nameJoin, of: ferry.WriterID(key.WriterID()), invite: r.Channel.String()[:16]}.path(), nil
}

func (r *RejoinRequest) check() error {
	as := JoinRequest{Channel: r.Channel, Invite: r.Channel, Key: r.Key, Nonce: r.Nonce, Name: "x"}
	if key, err := sign.ParsePublicKey(r.Key); err == nil {
		as.Writer = ferry.WriterID(key.WriterID())
	}
	if err := as.check(); err != nil {
		return err
	}
	_, err := ferry.ParseWriterID(string(r.Member))
	return err
}

// PutRejoin writes a request to go on with another key into a folder. It fills in the key of the request.
func PutRejoin(folder string, r RejoinRequest, key sign.Key) error {
	r.Key = key.Public().String()
	if err := r.check(); err != nil {
		return fmt.Errorf("ask for a key: %w", err)
	}
	body, err := sign.EncodeJSON(r)
	if err != nil {
		return fmt.Errorf("ask for a key: %w", err)
	}
	file, err := sign.SealNote(key, typeRejoin, body)
	if err != nil {
		return fmt.Errorf("ask for a key: %w", err)
	}
	if len(file) > maxJoinBytes {
		return fmt.Errorf("ask for a key: the request has %d bytes, the limit is %d; shorten its texts", len(file), maxJoinBytes)
	}
	at, err := r.path()
	if err != nil {
		return fmt.Errorf("ask for a key: %w", err)
	}
	root, err := atomicfile.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("ask for a key: %w", err)
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(at), folderMode); err != nil {
		return fmt.Errorf("ask for a key: %w", err)
	}
	if err := root.Write(at, file, fileMode); err != nil {
		return fmt.Errorf("ask for a key: %w", err)
	}
	return nil
}

// DropRejoin takes a request away that has its answer. One that is gone already is none.
func DropRejoin(folder string, r RejoinRequest) error {
	at, err := r.path()
	if err != nil {
		return err
	}
	root, err := atomicfile.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RejoinRequests gives the requests of members, or of those that were shut out, for another key. Each was signed by the key
// that it brings. Those whose key somebody has or had are left out: they have their answer.
func (c *Channel) RejoinRequests(ctx context.Context) ([]RejoinRequest, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	root, err := atomicfile.OpenRoot(c.cfg.Folder)
	if err != nil {
		return nil, fmt.Errorf("look for requests for a key: %w", err)
	}
	defer root.Close()
	dir := joinPath(c.id)
	names, _, err := root.ReadDir(dir, maxJoinNames)
	if err != nil {
		return nil, nil // nobody has asked
	}
	had := c.keysHad()
	var out []RejoinRequest
	for _, e := range names {
		n, ok := parsePath(path.Join(dir, e.Name()))
		if !ok {
			continue
		}
		if r, ok := c.readRejoin(root, n); ok && !had[r.Key] {
			out = append(out, r)
		}
	}
	return out, nil
}

// keysHad gives every key that a writer of the channel has or had.
func (c *Channel) keysHad() map[string]bool {
	roster, had := c.authority(), map[string]bool{}
	for _, w := range roster.Known() {
		for epoch := uint32(1); ; epoch++ {
			key, _, ok := roster.Key(w, epoch)
			if !ok {
				break
			}
			had[key.String()] = true
		}
	}
	return had
}

func (c *Channel) readRejoin(root *atomicfile.Root, n fileName) (r RejoinRequest, ok bool) {
	data, _, err := root.ReadFile(n.path(), maxJoinBytes)
	if err != nil {
		return r, false
	}
	note, err := sign.ParseNote(data)
	if err != nil || note.PayloadType() != typeRejoin {
		return r, false
	}
	if _, err := sign.DecodeJSON(note.Body(), &r, sign.Ignore); err != nil || r.check() != nil || r.Channel != c.id {
		return r, false
	}
	key, err := sign.ParsePublicKey(r.Key)
	if err != nil || note.Verify(key) != nil || ferry.WriterID(key.WriterID()) != n.of {
		return r, false
	}
	_, known := c.authority().Member(r.Member)
	return r, known
}
