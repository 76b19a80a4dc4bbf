package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/cli.md")

// TestCLIDoc compares docs/cli.md with what the commands say of themselves.
func TestCLIDoc(t *testing.T) {
	const path = "../../docs/cli.md"
	want := cliDoc(newApp(os.Stdout, os.Stderr).root())
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/cli.md is stale; run `go test ./cmd/ferry -run TestCLIDoc -update` (-want +got):\n%s", diff)
	}
}

// TestEveryVerbHasAnExample keeps the promise of --help.
func TestEveryVerbHasAnExample(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Example == "" || c.Short == "" {
			t.Errorf("%s: example %q, short %q", c.CommandPath(), c.Example, c.Short)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newApp(os.Stdout, os.Stderr).root())
}

// cliDoc writes one section for each verb.
func cliDoc(root *cobra.Command) string {
	var b bytes.Buffer
	b.WriteString(`# The command line

This page is made from the commands themselves: ` + "`go test ./cmd/ferry -run TestCLIDoc -update`" + `.

A project is found by walking up from the current directory; ` + "`-C DIR`" + ` says where to start, ` + "`--project NAME`" + `
picks one of this machine. An order is named by its label or by the first digits of its id. Exit codes: 0 done,
1 not done, 2 misuse, 130 interrupted. With ` + "`--json`" + ` the answer is one JSON object on standard output, and a
failure is ` + "`" + `{"error": {"class", "message", "next"}}` + "`" + `.

Flags of every verb:

` + "```\n" + root.PersistentFlags().FlagUsages() + "```\n")
	verbDoc(&b, root)
	return b.String()
}

func verbDoc(b *bytes.Buffer, c *cobra.Command) {
	if c.HasParent() {
		fmt.Fprintf(b, "\n## %s\n\n%s\n", c.CommandPath(), sentence(c))
		if c.Runnable() && !c.HasSubCommands() {
			fmt.Fprintf(b, "\n```\n%s\n```\n", strings.TrimSuffix(c.UseLine(), " [flags]"))
		}
		if flags := ownFlags(c); flags != "" {
			fmt.Fprintf(b, "\n```\n%s```\n", flags)
		}
		fmt.Fprintf(b, "\nExample:\n\n```\n%s\n```\n", c.Example)
	}
	for _, sub := range c.Commands() {
		if sub.Name() != "help" {
			verbDoc(b, sub)
		}
	}
}

func sentence(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
}

func ownFlags(c *cobra.Command) string {
	own := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			own.AddFlag(f)
		}
	})
	return own.FlagUsages()
}
