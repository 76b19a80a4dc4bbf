package engines

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry/internal/box"
)

// Contract is what ferry knows about an agent CLI: how it is run without a
// person, what it needs, and how it reports.
type Contract struct {
	// Name is the file name of the command, or "generic".
	Name string
	// Args is what enable writes into agent.toml.
	Args []string
	// Warning is what enable tells about this contract, or "".
	Warning string
	// Bypass makes the CLI ask nobody. It is added only inside a box.
	Bypass    []string
	BypassEnv map[string]string
	// BypassNote says in one line what Bypass grants.
	BypassNote string
	// Env is set for every run.
	Env map[string]string
	// Names are passed through from the worker's environment; HomeNames only
	// where the engine sees the person's home.
	Names     []string
	HomeNames []string
	// Login are the files of the CLI's login and settings, relative to the home
	// directory. Those that exist are shown to the engine as private copies.
	Login []string

	// api is the endpoint that the CLI takes from a variable.
	api api

	// options are added where the args have none of their flags.
	options []option
	// after is the argument that options follow; "" is the front.
	after string
	// byStdin is what stands for {prompt} when the prompt goes by stdin; nil
	// where the CLI cannot take it there.
	byStdin func() []string
	parser  func() parser
}

// api is where a CLI asks unless a variable names another place, and the variable
// of the key that it has there.
type api struct{ base, variable, key string }

// option is a flag with the arguments that set it.
type option struct {
	flags []string // any of these means that the person has decided
	args  []string
}

// Contracts returns the known CLIs, sorted by name.
func Contracts() []Contract {
	return []Contract{claude(), codex(), pi()}
}

// ContractOf returns the contract of a command by its file name. An unknown
// command gets the generic contract, whose Warning says what to check.
func ContractOf(command string) Contract {
	name := strings.TrimSuffix(filepath.Base(command), ".exe")
	for _, k := range Contracts() {
		if k.Name == name {
			return k
		}
	}
	return generic(name)
}

func generic(name string) Contract {
	return Contract{
		Name: "generic",
		Args: []string{"-p", "{prompt}"},
		Warning: name + ` is not a CLI that ferry knows: args = ["-p", "{prompt}"] is a guess and almost certainly wrong. ` +
			"Write its non-interactive form, with its approval flag if you accept what that grants; tokens and cost are not read from it",
		parser: func() parser { return &textParser{} },
	}
}

// Known reports whether k is the contract of a known CLI.
func (k Contract) Known() bool { return k.Name != "generic" }

// bypasses reports whether the approval bypass is added to a run.
func (k Contract) bypasses(c Config, level box.Level) bool {
	return c.Bypass && level != box.LevelNone && len(k.Bypass) > 0
}

// arguments returns the args of a run with the contract's options in place; the
// placeholders are still there.
func (k Contract) arguments(c Config, level box.Level) []string {
	args := c.Args
	if len(args) == 0 {
		args = k.Args
	}
	at := 0
	if k.after != "" {
		// Without its subcommand this is a command line of the person's own.
		at = slices.Index(args, k.after) + 1
		if at == 0 {
			return slices.Clone(args)
		}
	}
	var extra []string
	options := k.options
	if k.bypasses(c, level) {
		options = append(slices.Clone(options), option{flags: k.Bypass[:1], args: k.Bypass})
	}
	for _, o := range options {
		if !slices.ContainsFunc(args, o.in) {
			extra = append(extra, o.args...)
		}
	}
	return slices.Insert(slices.Clone(args), at, extra...)
}

func (o option) in(arg string) bool {
	flag, _, _ := strings.Cut(arg, "=")
	return slices.Contains(o.flags, flag)
}
