package channel_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// archived reads an archive back.
func archived(data []byte) (records []string, err error) {
	err = channel.ReadArchive(bytes.NewReader(data), func(r []byte) error {
		records = append(records, string(r))
		return nil
	})
	return records, err
}

func TestReadArchive(t *testing.T) {
	const whole = "ferry-archive 1\n3\nabc\n5\nd\ne\nf\nend 2\n"
	got, err := archived([]byte(whole))
	if diff := cmp.Diff([]string{"abc", "d\ne\nf"}, got); diff != "" || err != nil {
		t.Errorf("error %v, records (-want +got):\n%s", err, diff)
	}
	for i := range len(whole) {
		if _, err := archived([]byte(whole[:i])); !errors.Is(err, sign.ErrIncomplete) {
			t.Errorf("cut after %d bytes: error %v, want ErrIncomplete", i, err)
		}
	}
	for name, text := range map[string]string{
		"another first line": "ferry-archive 2\nend 0\n", "a record that is missing": "ferry-archive 1\n3\nabc\nend 2\n",
		"a length of nothing": "ferry-archive 1\n0\n\nend 1\n", "a sign": "ferry-archive 1\n+3\nabc\nend 1\n",
		"a zero in front": "ferry-archive 1\n03\nabc\nend 1\n", "too long": fmt.Sprintf("ferry-archive 1\n%d\nabc", sign.MaxRecord+1),
		"a wrong length": "ferry-archive 1\n2\nabc\nend 1\n", "more at the end": whole + "x", "no line": "ferry-archive 1\n" + strings.Repeat("1", 100),
	} {
		if _, err := archived([]byte(text)); !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("%s: error %v, want ErrMalformed", name, err)
		}
	}
}

func FuzzReadArchive(f *testing.F) {
	f.Add([]byte("ferry-archive 1\n3\nabc\n5\nd\ne\nf\nend 2\n"))
	f.Add([]byte("ferry-archive 1\nend 0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := archived(data)
		if err != nil {
			return
		}
		var again bytes.Buffer
		again.WriteString(channel.ArchiveLine)
		for _, r := range records {
			fmt.Fprintf(&again, "%d\n%s\n", len(r), r)
		}
		fmt.Fprintf(&again, "end %d\n", len(records))
		if !bytes.Equal(again.Bytes(), data) {
			t.Fatalf("an archive has two spellings: %q", data)
		}
	})
}
