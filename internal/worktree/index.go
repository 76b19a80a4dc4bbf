package worktree

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// indexLimit bounds an index file: more than a million paths.
const indexLimit = 256 << 20

// Modes of git's tree entries.
const (
	modeFile uint32 = 0o100644
	modeExec uint32 = 0o100755
	modeLink uint32 = 0o120000
	modeRepo uint32 = 0o160000
)

// stamp is what a file system says about a file's content without reading it. A file whose stamp is the same as when
// git wrote it holds the same bytes, unless it was written in the same tick; see index.racy.
type stamp struct {
	mtime, ctime int64 // nanoseconds
	inode, size  uint32
}

// indexEntry is one path of an index file.
type indexEntry struct {
	mode  uint32
	id    ferry.Commit
	stamp stamp
}

// index is what ferry's own index file says about a tree as it was checked out.
type index struct {
	entries map[string]indexEntry
	written int64 // when the index was finished, in nanoseconds of the file system
}

// tick is longer than the clock tick by which file systems stamp files.
const tick = 20 * time.Millisecond

// same reports whether a file still is what the index says about it.
func (ix *index) same(e indexEntry, f file) bool {
	racy := max(f.stamp.mtime, f.stamp.ctime) >= ix.written-int64(tick)
	return !racy && e.mode == f.mode && e.stamp == f.stamp
}

// readIndex reads an index file of version 2 that ferry let git write.
func readIndex(path string, written time.Time) (*index, error) {
	data, err := atomicfile.ReadBounded(path, indexLimit)
	if err != nil {
		return nil, err
	}
	ix, err := parseIndex(data)
	if err != nil {
		return nil, fmt.Errorf("read index %s: %w", path, err)
	}
	ix.written = written.UnixNano()
	return ix, nil
}

func parseIndex(data []byte) (*index, error) {
	if len(data) < 12 || string(data[:4]) != "DIRC" {
		return nil, fmt.Errorf("not an index file")
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version != 2 && version != 3 {
		return nil, fmt.Errorf("index version %d is not known", version)
	}
	body := data[12:]
	for _, hash := range []int{20, 32} {
		if ix, ok := parseEntries(body, int(count), hash); ok {
			return ix, nil
		}
	}
	return nil, fmt.Errorf("the entries are damaged")
}

// parseEntries reads count entries whose object ids have hash bytes. With the wrong length it meets an impossible mode
// or an unfinished path.
func parseEntries(data []byte, count, hash int) (*index, bool) {
	ix := &index{entries: make(map[string]indexEntry, min(count, len(data)/62))}
	head := 40 + hash + 2
	for range count {
		if len(data) < head {
			return nil, false
		}
		word := func(i int) uint32 { return binary.BigEndian.Uint32(data[4*i:]) }
		e := indexEntry{mode: word(6), id: ferry.Commit(hex.EncodeToString(data[40 : 40+hash]))}
		e.stamp = stamp{
			ctime: int64(word(0))*1e9 + int64(word(1)), mtime: int64(word(2))*1e9 + int64(word(3)),
			inode: word(5), size: word(9),
		}
		flags, at := binary.BigEndian.Uint16(data[40+hash:]), head
		if flags&0x4000 != 0 {
			at += 2
		}
		end := at
		for end < len(data) && data[end] != 0 {
			end++
		}
		next := (end/8 + 1) * 8
		known := e.mode == modeFile || e.mode == modeExec || e.mode == modeLink || e.mode == modeRepo
		if !known || end == at || next > len(data) || flags&0x3000 != 0 {
			return nil, false
		}
		ix.entries[string(data[at:end])] = e
		data = data[next:]
	}
	return ix, true
}
