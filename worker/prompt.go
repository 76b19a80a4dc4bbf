package worker

import (
	"fmt"
	"strings"

	"github.com/ferry-fleet/ferry"
)

// prompt gives the text that the engine is started with. What a person or a
// check said about earlier attempts comes after the order, never instead of it.
func prompt(t *ferry.Task, from ferry.Commit, notes []string, attachments string) string {
	o := t.Order
	var b strings.Builder
	b.WriteString(strings.TrimRight(o.Text, "\n"))
	b.WriteString("\n\n---\n")
	b.WriteString("You work alone and nobody can answer questions: decide for yourself and finish the work.\n")
	b.WriteString("The current directory is a git worktree made for this order. Edit the files in it; you need not commit. " +
		"Nothing outside it is kept.\n")
	if len(o.Touches) > 0 {
		fmt.Fprintf(&b, "Change only files that match: %s. A change elsewhere voids the work.\n", strings.Join(o.Touches, ", "))
	}
	if len(o.Checks) > 0 {
		b.WriteString("When you have finished, these commands are run again in a clean checkout of your work and must all succeed:\n")
		for _, c := range o.Checks {
			fmt.Fprintf(&b, "    %s\n", c)
		}
	}
	if len(o.Attachments) > 0 {
		fmt.Fprintf(&b, "Files that came with the order (read-only): ")
		for i, a := range o.Attachments {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(attachments + "/" + a.Name)
		}
		b.WriteString("\n")
	}
	if from != o.Base {
		b.WriteString("\nThe directory holds what an earlier attempt left: go on from there.\n")
	}
	if len(notes) > 0 {
		b.WriteString("\nYou are also told:\n")
		for _, n := range notes {
			fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(strings.TrimSpace(n), "\n", "\n  "))
		}
	}
	return b.String()
}

// commitMessage gives the message of the one commit of a run.
func commitMessage(t *ferry.Task, j *Journal) string {
	return fmt.Sprintf("%s: %s\n\nFerry-Order: %s\nFerry-Attempt: %d\nFerry-Run: %s\nFerry-Engine: %s\n",
		t.Order.Label, headline(t.Order.Text), t.ID, j.Attempt, j.Run, j.Engine)
}

// headline gives the first line of a text, cut to what fits a subject.
func headline(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	runes := []rune(line)
	if len(runes) > 60 {
		return strings.TrimSpace(string(runes[:59])) + "…"
	}
	return line
}
