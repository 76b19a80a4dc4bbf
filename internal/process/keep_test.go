package process_test

import (
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/internal/process"
)

func TestKeep(t *testing.T) {
	tests := []struct {
		name       string
		head, tail int
		writes     []string
		want       string
	}{
		{"nothing", 4, 4, nil, ""},
		{"all fits", 4, 4, []string{"abcd", "efgh"}, "abcdefgh"},
		{"one byte too many", 4, 4, []string{"abcdefghi"}, "abcd\n[1 bytes left out]\nfghi"},
		{"byte by byte", 2, 3, strings.Split("abcdefghij", ""), "ab\n[5 bytes left out]\nhij"},
		{"ring wraps inside a write", 0, 4, []string{"abc", "def", "g"}, "\n[3 bytes left out]\ndefg"},
		{"no tail", 3, 0, []string{"abcdef"}, "abc\n[3 bytes left out]\n"},
		{"nothing kept", -1, -1, []string{"abc"}, "\n[3 bytes left out]\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := process.NewKeep(tt.head, tt.tail)
			var total int64
			for _, w := range tt.writes {
				n, err := k.Write([]byte(w))
				if n != len(w) || err != nil {
					t.Fatalf("Write(%q) = %d, %v", w, n, err)
				}
				total += int64(n)
			}
			if got := string(k.Bytes()); got != tt.want {
				t.Errorf("Bytes() = %q, want %q", got, tt.want)
			}
			if k.Total() != total {
				t.Errorf("Total() = %d, want %d", k.Total(), total)
			}
		})
	}
}
