package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "which ferry this is",
		Example: `  ferry version --json`,
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			v := version()
			return a.print(v, func(w io.Writer) {
				fmt.Fprintf(w, "ferry %s", v.Version)
				if v.Commit != "" {
					fmt.Fprintf(w, " (%s)", v.Commit[:min(12, len(v.Commit))])
				}
				fmt.Fprintf(w, " %s %s/%s\n", v.Go, v.OS, v.Arch)
			})
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

// version reads what the build recorded in the program.
func version() versionShape {
	v := versionShape{Version: "devel", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "completion bash|zsh|fish|powershell",
		Short:                 "print a completion script for a shell",
		Example:               `  source <(ferry completion bash)`,
		DisableFlagsInUseLine: true,
		ValidArgs:             []string{"bash", "zsh", "fish", "powershell"},
		Args:                  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(a.out)
			}
		},
	}
}
