package redact

import (
	"slices"
	"strings"
)

// folded is a text without its seams: what a tool puts between two pieces of a long word when it breaks lines. A seam is
// one or more line ends, as they are or spelled out as in JSON, and the indentation behind them.
type folded struct {
	text string
	at   []int // where in text each seam was
	lost []int // how many bytes were left out up to its end
}

func fold(s string) folded {
	if !strings.ContainsAny(s, "\r\n\\") {
		return folded{text: s}
	}
	var f folded
	out := make([]byte, 0, len(s))
	from := 0
	for i := 0; i < len(s); {
		if c := s[i]; c != '\n' && c != '\r' && c != '\\' {
			i++
			continue
		}
		n := seam(s[i:])
		if n == 0 {
			i++
			continue
		}
		out = append(out, s[from:i]...)
		i += n
		from = i
		f.at, f.lost = append(f.at, len(out)), append(f.lost, i-len(out))
	}
	f.text = string(append(out, s[from:]...))
	return f
}

// seam returns the length of the seam at the beginning of s.
func seam(s string) int {
	n := 0
	for n < len(s) {
		step := lineEnd(s[n:])
		if step == 0 {
			break
		}
		rest := s[n+step:]
		n += step + len(rest) - len(strings.TrimLeft(rest, " \t"))
	}
	return n
}

// lineEnd returns the length of one line end at the beginning of s. Text in JSON in JSON has more backslashes.
func lineEnd(s string) int {
	if s[0] == '\n' || s[0] == '\r' {
		return 1
	}
	i := 0
	for i < len(s) && i < 8 && s[i] == '\\' {
		i++
	}
	if i > 0 && i < len(s) && (s[i] == 'n' || s[i] == 'r') {
		return i + 1
	}
	return 0
}

// original returns where the byte at i of the folded text is in the text.
func (f folded) original(i int) int {
	k, found := slices.BinarySearch(f.at, i)
	if found {
		k++ // the byte is behind the seam
	}
	if k == 0 {
		return i
	}
	return i + f.lost[k-1]
}

// broken returns how many bytes from a up to b stand before the first seam between them; b-a where there is none.
func (f folded) broken(a, b int) int {
	k, found := slices.BinarySearch(f.at, a)
	if found {
		k++ // a seam before the first byte is none between them
	}
	if k < len(f.at) && f.at[k] < b {
		return f.at[k] - a
	}
	return b - a
}

// words finds many words in one look at a text.
type words struct {
	bits  [1 << 10]uint64     // which hashes of three bytes begin a word
	begin map[uint32][]string // the words by their first three bytes, longest first
}

// minWord is the shortest word that can be looked for.
const minWord = 3

func newWords(list []string) *words {
	w := &words{begin: map[uint32][]string{}}
	for _, word := range list {
		k := uint32(word[0]) | uint32(word[1])<<8 | uint32(word[2])<<16
		w.bits[hash(k)>>6] |= 1 << (hash(k) & 63)
		w.begin[k] = append(w.begin[k], word)
	}
	for _, same := range w.begin {
		slices.SortFunc(same, func(a, b string) int { return len(b) - len(a) })
	}
	return w
}

func hash(k uint32) uint32 { return k * 0x9e3779b1 >> 16 }

// find calls f for every place of s at which the first three bytes of words stand, with those words.
func (w *words) find(s string, f func(at int, candidates []string)) {
	if len(s) < minWord || len(w.begin) == 0 {
		return
	}
	k := uint32(s[0])<<8 | uint32(s[1])<<16
	for i := 2; i < len(s); i++ {
		k = k>>8 | uint32(s[i])<<16
		if h := hash(k); w.bits[h>>6]&(1<<(h&63)) != 0 {
			if c := w.begin[k]; c != nil {
				f(i-2, c)
			}
		}
	}
}
