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

// folderFile is one record of the folder, or with a kind a name and why it is not read. The path of a record from a pack or
// a relay is the one that it has, or had, in the directory of its writer.
type folderFile struct {
	writer ferry.WriterID
	path   string
	data   []byte
	kind   ProblemKind
	why    string
}

// folderReader hands out every record of a folder.
type folderReader struct {
	root   *atomicfile.Root
	wanted func(ferry.WriterID) bool
	each   func(folderFile)
}

// files reads every record in the directories of the wanted writers, loose, packed and relayed, in the order of the paths.
func files(ctx context.Context, folder string, wanted func(ferry.WriterID) bool, each func(folderFile)) error {
	root, err := atomicfile.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	r := &folderReader{root: root, wanted: wanted, each: each}
	writers, _, err := root.ReadDir(writersDir, maxWriters)
	if err != nil {
		return err
	}
	for _, w := range writers {
		id := ferry.WriterID(w.Name())
		switch {
		case hidden(w.Name()):
		case !isWriter(w.Name()):
			each(folderFile{path: path.Join(writersDir, w.Name()), kind: ProblemFile, why: "not the name of a writer"})
		case !wanted(id):
			each(folderFile{writer: id, path: path.Join(writersDir, w.Name()), kind: ProblemStranger, why: "an unknown writer: no admission names it"})
		default:
			if err := r.writer(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *folderReader) writer(ctx context.Context, w ferry.WriterID) error {
	if err := errors.Join(r.packs(ctx, w, packsPath(w)), r.records(ctx, w, recordsPath(w))); err != nil {
		return err
	}
	for _, e := range r.list(w, relaysPath(w)) {
		of := ferry.WriterID(e.Name())
		if hidden(e.Name()) || !isWriter(e.Name()) || of == w || !r.wanted(of) {
			continue
		}
		if err := errors.Join(r.packs(ctx, of, relayPath(w, of, packsDir)), r.records(ctx, of, relayPath(w, of, recordsDir))); err != nil {
			return err
		}
	}
	return nil
}

// list gives the names of a directory, and reports what is wrong with it.
func (r *folderReader) list(w ferry.WriterID, dir string) []fs.DirEntry {
	names, more, err := r.root.ReadDir(dir, maxNames)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.each(folderFile{writer: w, path: dir, kind: ProblemFile, why: err.Error()})
	}
	if more {
		r.each(folderFile{writer: w, path: dir, kind: ProblemFile, why: fmt.Sprintf("holds more than %d names; some are not read", maxNames)})
	}
	return names
}

func (r *folderReader) records(ctx context.Context, w ferry.WriterID, dir string) error {
	for _, e := range r.list(w, dir) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if hidden(e.Name()) {
			continue
		}
		f := folderFile{writer: w, path: path.Join(dir, e.Name())}
		if f.why = misfit(e.Name()); f.why == "" {
			data, _, err := r.root.ReadFile(f.path, sign.MaxRecord)
			if err != nil {
				f.why = err.Error()
			}
			f.data = data
		}
		if f.why != "" {
			f.kind = ProblemFile
		} else {
			f.path = path.Join(recordsPath(w), e.Name())
		}
		r.each(f)
	}
	return nil
}

func (r *folderReader) packs(ctx context.Context, w ferry.WriterID, dir string) error {
	for _, e := range r.list(w, dir) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if hidden(e.Name()) {
			continue
		}
		name := path.Join(dir, e.Name())
		why := misfitPack(e.Name())
		if why == "" {
			why = r.pack(w, name)
		}
		if why != "" {
			r.each(folderFile{writer: w, path: name, kind: ProblemFile, why: why})
		}
	}
	return nil
}

// pack hands out the records of one pack, or says why it cannot.
func (r *folderReader) pack(w ferry.WriterID, name string) string {
	data, _, err := r.root.ReadFile(name, maxPackBytes)
	if err != nil {
		return err.Error()
	}
	records, err := parsePackFile(data)
	if err != nil {
		return err.Error()
	}
	for i, record := range records {
		u, err := formOf(record)
		if err != nil {
			return fmt.Sprintf("record %d of the pack: %v", i+1, err)
		}
		r.each(folderFile{writer: w, path: path.Join(recordsPath(w), u.Name()), data: record})
	}
	return ""
}
