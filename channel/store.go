package channel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// The framing of store.log. The first byte of a frame cannot occur in a record, which is ASCII and UTF-8.
const (
	storeMagic  = "ferrylg1"
	storeHeader = int64(len(storeMagic) + 32)
	frameMagic  = "\xf5FR"
	frameHeader = len(frameMagic) + 1 + 4 + 4

	kindOwn     = 'o'
	kindForeign = 'f'
	kindPunched = 'o' - 'O' // taken from a kind, that of a frame whose body is zeros
)

// frame is one record of the store. off is where its bytes begin, behind the frame's header. suspect is set for what was
// found behind damage, where a CRC alone proves nothing.
type frame struct {
	off     int64
	data    []byte
	size    int // bytes that it has in the log, where those are more than data
	own     bool
	suspect bool
	read    *parsed // data taken apart, or nil
}

func (f frame) end() int64 { return f.off + int64(max(f.size, len(f.data))) }

// span is a part of the log that holds no frame.
type span struct{ from, to int64 }

// store is the framed log. Appending needs the lock of the state directory.
type store struct {
	log *atomicfile.Log
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendFrame(b []byte, f frame) []byte {
	start := len(b)
	b = append(b, frameMagic...)
	kind := byte(kindForeign)
	if f.own {
		kind = kindOwn
	}
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.data)))
	sum := crc32.Update(crc32.Checksum(b[start+len(frameMagic):], castagnoli), castagnoli, f.data)
	b = binary.LittleEndian.AppendUint32(b, sum)
	return append(b, f.data...)
}

// parseFrame reads the frame at the beginning of b. need says how many bytes it has; ok is false when b begins with
// anything else or with a part of a frame.
func parseFrame(b []byte) (f frame, need int, ok bool) {
	if len(b) < frameHeader || string(b[:len(frameMagic)]) != frameMagic {
		return frame{}, 0, false
	}
	kind, punched := kindOf(b)
	size := binary.LittleEndian.Uint32(b[len(frameMagic)+1:])
	if kind != kindOwn && kind != kindForeign || size == 0 || size > sign.MaxRecord || len(b) < frameHeader+int(size) {
		return frame{}, 0, false
	}
	data := b[frameHeader : frameHeader+int(size)]
	sum := crc32.Update(crc32.Checksum(b[len(frameMagic):frameHeader-4], castagnoli), castagnoli, data)
	if sum != binary.LittleEndian.Uint32(b[frameHeader-4:]) {
		return frame{}, 0, false
	}
	if punched {
		data = bareOf(data)
	}
	return frame{data: data, size: int(size), own: kind == kindOwn}, frameHeader + int(size), true
}

// kindOf reads the kind in the header of a frame.
func kindOf(b []byte) (kind byte, punched bool) {
	kind = b[len(frameMagic)]
	if kind == kindOwn-kindPunched || kind == kindForeign-kindPunched {
		return kind + kindPunched, true
	}
	return kind, false
}

// bareOf cuts the zeros off what a frame holds whose body is gone.
func bareOf(data []byte) []byte {
	if i := bytes.Index(data, []byte("\n\n")); i >= 0 {
		return data[: i+2 : i+2]
	}
	return data
}

// createStore makes the log of a channel with its root record, whole or not at all.
func createStore(path string, id ferry.RecordID, root frame) error {
	b := append([]byte(storeMagic), id[:]...)
	if err := atomicfile.Create(path, appendFrame(b, root), 0o600); err != nil {
		return fmt.Errorf("create the store: %w", err)
	}
	return nil
}

// openStore opens the log and reads whose it is. A missing log is fs.ErrNotExist.
func openStore(path string) (*store, ferry.RecordID, error) {
	var id ferry.RecordID
	if _, err := os.Lstat(path); err != nil {
		return nil, id, fmt.Errorf("open the store: %w", err)
	}
	log, err := atomicfile.OpenLog(path)
	if err != nil {
		return nil, id, fmt.Errorf("open the store: %w", err)
	}
	head := make([]byte, storeHeader)
	if _, err := log.ReadAt(head, 0); err != nil || string(head[:len(storeMagic)]) != storeMagic {
		log.Close()
		return nil, id, fmt.Errorf("open the store %s: it does not begin like a store; move it aside, and it is filled again from the folder", path)
	}
	copy(id[:], head[len(storeMagic):])
	return &store{log: log}, id, nil
}

