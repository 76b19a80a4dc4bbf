package channel

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// ArchiveLine begins the file of an archive. The exact bytes of the records follow, each after a line with their number and
// before a line feed, and a line that tells how many there are.
const ArchiveLine = "ferry-archive 1\n"

const archiveEnd = "end "

// Archive writes every record of the store into one file, from which all state follows again. The writers come in the order
// in which they were let in, their records by epoch, number and id: so machines that hold the same records write the same
// file, and whoever reads it knows each key before it needs it. It gives the number of records.
func (c *Channel) Archive(ctx context.Context, w io.Writer) (n int, err error) {
	if err := c.sync(ctx); err != nil {
		return 0, err
	}
	at, err := c.inOrder(ctx)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriterSize(w, sign.MaxRecord)
	out.WriteString(ArchiveLine) // an error stays until Flush
	for _, pl := range at {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		data, err := c.store.read(pl.off, pl.size)
		if err != nil {
			return n, err
		}
		fmt.Fprintf(out, "%d\n", len(data))
		out.Write(data)
		out.WriteByte('\n')
		n++
	}
	fmt.Fprintf(out, "%s%d\n", archiveEnd, n)
	if err := out.Flush(); err != nil {
		return n, fmt.Errorf("write the archive: %w", err)
	}
	return n, nil
}

// inOrder gives the place of every record in the order of an archive: first the masters, then the members.
func (c *Channel) inOrder(ctx context.Context) ([]place, error) {
	var all []ferry.WriterID
	err := each(ctx, c.db, func(rows *sql.Rows) error {
		var w ferry.WriterID
		err := rows.Scan(&w)
		all = append(all, w)
		return err
	}, `SELECT DISTINCT writer FROM records ORDER BY writer`)
	if err != nil {
		return nil, err
	}
	roster, order := c.authority(), []ferry.WriterID(nil)
	for _, root := range roster.Roots() {
		if b, ok := root.Body.(*ferry.Root); ok && !slices.Contains(order, b.Master.Writer) {
			order = append(order, b.Master.Writer)
		}
	}
	order = append(order, roster.Known()...)
	order = append(order, all...)
	var out []place
	done := map[ferry.WriterID]bool{}
	for _, w := range order {
		if done[w] {
			continue
		}
		done[w] = true
		at, err := places(ctx, c.db, `SELECT `+placeColumns+` FROM records WHERE writer = ? ORDER BY epoch, seq, id`, string(w))
		if err != nil {
			return nil, err
		}
		out = append(out, at...)
	}
	return out, nil
}

// VerifyArchive verifies an archive alone, without any state: everything follows from its records and the id of the channel.
func VerifyArchive(ctx context.Context, r io.Reader, id ferry.RecordID, judge ferry.Judge) (VerifyReport, error) {
	a := newAudit(id, judge)
	n := 0
	err := ReadArchive(r, func(data []byte) error {
		n++
		if _, ok := a.add(data); !ok {
			a.problem("", 0, ProblemFile, fmt.Sprintf("number %d in the archive is not a record", n))
		}
		return ctx.Err()
	})
	if err != nil {
		return VerifyReport{}, fmt.Errorf("verify: %w", err)
	}
	return a.finish()
}

// ReadArchive gives each record of an archive. Nothing of them is believed; take is given bytes that it may keep. It is a
// sign.ErrIncomplete when the file ends too early, and a sign.ErrMalformed when it is no archive.
func ReadArchive(r io.Reader, take func(record []byte) error) error {
	in := bufio.NewReaderSize(r, sign.MaxRecord)
	first, err := line(in)
	if err == nil && first+"\n" != ArchiveLine {
		err = sign.ErrMalformed
	}
	if err != nil {
		return fmt.Errorf("archive, first line: %w", err)
	}
	for n := 0; ; n++ {
		text, err := line(in)
		if err != nil {
			return fmt.Errorf("archive, record %d: %w", n+1, err)
		}
		if text == archiveEnd+strconv.Itoa(n) {
			break
		}
		data, err := frameOf(in, text)
		if err != nil {
			return fmt.Errorf("archive, record %d: %w", n+1, err)
		}
		if err := take(data); err != nil {
			return err
		}
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("archive: something follows its last line: %w", sign.ErrMalformed)
	}
	return nil
}

const maxArchiveText = 24 // bytes of a line that is no record

func line(in *bufio.Reader) (string, error) {
	var b []byte
	for len(b) <= maxArchiveText {
		c, err := in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return "", sign.ErrIncomplete
		case err != nil:
			return "", err
		case c == '\n':
			return string(b), nil
		}
		b = append(b, c)
	}
	return "", sign.ErrMalformed
}

// frameOf reads the record behind the line with its length.
func frameOf(in *bufio.Reader, text string) ([]byte, error) {
	size, err := strconv.Atoi(text)
	if err != nil || size < 1 || size > sign.MaxRecord || strconv.Itoa(size) != text {
		return nil, sign.ErrMalformed
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(in, data); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, sign.ErrIncomplete
	} else if err != nil {
		return nil, err
	}
	if data[size] != '\n' {
		return nil, sign.ErrMalformed
	}
	return data[:size:size], nil
}
