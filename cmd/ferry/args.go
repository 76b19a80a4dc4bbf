package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// exactly wants these arguments, no more and no fewer.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return misuse("usage: "+cmd.UseLine(), "%s: %s is missing", cmd.CommandPath(), strings.Join(names[len(args):], " and "))
		}
		return atMost(len(names))(cmd, args)
	}
}

// atMost wants no more than n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return misuse("usage: "+cmd.UseLine(), "%s: %q is too much", cmd.CommandPath(), clip(args[n], 64))
		}
		return nil
	}
}
