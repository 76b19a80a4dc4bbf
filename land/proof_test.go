package land_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/land"
	"github.com/ferry-fleet/ferry/sign"
)

// entry is one entry of a receipt's file.
type entry struct {
	line string // without the length
	data []byte
}

// takeApart reads a receipt's file as the format's description says.
func takeApart(t testing.TB, file []byte) (top string, entries []entry) {
	t.Helper()
	for range 3 {
		line, rest, ok := bytes.Cut(file, []byte("\n"))
		if !ok {
			t.Fatal("the receipt has no top")
		}
		top, file = top+string(line)+"\n", rest
	}
	for !bytes.HasPrefix(file, []byte("end ")) {
		line, rest, _ := bytes.Cut(file, []byte("\n"))
		i := bytes.LastIndexByte(line, ' ')
		n := 0
		if _, err := fmt.Sscan(string(line[i+1:]), &n); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{string(line[:i]), bytes.Clone(rest[:n])})
		file = rest[n+1:]
	}
	return top, entries
}

// putTogether is the inverse, with a last line that fits.
func putTogether(top string, entries []entry) []byte {
	var b bytes.Buffer
	b.WriteString(top)
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %d\n%s\n", e.line, len(e.data), e.data)
	}
	return reseal(append(b.Bytes(), "end 0 sha256:\n"...), len(entries))
}

// reseal makes the last line fit, as a forger would.
func reseal(file []byte, entries int) []byte {
	i := bytes.LastIndex(file, []byte("\nend ")) + 1
	sum := sha256.Sum256(file[:i])
	return fmt.Appendf(bytes.Clone(file[:i]), "end %d sha256:%x\n", entries, sum)
}

func verified(file []byte) (land.Proof, error) { return land.VerifyReceipt(file, evidence.Classify) }

// refused wants the file not to prove anything.
func refused(t *testing.T, what string, file []byte) {
	t.Helper()
	if p, err := verified(file); err == nil && (p.OK || len(p.Problems) == 0) {
		t.Errorf("%s: the receipt still holds", what)
	}
}

// proven lands t-1 between records about another order, and gives the receipt.
func proven(t *testing.T, moved bool) (*fleet, land.Outcome, []byte) {
	t.Helper()
	f := newFleet(t, broken)
	f.order("t-other", func(o *ferry.Order) { o.Text = "another secret matter" })
	id := f.order("t-1", func(o *ferry.Order) { o.NeedsReview, o.NeedsApproval = true, true })
	f.work(id, fixed)
	f.review(ferry.DecisionKeep, "good")
	f.approve()
	if moved {
		f.commit(map[string]string{"README": "moved\n"})
	}
	out := f.land("t-1")
	file, err := land.MakeReceiptFile(t.Context(), f.ch, f.gate, "t-1")
	f.must(err)
	return f, out, file
}

// A receipt holds without what was redacted, and only with the redaction.
func TestAReceiptOfRedactedRecords(t *testing.T) {
	t.Parallel()
	f, out, _ := proven(t, true)
	task := f.task(out.Order)
	order, result := *task.Order, *task.Results[0].Result
	order.Text = "# Fix add\n\nIt [redacted]."
	result.Answer = "[redacted]"
	redaction, err := f.operator.Redact(t.Context(), f.now, "a secret", map[ferry.RecordID]ferry.Body{out.Order: &order, task.Results[0].ID: &result})
	f.must(err)
	file, err := land.MakeReceiptFile(t.Context(), f.ch, f.gate, "t-1")
	f.must(err)
	r, err := f.ch.Refresh(t.Context())
	f.must(err)
	again, err := land.MakeReceiptFile(t.Context(), f.ch, f.gate, "t-1")
	f.must(err)
	if r.Stripped != 2 || !bytes.Equal(file, again) {
		t.Errorf("with %d bodies out of the store the receipt is another one", r.Stripped)
	}
	p, err := verified(file)
	f.must(err)
	if !p.OK || p.State != ferry.StateLanded || p.Commit != out.Commit || len(p.Did) != 5 {
		t.Errorf("proof = %+v", p)
	}
	if bytes.Contains(file, []byte("subtracts")) {
		t.Error("the receipt holds what was taken out")
	}
	top, entries := takeApart(t, file)
	without := slices.DeleteFunc(entries, func(e entry) bool {
		r, err := sign.ParseHeader(e.data)
		return err == nil && ferry.RecordID(r.ID()) == redaction
	})
	if len(without) == len(entries) {
		t.Fatal("the redaction is not in the receipt")
	}
	refused(t, "without the redaction", putTogether(top, without))
}

func TestAReceiptProvesALandingByItself(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{false, true} {
		f, out, file := proven(t, moved)
		p, err := verified(file)
		f.must(err)
		if !p.OK || p.Channel != f.ch.ID() || p.Order != out.Order || p.State != ferry.StateLanded || p.Commit != out.Commit || p.Merged != moved {
			t.Fatalf("proof = %+v", p)
		}
		if p.Project != "demo" || p.Target != "main" || p.Tree != ferry.Commit(f.git("rev-parse", "main^{tree}")) || len(p.Content) != 64 {
			t.Errorf("proof = %+v", p)
		}
		var did []string
		for _, d := range p.Did {
			did = append(did, d.Did+" by "+string(d.Name))
		}
		if got, want := strings.Join(did, ", "), "ordered by ada, built by wisp, reviewed by ada, approved by ada, landed by ada"; got != want {
			t.Errorf("did = %s, want %s", got, want)
		}
		if p.Headers == 0 || bytes.Contains(file, []byte("secret matter")) {
			t.Error("the receipt holds the text of another order")
		}
		if !moved {
			top, entries := takeApart(t, file)
			if again := putTogether(top, entries); !bytes.Equal(again, file) {
				t.Error("the file is not as its description says")
			}
		}
	}
}

