package gitfacts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/utils/diff"
	"github.com/sergi/go-diff/diffmatchpatch"
)

// middleLimit is how many lines are compared one by one once the equal beginning and end are off. Beyond it the middle
// counts as replaced: the exact comparison takes time that grows with the square, and an engine chooses the files.
const middleLimit = 10_000

// chunk is a run of lines that are in both texts (' '), in the old one ('-') or in the new one ('+').
type chunk struct {
	op    byte
	lines []string
}

// diffLines compares two texts line by line. The same texts always give the same chunks.
func diffLines(old, new string) []chunk {
	a, b := splitLines(old), splitLines(new)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var chunks []chunk
	add := func(op byte, lines []string) {
		if len(lines) == 0 {
			return
		}
		if n := len(chunks); n > 0 && chunks[n-1].op == op {
			chunks[n-1].lines = append(chunks[n-1].lines, lines...)
			return
		}
		chunks = append(chunks, chunk{op: op, lines: slices.Clone(lines)})
	}
	add(' ', a[:head])
	middleA, middleB := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(middleA)+len(middleB) > middleLimit {
		add('-', middleA)
		add('+', middleB)
	} else {
		ops := map[diffmatchpatch.Operation]byte{diffmatchpatch.DiffEqual: ' ', diffmatchpatch.DiffDelete: '-', diffmatchpatch.DiffInsert: '+'}
		for _, d := range diff.Do(strings.Join(middleA, ""), strings.Join(middleB, "")) {
			add(ops[d.Type], splitLines(d.Text))
		}
	}
	add(' ', a[len(a)-tail:])
	return chunks
}

// splitLines keeps the line ends; the last line may have none.
func splitLines(s string) []string {
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func countLines(old, new string) (added, deleted int64) {
	if old == new {
		return 0, 0
	}
	for _, c := range diffLines(old, new) {
		switch c.op {
		case '+':
			added += int64(len(c.lines))
		case '-':
			deleted += int64(len(c.lines))
		}
	}
	return added, deleted
}

// contextLines is how many equal lines a hunk shows around its changes.
const contextLines = 3

// hunk collects lines of a patch and where they begin.
type hunk struct {
	oldAt, oldN, newAt, newN int
	lines                    []string
}

// writeHunks writes the unified hunks between two texts.
func writeHunks(b *strings.Builder, old, new string) {
	chunks := diffLines(old, new)
	var h *hunk
	oldAt, newAt := 0, 0
	for i, c := range chunks {
		if c.op != ' ' {
			if h == nil {
				h = &hunk{oldAt: oldAt, newAt: newAt}
			}
			h.add(c.op, c.lines)
		} else {
			h = writeEqual(b, h, c.lines, equalAt{old: oldAt, new: newAt, last: i == len(chunks)-1})
		}
		if c.op != '+' {
			oldAt += len(c.lines)
		}
		if c.op != '-' {
			newAt += len(c.lines)
		}
	}
	h.write(b)
}

// equalAt says where a run of equal lines begins, and whether nothing follows it.
type equalAt struct {
	old, new int
	last     bool
}

// writeEqual gives equal lines to the hunk before them and opens the one after them.
func writeEqual(b *strings.Builder, h *hunk, lines []string, at equalAt) *hunk {
	n := len(lines)
	if h != nil {
		if !at.last && n <= 2*contextLines {
			h.add(' ', lines)
			return h
		}
		h.add(' ', lines[:min(n, contextLines)])
		h.write(b)
	}
	if at.last {
		return nil
	}
	shown := min(n, contextLines)
	h = &hunk{oldAt: at.old + n - shown, newAt: at.new + n - shown}
	h.add(' ', lines[n-shown:])
	return h
}

func (h *hunk) add(op byte, lines []string) {
	for _, line := range lines {
		text, ended := strings.CutSuffix(line, "\n")
		h.lines = append(h.lines, string(op)+text)
		if !ended {
			h.lines = append(h.lines, `\ No newline at end of file`)
		}
	}
	if op != '+' {
		h.oldN += len(lines)
	}
	if op != '-' {
		h.newN += len(lines)
	}
}

func (h *hunk) write(b *strings.Builder) {
	if h == nil {
		return
	}
	fmt.Fprintf(b, "@@ -%s +%s @@\n", span(h.oldAt, h.oldN), span(h.newAt, h.newN))
	for _, line := range h.lines {
		b.WriteString(line)
		b.WriteByte('\n')
	}
}

// span writes a hunk's place as git does: an empty side names the line before it.
func span(at, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", at)
	case 1:
		return strconv.Itoa(at + 1)
	}
	return fmt.Sprintf("%d,%d", at+1, n)
}

// header writes what git writes before the hunks of a file.
func (e entry) header(b *strings.Builder) {
	fmt.Fprintf(b, "diff --git %s %s\n", quoted("a/"+e.path), quoted("b/"+e.path))
	oldID, newID := strings.Repeat("0", 40), strings.Repeat("0", 40)
	switch {
	case e.old.none():
		fmt.Fprintf(b, "new file mode %s\n", e.new.modeText())
	case e.new.none():
		fmt.Fprintf(b, "deleted file mode %s\n", e.old.modeText())
	case e.old.mode != e.new.mode:
		fmt.Fprintf(b, "old mode %s\nnew mode %s\n", e.old.modeText(), e.new.modeText())
	}
	if !e.old.none() {
		oldID = e.old.hash.String()
	}
	if !e.new.none() {
		newID = e.new.hash.String()
	}
	if oldID != newID {
		fmt.Fprintf(b, "index %s..%s\n", oldID, newID)
	}
}

// name is a side's name in the lines before the hunks.
func (e entry) name(prefix string, s side) string {
	if s.none() {
		return "/dev/null"
	}
	return quoted(prefix + e.path)
}

// quoted makes a path that holds control characters, quotes, or bytes that are not ASCII safe to show.
func quoted(path string) string {
	for i := range len(path) {
		if c := path[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return strconv.QuoteToASCII(path)
		}
	}
	return path
}
