package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

func (a *app) pauseCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "take nothing new on this machine",
		Long: `Pause keeps the workers of this machine from beginning anything new, in every
project. What runs goes on; "ferry channel interrupt ID pause" stops one order.`,
		Example: `  ferry pause --reason "on battery"`,
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return a.pause(reason) },
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, shown by status and in holds")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) pause(reason string) error {
	s, err := stateDir()
	if err != nil {
		return err
	}
	p, was, err := s.paused()
	if err != nil {
		return fault(classConfig, "`ferry resume` removes it", err)
	}
	if !was {
		p.Since = a.now().UTC()
	}
	if reason != "" || !was {
		p.Reason = reason
	}
	if err := atomicfile.MkdirAll(string(s), 0o700); err != nil {
		return err
	}
	if err := saveJSON(s.pauseFile(), p, 0o600); err != nil {
		return err
	}
	return a.print(pauseShape{Paused: true, Reason: p.Reason, Since: &p.Since}, func(w io.Writer) {
		fmt.Fprintf(w, "paused%s: this machine begins nothing new; `ferry resume` lets it go on\n", because(p.Reason))
	})
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + oneLine(reason) + ")"
}

func (a *app) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume",
		Short:   "end a pause of this machine",
		Example: `  ferry resume`,
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return a.resume() },
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) resume() error {
	s, err := stateDir()
	if err != nil {
		return err
	}
	err = os.Remove(s.pauseFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end the pause: %w", err)
	}
	text := "resumed: this machine takes orders again"
	if err != nil {
		text = "this machine was not paused"
	}
	return a.print(pauseShape{}, func(w io.Writer) { fmt.Fprintln(w, text) })
}
