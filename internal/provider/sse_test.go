package provider

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// heardEvents reads a stream to its end.
func heardEvents(r io.Reader) (got []string, err error) {
	s := newSSEReader(r)
	for {
		e, err := s.next()
		if err != nil {
			return got, err
		}
		got = append(got, e.name+"|"+string(e.data))
	}
}

func TestSSE(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"line feeds", "data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		{"carriage returns", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		{"both", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		{"mixed", "data: a\r\n\ndata: b\n\r", []string{"|a", "|b"}},
		{"several lines of data", "data: a\ndata: b\ndata:\n\n", []string{"|a\nb\n"}},
		{"a name", "event: x\ndata: a\n\ndata: b\n\n", []string{"x|a", "|b"}},
		{"a name without data", "event: x\n\ndata: b\n\n", []string{"|b"}},
		{"comments", ": ping\n\n: ping\ndata: a\n:\n\n", []string{"|a"}},
		{"one space", "data:  a\n\ndata:b\n\n", []string{"| a", "|b"}},
		{"other fields", "id: 1\nretry: 5\nfoo: x\ndata: a\n\n", []string{"|a"}},
		{"no colon", "data\n\n", []string{"|"}},
		{"mark at the start", "\xef\xbb\xbfdata: a\n\ndata: \xef\xbb\xbf\n\n", []string{"|a", "|\xef\xbb\xbf"}},
		{"no empty line at the end", "data: a\n\ndata: b\n", []string{"|a"}},
		{"many bytes of one letter", "data: Grüße 😀\n\n", []string{"|Grüße 😀"}},
		{"nothing", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for size, r := range map[string]io.Reader{"whole": strings.NewReader(tt.in), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.in))} {
				got, err := heardEvents(r)
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: err %v", size, err)
				}
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Errorf("%s (-want +got):\n%s", size, d)
				}
			}
		})
	}
}

func TestSSEBounds(t *testing.T) {
	line := "data: " + strings.Repeat("x", maxSSELine-6)
	for _, tt := range []struct {
		name string
		in   io.Reader
		ok   bool
	}{
		{"the longest line", strings.NewReader(line + "\n\n"), true},
		{"a longer line", strings.NewReader(line + "x\n\n"), false},
		{"a line without an end", repeated("x"), false},
		{"the largest event", strings.NewReader(line + "\n" + line + "\n\n"), true},
		{"a larger event", strings.NewReader(line + "\n" + line + "\n" + line + "\n\n"), false},
		{"an event without an end", repeated("data: " + strings.Repeat("x", 1000) + "\n"), false},
		{"too many events", repeated("data:x\n\n"), false},
		{"comments without an end", repeated(":" + strings.Repeat("x", 1<<16) + "\n"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := heardEvents(tt.in)
			if errors.Is(err, errBound) == tt.ok {
				t.Errorf("err %v, want a bound: %v", err, !tt.ok)
			}
		})
	}
}

// repeated is a stream that never ends.
func repeated(s string) io.Reader { return &endless{text: s} }

type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c := copy(p[n:], e.text[e.at:])
		n, e.at = n+c, (e.at+c)%len(e.text)
	}
	return n, nil
}

func FuzzSSE(f *testing.F) {
	f.Add("event: x\r\ndata: {\"a\":1}\r\n\r\n: c\ndata: b\n\n")
	f.Add("\xef\xbb\xbfdata\r\rdata:\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		whole, _ := heardEvents(strings.NewReader(in))
		bytewise, _ := heardEvents(iotest.OneByteReader(strings.NewReader(in)))
		if d := cmp.Diff(whole, bytewise); d != "" {
			t.Errorf("the sizes of the pieces make a difference (-whole +bytewise):\n%s", d)
		}
		n := 0
		for _, e := range whole {
			n += len(e)
		}
		if n > len(in)+len(whole) {
			t.Errorf("%d bytes of events from %d bytes", n, len(in))
		}
	})
}
