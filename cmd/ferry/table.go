package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/olekukonko/tablewriter"
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

// table prints rows under a header, without lines, as wide as the screen.
// Every cell is foreign text: what a terminal would obey is made visible.
func (a *app) table(w io.Writer, header []string, rows [][]string) {
	s := screenOf(a.out)
	opts := []tablewriter.Option{
		tablewriter.WithRenderer(renderer.NewBlueprint()),
		tablewriter.WithRendition(tw.Rendition{Borders: tw.BorderNone, Settings: tw.Settings{
			Separators: tw.SeparatorsNone, Lines: tw.LinesNone,
		}}),
		tablewriter.WithPadding(tw.Padding{Right: "  ", Overwrite: true}),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAlignment(tw.AlignLeft), tablewriter.WithRowAlignment(tw.AlignLeft),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
	}
	if s.width > 0 {
		opts = append(opts, tablewriter.WithMaxWidth(s.width), tablewriter.WithRowAutoWrap(tw.WrapNormal))
	}
	var b strings.Builder
	t := tablewriter.NewTable(&b, opts...)
	upper := make([]string, len(header))
	for i, h := range header {
		upper[i] = strings.ToUpper(h)
	}
	t.Header(upper)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = paint(s, oneLine(redact.Visible(c)))
		}
		if err := t.Append(cells); err != nil {
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

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

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
