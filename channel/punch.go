package channel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// hole is a frame of the store whose body is to go: where its bytes begin, how many there are, and how many of them stay.
type hole struct {
	id   ferry.RecordID
	off  int64
	size int
	keep int
}

const (
	punchFirst   = "ferry-punch 1\n"
	maxPunchFile = 64 << 10
)

// punches gives the text of the file that says what is being punched.
func punches(holes []hole) []byte {
	out := []byte(punchFirst)
	for _, h := range holes {
		out = fmt.Appendf(out, "%s %d %d %d\n", h.id, h.off, h.size, h.keep)
	}
	return out
}

func parsePunches(text []byte) ([]hole, error) {
	rest, ok := bytes.CutPrefix(text, []byte(punchFirst))
	if !ok {
		return nil, errors.New("it does not begin like one")
	}
	var out []hole
	for line := range bytes.Lines(rest) {
		var h hole
		var id string
		if _, err := fmt.Sscanf(string(line), "%64s %d %d %d\n", &id, &h.off, &h.size, &h.keep); err != nil {
			return nil, err
		}
		var err error
		if h.id, err = ferry.ParseRecordID(id); err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// punch puts zeros in the place of bodies. A file beside the log says which, so that what a crash leaves half done is done
// again. It needs the lock.
func (c *Channel) punch(holes []hole) error {
	if err := atomicfile.Write(c.cfg.punchPath(), punches(holes), 0o600); err != nil {
		return fmt.Errorf("take bodies out of the store: %w", err)
	}
	c.at("noted")
	return c.finishPunch(holes)
}

func (c *Channel) finishPunch(holes []hole) error {
	for _, h := range holes {
		b, err := c.store.punched(h)
		if err == nil && b != nil {
			err = c.store.log.Overwrite(h.off-int64(frameHeader), b)
		}
		if err != nil {
			return fmt.Errorf("take the body of record %s out of the store: %w", h.id.Short(), err)
		}
		c.at("punched")
	}
	root, err := atomicfile.OpenRoot(c.cfg.State)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Remove(filepath.Base(c.cfg.punchPath()))
}

// repunch does again what a process was doing when it ended. It needs the lock.
func (c *Channel) repunch() error {
	text, err := atomicfile.ReadBounded(c.cfg.punchPath(), maxPunchFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read which bodies go out of the store: %w", err)
	}
	holes, err := parsePunches(text)
	if err != nil {
		c.log.Warn("a file that says which bodies go out of the store cannot be read", "file", c.cfg.punchPath(), "err", err)
		holes = nil
	}
	return c.finishPunch(holes)
}

// punched gives the frame that takes the place of one whose body goes. It is nil where the log holds something else: it was
// made anew since.
func (s *store) punched(h hole) ([]byte, error) {
	size, err := s.log.Size()
	if err != nil {
		return nil, err
	}
	if h.keep < 1 || h.keep >= h.size || h.size > sign.MaxRecord || h.off < storeHeader+int64(frameHeader) || h.off+int64(h.size) > size {
		return nil, nil
	}
	b := make([]byte, frameHeader+h.keep, frameHeader+h.size)
	if _, err := s.log.ReadAt(b, h.off-int64(frameHeader)); err != nil {
		return nil, err
	}
	kind, _ := kindOf(b)
	t, err := sign.ParseBare(b[frameHeader:])
	if err != nil || t.ID() != h.id || kind != kindOwn && kind != kindForeign || string(b[:len(frameMagic)]) != frameMagic ||
		int(binary.LittleEndian.Uint32(b[len(frameMagic)+1:])) != h.size {
		return nil, nil
	}
	b[len(frameMagic)] = kind - kindPunched
	b = b[:frameHeader+h.size]
	sum := crc32.Update(crc32.Checksum(b[len(frameMagic):frameHeader-4], castagnoli), castagnoli, b[frameHeader:])
	binary.LittleEndian.PutUint32(b[frameHeader-4:], sum)
	return b, nil
}
