package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
	"golang.org/x/term"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/redact"
)

// screen is what a human table has to know about where it is printed.
type screen struct {
	width int // columns, 0 when nobody looks
	color bool
}

// screenOf looks at the writer: only a terminal has a width and colours.
func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	return screen{width: width, color: environ("NO_COLOR") == "" && environ("TERM") != "dumb"}
}

// leastColumn is the width below which the last column is not squeezed: then
// lines run over the edge of the screen instead.
const leastColumn = 20

// table prints rows under a header, without lines. The last column takes what
// the screen has left. Every cell is foreign text: what a terminal would obey
// is made visible.
func (a *app) table(w io.Writer, header []string, rows [][]string) {
	s := screenOf(a.out)
	cells := make([][]string, len(rows))
	for i, row := range rows {
		cells[i] = make([]string, len(row))
		for j, c := range row {
			cells[i][j] = strings.Join(strings.Fields(redact.Visible(c)), " ")
		}
	}
	upper := make([]string, len(header))
	for i, h := range header {
		upper[i] = strings.ToUpper(h)
	}
	left := room(s, upper, cells)
	var b strings.Builder
	t := tablewriter.NewTable(&b,
		tablewriter.WithRenderer(renderer.NewBlueprint()),
		tablewriter.WithRendition(tw.Rendition{Borders: tw.BorderNone, Settings: tw.Settings{
			Separators: tw.SeparatorsNone, Lines: tw.LinesNone,
		}}),
		tablewriter.WithPadding(tw.Padding{Right: gap, Overwrite: true}),
		tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithHeaderAlignment(tw.AlignLeft), tablewriter.WithRowAlignment(tw.AlignLeft),
	)
	t.Header(upper)
	for _, row := range cells {
		for i := range row {
			if i == len(row)-1 && left > 0 {
				row[i] = wrap(row[i], left)
			}
			row[i] = paint(s, row[i])
		}
		if err := t.Append(row); err != nil {
			panic("ferry: a table row of another length: " + err.Error())
		}
	}
	if err := t.Render(); err != nil {
		panic("ferry: a table that cannot be rendered: " + err.Error())
	}
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

// gap is what stands between two columns.
const gap = "  "

// room gives how many columns of the screen the last cells may take, 0 for as
// many as they like.
func room(s screen, header []string, rows [][]string) int {
	if s.width == 0 {
		return 0
	}
	left := s.width
	for i := range len(header) - 1 {
		most := twwidth.Width(header[i])
		for _, row := range rows {
			most = max(most, twwidth.Width(row[i]))
		}
		left -= most + len(gap)
	}
	if left < leastColumn {
		return 0
	}
	return left
}

// wrap breaks a text at its spaces into lines of at most width columns. A
// word that is longer is left whole, so that it can be copied.
func wrap(text string, width int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := twwidth.Width(word)
		switch {
		case i == 0:
		case at+1+n > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// paint colours a cell that is the name of a state.
func paint(s screen, cell string) string {
	code := ""
	switch cell {
	case string(ferry.StateRunning), string(ferry.StateClaimed), string(ferry.StateOffered):
		code = "36"
	case string(ferry.StateLanded), string(ferry.StateDone), string(ferry.StateAccepted), string(ferry.StateApproved),
		string(ferry.EvidenceVerified), statusOK:
		code = "32"
	case string(ferry.StateAwaitingReview), string(ferry.StateChangesRequested), string(ferry.StateBlocked),
		string(ferry.EvidenceUnverified), statusWarn:
		code = "33"
	case string(ferry.StateFailed), string(ferry.StateRefuted), string(ferry.StateKilled), statusFail:
		code = "31"
	}
	if !s.color || code == "" {
		return cell
	}
	return "\x1b[" + code + "m" + cell + "\x1b[0m"
}
