package land

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// Bounds of a receipt's file.
const (
	MaxReceipt        = 64 << 20
	maxReceiptEntries = 200_000
	maxReceiptCommit  = 1 << 20
)

// ErrNoReceipt reports bytes that are not a receipt, or not a whole one.
var ErrNoReceipt = errors.New("not a whole receipt")

// receiptFile is the content of a receipt's file. Nothing in it is believed before it was checked:
//
//	ferry-receipt 1
//	channel <64 hex>
//	order <64 hex>
//	record <length>
//	<the exact bytes of a record's file>
//	top <length>
//	<a record's header and signature lines, as they stand in its file>
//	commit <id> <length>
//	<a git commit object, without its first line "commit <length>">
//	…
//	end <number of records, tops and commits> sha256:<64 hex: of everything before this line>
type receiptFile struct {
	channel ferry.RecordID
	order   ferry.RecordID
	records [][]byte
	tops    [][]byte
	commits map[ferry.Commit][]byte
}

const receiptFirstLine = "ferry-receipt 1\n"

// receiptWriter writes a receipt's file, and remembers when it has become too large.
type receiptWriter struct {
	out bytes.Buffer
	n   int
}

func newReceiptWriter(channel, order ferry.RecordID) *receiptWriter {
	w := &receiptWriter{}
	fmt.Fprintf(&w.out, "%schannel %s\norder %s\n", receiptFirstLine, channel, order)
	return w
}

func (w *receiptWriter) add(what string, data []byte) error {
	if w.n++; w.n > maxReceiptEntries || w.out.Len()+len(data) > MaxReceipt-200 {
		return fmt.Errorf("the receipt would have more than %d MiB or %d entries", MaxReceipt>>20, maxReceiptEntries)
	}
	fmt.Fprintf(&w.out, "%s %d\n", what, len(data))
	w.out.Write(data)
	w.out.WriteByte('\n')
	return nil
}

func (w *receiptWriter) finish() []byte {
	sum := sha256.Sum256(w.out.Bytes())
	fmt.Fprintf(&w.out, "end %d sha256:%x\n", w.n, sum)
	return w.out.Bytes()
}

// receiptReader reads a receipt's file from its beginning.
type receiptReader struct {
	data []byte
	at   int
}

func (r *receiptReader) fail(why string) error {
	return fmt.Errorf("%w: at byte %d: %s", ErrNoReceipt, r.at, why)
}

// line reads a short line without its line feed.
func (r *receiptReader) line() (string, bool) {
	rest := r.data[r.at:]
	i := bytes.IndexByte(rest[:min(len(rest), 200)], '\n')
	if i < 0 {
		return "", false
	}
	r.at += i + 1
	return string(rest[:i]), true
}

func (r *receiptReader) id(name string) (id ferry.RecordID, err error) {
	line, _ := r.line()
	value, ok := strings.CutPrefix(line, name+" ")
	if id, err = ferry.ParseRecordID(value); err != nil || !ok {
		return id, r.fail("no line " + name)
	}
	return id, nil
}

// block reads so many bytes and the line feed behind them.
func (r *receiptReader) block(length string, most int) ([]byte, error) {
	n, err := strconv.Atoi(length)
	if err != nil || strconv.Itoa(n) != length || n < 1 || n > most {
		return nil, r.fail("a length that cannot be")
	}
	if rest := r.data[r.at:]; len(rest) <= n || rest[n] != '\n' {
		return nil, r.fail("an entry has another length than it says")
	}
	block := r.data[r.at : r.at+n : r.at+n]
	r.at += n + 1
	return block, nil
}

func parseReceipt(data []byte) (*receiptFile, error) {
	if len(data) > MaxReceipt {
		return nil, fmt.Errorf("%w: more than %d MiB", ErrNoReceipt, MaxReceipt>>20)
	}
	r := &receiptReader{data: data}
	if !bytes.HasPrefix(data, []byte(receiptFirstLine)) {
		return nil, r.fail("it does not begin with " + strconv.Quote(receiptFirstLine))
	}
	r.at = len(receiptFirstLine)
	f := &receiptFile{commits: map[ferry.Commit][]byte{}}
	var err error
	if f.channel, err = r.id("channel"); err != nil {
		return nil, err
	}
	if f.order, err = r.id("order"); err != nil {
		return nil, err
	}
	for n := 0; n <= maxReceiptEntries; n++ {
		before := r.at
		line, ok := r.line()
		if !ok {
			return nil, r.fail("it ends too early")
		}
		if strings.HasPrefix(line, "end ") {
			return f, r.end(line, n, before)
		}
		if err := r.entry(f, line); err != nil {
			return nil, err
		}
	}
	return nil, r.fail("too many entries")
}

func (r *receiptReader) end(line string, n, before int) error {
	sum := sha256.Sum256(r.data[:before])
	if r.at != len(r.data) {
		return r.fail("something follows its end")
	}
	if line != fmt.Sprintf("end %d sha256:%x", n, sum) {
		return r.fail("its last line does not fit what is before it")
	}
	return nil
}

func (r *receiptReader) entry(f *receiptFile, line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "record":
		block, err := r.block(rest, sign.MaxRecord)
		f.records = append(f.records, block)
		return err
	case "top":
		block, err := r.block(rest, sign.MaxRecord)
		f.tops = append(f.tops, block)
		return err
	case "commit":
		name, length, _ := strings.Cut(rest, " ")
		id, err := ferry.ParseCommit(name)
		if err != nil {
			return r.fail("a commit without an id")
		}
		if _, twice := f.commits[id]; twice {
			return r.fail("a commit is there twice")
		}
		f.commits[id], err = r.block(length, maxReceiptCommit)
		return err
	}
	return r.fail("a line that is none of record, top, commit, end")
}
