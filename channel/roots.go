package channel

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// rootFile is a root record in the folder, signed by the master that it names.
type rootFile struct {
	id     ferry.RecordID
	master ferry.WriterID
	bytes  []byte
}

// rootsIn finds the first root records of the channels in a folder. One that does not exist has none.
func rootsIn(folder string) ([]rootFile, error) {
	all, err := mastersIn(folder)
	return slices.DeleteFunc(all, func(r rootFile) bool {
		_, err := openRoot(r.bytes)
		return err != nil
	}), err
}

// mastersIn finds the root records in a folder that begin the chain of a master: the first ones, and those of recoveries.
func mastersIn(folder string) ([]rootFile, error) {
	root, err := atomicfile.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for a channel: %w", err)
	}
	defer root.Close()
	writers, _, err := root.ReadDir(writersDir, maxWriters)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for a channel in %s: %w", folder, err)
	}
	var out []rootFile
	for _, w := range writers {
		if _, err := sign.ParseWriterID(w.Name()); err != nil {
			continue
		}
		// A directory that cannot be listed has no root for us; nothing in the folder may stop the look at the others.
		files, _, err := root.ReadDir(recordsPath(ferry.WriterID(w.Name())), maxNames)
		if err != nil {
			continue
		}
		for _, f := range files {
			if epoch, seq, _, err := sign.ParseName(f.Name()); err != nil || epoch != 1 || seq != 1 {
				continue
			}
			data, _, err := root.ReadFile(path.Join(recordsPath(ferry.WriterID(w.Name())), f.Name()), sign.MaxRecord)
			if err != nil {
				continue
			}
			if r, err := openMaster(data); err == nil {
				out = append(out, rootFile{id: r.id, master: ferry.WriterID(w.Name()), bytes: data})
			}
		}
	}
	return out, nil
}

// openRoot checks the first root record of a channel against the key of the master that it names. The id is its only
// authority.
func openRoot(data []byte) (ferry.RecordID, error) {
	r, err := openMaster(data)
	if err == nil && (r.head.Channel != [32]byte{} || r.head.Prev != [32]byte{}) {
		err = errors.New("not the first root record of a channel")
	}
	return r.id, err
}

// openHeir checks a root record of a channel by which its writer becomes the master. Who may say so is another question.
func openHeir(data []byte, channel ferry.RecordID) (ferry.RecordID, error) {
	r, err := openMaster(data)
	if err == nil && ferry.RecordID(r.head.Channel) != channel {
		err = errors.New("a root record of another channel")
	}
	return r.id, err
}

// openMaster checks a root record that begins the chain of the master it names.
func openMaster(data []byte) (parsed, error) {
	r, err := parseStored(data)
	if err != nil {
		return r, err
	}
	rec, why := r.record()
	root, ok := rec.Body.(*ferry.Root)
	if !ok || r.head.Seq != 1 || r.head.Epoch != 1 {
		return r, fmt.Errorf("not a root record that begins a chain: %s", why)
	}
	key, err := sign.ParsePublicKey(root.Master.Key)
	if err != nil {
		return r, err
	}
	if rec.Writer != root.Master.Writer {
		return r, errors.New("a root record that its master did not write")
	}
	_, err = sign.Open(data, key)
	return r, err
}