func TestNoChangedByteIsAccepted(t *testing.T) {
	t.Parallel()
	_, _, file := proven(t, false)
	_, entries := takeApart(t, file)
	if _, err := verified(reseal(file, len(entries))); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(file); at += 23 {
		changed := bytes.Clone(file)
		changed[at] ^= 1
		if _, err := verified(changed); !errors.Is(err, land.ErrNoReceipt) {
			t.Errorf("byte %d changed: %v", at, err)
		}
		if at > bytes.LastIndex(file, []byte("\nend ")) {
			continue // of the last line itself
		}
		refused(t, fmt.Sprintf("byte %d changed (%q) and the last line made to fit", at, file[max(0, at-20):min(len(file), at+20)]), reseal(changed, len(entries)))
	}
	for _, n := range []int{0, 1, 20, len(file) / 2, len(file) - 1} {
		if _, err := verified(file[:n]); !errors.Is(err, land.ErrNoReceipt) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	refused(t, "something behind its end", append(bytes.Clone(file), '\n'))
}

func TestNoRecordCanBeLeftOutOrExchanged(t *testing.T) {
	t.Parallel()
	f, _, file := proven(t, false)
	_, _, other := proven(t, false)
	top, entries := takeApart(t, file)
	otherTop, foreign := takeApart(t, other)
	without := func(i int) []entry { return append(append([]entry{}, entries[:i]...), entries[i+1:]...) }
	for i, e := range entries {
		what := fmt.Sprintf("entry %d, %s %.60q", i, e.line, e.data)
		refused(t, what+" left out", putTogether(top, without(i)))
		refused(t, what+" twice", putTogether(top, append(without(i), e, e)))
		if e.line == "record" {
			refused(t, what+" without its body", putTogether(top, append(without(i), entry{"top", topOf(t, e.data)})))
		}
		exchanged := append([]entry{}, entries...)
		exchanged[i] = foreign[min(i, len(foreign)-1)]
		refused(t, what+" from another channel", putTogether(top, exchanged))
	}
	refused(t, "the records of another channel", putTogether(top, foreign))
	refused(t, "another channel's name", putTogether(otherTop, entries))
	f.must(f.ch.Raw(t.Context(), func(record []byte) error {
		if !bytes.Contains(record, []byte("another secret matter")) {
			return nil
		}
		u, err := sign.ParseHeader(record)
		f.must(err)
		swapped := append([]entry{}, entries...)
		for i, e := range swapped {
			if e.line == "top" && bytes.Equal(e.data, u.Top()) {
				swapped[i] = entry{"record", bytes.Clone(record)}
			}
		}
		lines := strings.Split(top, "\n")
		id := ferry.RecordID(u.ID())
		refused(t, "another order's name", putTogether(strings.Join([]string{lines[0], lines[1], "order " + id.String(), ""}, "\n"), swapped))
		return nil
	}))
}

func topOf(t *testing.T, record []byte) []byte {
	t.Helper()
	u, err := sign.ParseHeader(record)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(u.Top())
}

func TestNoReceiptOfWhatHasNotLanded(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	f.work(f.order("t-1", nil), fixed)
	if _, err := land.MakeReceiptFile(t.Context(), f.ch, f.gate, "t-1"); err == nil || !strings.Contains(err.Error(), "has not landed") {
		t.Errorf("MakeReceiptFile() = %v", err)
	}
}

func FuzzVerifyReceipt(f *testing.F) {
	f.Add([]byte("ferry-receipt 1\nchannel x\n"))
	id := strings.Repeat("0", 64)
	f.Add(putTogether("ferry-receipt 1\nchannel "+id+"\norder "+id+"\n", []entry{{"record", []byte("x")}, {"top", []byte("y")}, {"commit " + id[:40], []byte("z")}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := verified(data); err == nil && p.OK {
			t.Errorf("%q proves %+v", data, p)
		}
	})
}

// TestAReceiptOutlivesItsBuilder revokes the agent after its work has landed.
func TestAReceiptOutlivesItsBuilder(t *testing.T) {
	t.Parallel()
	f, _, file := proven(t, false)
	p, err := verified(file)
	f.must(err)
	last := ferry.Cut{Epoch: 1}
	f.must(f.ch.Raw(t.Context(), func(record []byte) error {
		u, err := sign.ParseHeader(record)
		if h := u.Header(); ferry.WriterID(h.Writer) == f.agent.ID() {
			last.Seq, last.ID = int64(h.Seq), u.ID()
		}
		return err
	}))
	_, err = f.operator.Update(t.Context(), f.now, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Revoke{Writer: f.agent.ID(), Keep: last, Reason: "left"})
		return err
	})
	f.must(err)
	file, err = land.MakeReceiptFile(t.Context(), f.ch, f.gate, "t-1")
	f.must(err)
	after, err := verified(file)
	f.must(err)
	if !after.OK || after.Commit != p.Commit || after.Records != p.Records+1 {
		t.Errorf("proof = %+v", after)
	}
}