func (s *store) size() (int64, error) { return s.log.Size() }

// append adds frames, durably, and fills in where they are. After an error the log is as it was before.
func (s *store) append(frames []frame) (end int64, err error) {
	before, err := s.log.Size()
	if err != nil {
		return 0, fmt.Errorf("append to the store: %w", err)
	}
	n := 0
	for _, f := range frames {
		n += frameHeader + len(f.data)
	}
	b := make([]byte, 0, n)
	for i := range frames {
		frames[i].off = before + int64(len(b)+frameHeader)
		b = appendFrame(b, frames[i])
	}
	if _, err = s.log.Append(b); err == nil {
		err = s.log.Sync()
	}
	if err != nil {
		return 0, fmt.Errorf("append to the store: %w", errors.Join(err, s.log.Truncate(before)))
	}
	return before + int64(len(b)), nil
}

// read gives the bytes of one record.
func (s *store) read(off int64, size int) ([]byte, error) {
	if size <= 0 || size > sign.MaxRecord || off < storeHeader+int64(frameHeader) {
		return nil, fmt.Errorf("read the store at %d: a record of %d bytes: %w", off, size, fs.ErrInvalid)
	}
	b := make([]byte, frameHeader+size)
	for range rereads {
		if _, err := s.log.ReadAt(b, off-int64(frameHeader)); err != nil {
			return nil, fmt.Errorf("read the store at %d: %w", off, err)
		}
		if data, sound := framed(b); sound {
			return data, nil
		}
	}
	return b[frameHeader:], nil // damaged: Verify tells
}

// rereads bounds how often a frame is read that another process may be punching.
const rereads = 3

// framed gives the record in the bytes of a frame; sound is false when it was read while its body was taken out, or is damaged.
func framed(b []byte) (data []byte, sound bool) {
	data = b[frameHeader:]
	if string(b[:len(frameMagic)]) != frameMagic {
		return data, true
	}
	if _, punched := kindOf(b); punched {
		return bareOf(data), true
	}
	_, _, sound = parseFrame(b)
	return data, sound
}

// scanWindow bounds what scan holds in memory; it is larger than any frame.
const scanWindow = 1 << 20

// scan calls each for every frame from an offset on. It returns the end of the last one: what follows is a torn tail, the
// rest of an append that never finished. Damage between frames is skipped and returned.
func (s *store) scan(from int64, each func(frame) error) (end int64, damage []span, err error) {
	size, err := s.log.Size()
	if err != nil {
		return 0, nil, fmt.Errorf("scan the store: %w", err)
	}
	end = max(from, storeHeader)
	var window []byte
	reread, times := int64(-1), 0
	for at, base := end, end; at < size; {
		rest := window[min(at-base, int64(len(window))):]
		f, n, ok := parseFrame(rest)
		if !ok && at+int64(len(rest)) < size && len(rest) < frameHeader+sign.MaxRecord {
			if window, err = s.window(at, size); err != nil {
				return end, damage, err
			}
			base = at
			continue
		}
		if !ok && bytes.HasPrefix(rest, []byte(frameMagic)) && (reread != at || times < rereads) {
			if reread != at {
				reread, times = at, 0
			}
			times++
			if window, err = s.window(at, size); err != nil { // another process may be punching it
				return end, damage, err
			}
			base = at
			continue
		}
		if !ok {
			at += 1 + int64(skip(rest[1:]))
			continue
		}
		if at > end {
			damage = append(damage, span{end, at})
		}
		f.off, f.suspect = at+int64(frameHeader), len(damage) > 0
		if err := each(f); err != nil {
			return end, damage, err
		}
		at += int64(n)
		end = at
	}
	return end, damage, nil
}

// skip gives the distance to the next place where a frame may begin.
func skip(b []byte) int {
	if i := bytes.IndexByte(b, frameMagic[0]); i >= 0 {
		return i
	}
	return len(b)
}

func (s *store) window(at, size int64) ([]byte, error) {
	b := make([]byte, min(scanWindow, size-at))
	if n, err := s.log.ReadAt(b, at); err != nil && !(errors.Is(err, io.EOF) && n == len(b)) {
		return nil, fmt.Errorf("scan the store at %d: %w", at, err)
	}
	return b, nil
}

func (s *store) close() error { return s.log.Close() }
