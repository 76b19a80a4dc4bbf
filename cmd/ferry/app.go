package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry/internal/machine"
	"github.com/ferry-fleet/ferry/internal/redact"
)

// app is what every verb gets: where to write, and the flags that all verbs
// share.
type app struct {
	out, err io.Writer
	system   machine.System
	dir      string // -C
	project  string // --project
	agent    string // --agent, where a verb has it
	json     bool   // --json, where a verb has it
	verbose  bool
	ran      bool // a verb began: what fails from here is no misuse
}

func newApp(out, err io.Writer) *app { return &app{out: out, err: err} }

// now is the one place where a verb reads the clock.
func (a *app) now() time.Time { return time.Now() }

// log gives the logger of a command: quiet unless -v asks for more.
func (a *app) log() *slog.Logger {
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	return a.logTo(level, redact.New(nil))
}

// logTo gives a logger to standard error that shows no secret.
func (a *app) logTo(level slog.Level, red *redact.Redactor) *slog.Logger {
	hide := func(_ []string, at slog.Attr) slog.Attr {
		switch v := at.Value.Resolve(); v.Kind() {
		case slog.KindString:
			at.Value = slog.StringValue(red.String(v.String()))
		case slog.KindAny: // an error, and the level
			if _, is := v.Any().(slog.Level); !is {
				at.Value = slog.StringValue(red.String(fmt.Sprint(v.Any())))
			}
		}
		return at
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level, ReplaceAttr: hide}))
}

// execute runs one command line and gives its exit code.
func (a *app) execute(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if !a.ran {
		err = asMisuse(err)
	}
	a.json = a.json || wantsJSON(args)
	return a.fail(ctx, err)
}

// wantsJSON reports whether the arguments ask for --json, for an error that
// comes before the flags of a verb were read.
func wantsJSON(args []string) bool {
	for _, s := range args {
		switch s {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}

// root builds the whole tree of verbs.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "ferry",
		Short: "orders for coding agents, and commits that were checked",
		Long: `ferry gives orders to coding agents and hands back commits that were checked.

An order goes into the channel, a worker runs an engine on it in a tree and a
sandbox of its own, ferry runs the order's checks again in a clean checkout,
and you review and land the result.`,
		Example: `  ferry enable --email you@example.com --command codex
  ferry agent run &
  ferry channel order --id t-first --task "fix the failing test" --check "go test ./..."
  ferry channel land t-first`,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.ValidateFlagGroups(); err != nil {
				return misuse("give one of them", "%s: %w", cmd.CommandPath(), err)
			}
			a.ran = true
			return nil
		},
		Args: cobra.ArbitraryArgs,
		RunE: a.family,
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.CompletionOptions.DisableDefaultCmd = true
	f := root.PersistentFlags()
	f.StringVarP(&a.dir, "dir", "C", "", "start looking for the project in `DIR`")
	f.StringVar(&a.project, "project", "", "the project called `NAME`, wherever you are")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "log what ferry does to stderr")
	root.AddCommand(
		a.enableCommand(), a.doctorCommand(), a.statusCommand(), a.logCommand(),
		a.agentCommand(), a.channelCommand(), a.pauseCommand(), a.resumeCommand(),
		a.secretCommand(), a.enginesCommand(), a.demoCommand(), a.versionCommand(), a.completionCommand(),
	)
	root.SetHelpCommand(a.helpCommand())
	for _, c := range root.Commands() {
		// A verb that does not exist is named before its flags are.
		c.FParseErrWhitelist.UnknownFlags = c.HasSubCommands()
	}
	return root
}

// helpCommand is `ferry help VERB`, which names the verbs where there is none
// of this name.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [VERB]",
		Short:   "help about any verb",
		Example: `  ferry help channel order`,
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.Root()
			for _, name := range args {
				i := slices.IndexFunc(at.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
				if i < 0 {
					return a.family(at, []string{name})
				}
				at = at.Commands()[i]
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// family is the RunE of a verb that only holds others: it names the verbs
// that exist.
func (a *app) family(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		cmd.SetOut(a.err)
		if err := cmd.Help(); err != nil {
			return err
		}
		return &failure{class: classMisuse, code: 2, quiet: true}
	}
	var verbs []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			verbs = append(verbs, c.Name())
		}
	}
	next := "the verbs are: " + strings.Join(verbs, ", ")
	if best, ok := nearest(args[0], verbs); ok {
		next = "did you mean `" + cmd.CommandPath() + " " + best + "`? " + next
	}
	return misuse(next, "%s %s: there is no such verb", cmd.CommandPath(), args[0])
}

// jsonFlag adds --json to a verb.
func (a *app) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.json, "json", false, "print one JSON object")
}

// environ gives a variable of the environment.
func environ(name string) string { return os.Getenv(name) }
