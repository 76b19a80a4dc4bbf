package channel

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// Bounds of a pack.
const (
	maxPackBytes   = 8 << 20
	maxPackRecords = 4096
)

// pack is the file that holds a range of the records of one epoch of a writer. It is no evidence of anything: every record
// in it is judged by its own signature.
//
//	ferry-pack 1
//	<length>
//	<the exact bytes of the record>
//	…
//	end <number of records> sha256:<64 hex: of everything before this line>
type pack struct {
	bytes []byte
	from  uint64
	to    uint64
	epoch uint32
}

const (
	packFirstLine = "ferry-pack 1\n"
	packLastLine  = "end "
)

// packSum names the content of a pack.
func packSum(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// name gives the path of the pack in the directory of its writer.
func (p *pack) name(w ferry.WriterID) string {
	return fileName{kind: namePack, in: w, of: w, epoch: p.epoch, from: p.from, to: p.to, id32: packSum(p.bytes)[:32]}.path()
}

// packWriter builds a pack.
type packWriter struct {
	out bytes.Buffer
	n   int
}

// packRoom is what the last line takes at most.
const packRoom = len(packLastLine) + 4 + 1 + len("sha256:") + 64 + 1

// add takes one more record in, or reports that the pack is full.
func (w *packWriter) add(record []byte) bool {
	if w.n == 0 {
		w.out.WriteString(packFirstLine)
	}
	size := strconv.Itoa(len(record))
	if w.n == maxPackRecords || w.out.Len()+len(size)+len(record)+2+packRoom > maxPackBytes {
		return false
	}
	w.out.WriteString(size + "\n")
	w.out.Write(record)
	w.out.WriteByte('\n')
	w.n++
	return true
}

// finish gives the file.
func (w *packWriter) finish() []byte {
	sum := sha256.Sum256(w.out.Bytes())
	fmt.Fprintf(&w.out, "%s%d sha256:%x\n", packLastLine, w.n, sum)
	return w.out.Bytes()
}

// parsePackFile gives the records of a pack, which are parts of file. Nothing of them is believed. It is an
// sign.ErrIncomplete when the file ends too early.
func parsePackFile(file []byte) ([][]byte, error) {
	if len(file) > maxPackBytes {
		return nil, fmt.Errorf("pack has more than %d bytes: %w", maxPackBytes, sign.ErrMalformed)
	}
	rest, ok := bytes.CutPrefix(file, []byte(packFirstLine))
	if !ok {
		if bytes.HasPrefix([]byte(packFirstLine), file) {
			return nil, fmt.Errorf("pack, first line: %w", sign.ErrIncomplete)
		}
		return nil, fmt.Errorf("pack, first line: %w", sign.ErrMalformed)
	}
	var records [][]byte
	for {
		bad := func(err error) error { return fmt.Errorf("pack, record %d: %w", len(records)+1, err) }
		end := bytes.IndexByte(rest[:min(len(rest), packRoom)], '\n')
		switch {
		case end < 0 && len(rest) < packRoom:
			return nil, bad(sign.ErrIncomplete)
		case end < 0:
			return nil, bad(sign.ErrMalformed)
		case bytes.HasPrefix(rest, []byte(packLastLine)):
			return records, checkPackEnd(file[:len(file)-len(rest)], rest, len(records))
		}
		line := string(rest[:end])
		rest = rest[end+1:]
		size, err := strconv.Atoi(line)
		switch {
		case err != nil || size < 1 || size > sign.MaxRecord || strconv.Itoa(size) != line || len(records) == maxPackRecords:
			return nil, bad(sign.ErrMalformed)
		case len(rest) <= size:
			return nil, bad(sign.ErrIncomplete)
		case rest[size] != '\n':
			return nil, bad(sign.ErrMalformed)
		}
		records, rest = append(records, rest[:size:size]), rest[size+1:]
	}
}

func checkPackEnd(before, line []byte, n int) error {
	sum := sha256.Sum256(before)
	want := fmt.Sprintf("%s%d sha256:%x\n", packLastLine, n, sum)
	switch {
	case n > 0 && string(line) == want:
		return nil
	case n > 0 && len(line) < len(want) && want[:len(line)] == string(line):
		return fmt.Errorf("pack, last line: %w", sign.ErrIncomplete)
	}
	return fmt.Errorf("pack, last line: %w", sign.ErrMalformed)
}

// sealedName gives the name of the pack that a seal is about.
func sealedName(s ferry.Seal) string {
	return fmt.Sprintf("%04d-%010d-%010d-%s.fp", s.Epoch, s.From, s.To, s.Pack[:32])
}
