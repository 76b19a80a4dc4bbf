package engines

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry/internal/box"
)

const (
	// maxArg keeps one argument below the kernel's 128 KiB, with room for the
	// wrappers that put words of their own around it.
	maxArg = 120 << 10
	// maxArgv keeps all of them far below a quarter of the smallest usual stack.
	maxArgv = 1 << 20
)

// Prompt is the text of a run and the file, as the engine sees it, that holds
// the same text.
type Prompt struct {
	Text string
	File string // "" when there is none
}

// Invocation is a command line with every placeholder filled.
type Invocation struct {
	Args  []string
	Stdin string // the prompt, where it goes by standard input
	// ByStdin reports that; otherwise the engine's standard input is empty.
	ByStdin bool
}

// Invoke fills the args of c for one run. The prompt goes by argument where it
// fits, else by standard input where the CLI can take it, else by {prompt_file}.
func (k Contract) Invoke(c Config, p Prompt, level box.Level) (Invocation, error) {
	if strings.ContainsRune(p.Text, 0) {
		return Invocation{}, errors.New("the prompt holds a NUL byte")
	}
	args := k.arguments(c, level)
	if slices.ContainsFunc(args, usesFile) && p.File == "" {
		return Invocation{}, errors.New("args hold {prompt_file} but the run has no prompt file")
	}
	if filled, ok := fill(args, c, p); ok {
		return Invocation{Args: filled}, nil
	}
	i := slices.Index(args, "{prompt}")
	if k.byStdin == nil || i < 0 {
		return Invocation{}, fmt.Errorf("the prompt of %d bytes does not fit a command line (%d bytes): write {prompt_file} instead of {prompt} in args", len(p.Text), maxArg)
	}
	filled, ok := fill(slices.Replace(args, i, i+1, k.byStdin()...), c, p)
	if !ok {
		return Invocation{}, fmt.Errorf("the prompt of %d bytes does not fit a command line (%d bytes) and args hold {prompt} more than once", len(p.Text), maxArg)
	}
	return Invocation{Args: filled, Stdin: p.Text, ByStdin: true}, nil
}

func usesFile(arg string) bool { return strings.Contains(arg, "{prompt_file}") }

// fill replaces the placeholders in one pass, so that a prompt that holds one is
// left as it is, and reports whether the result fits a command line.
func fill(args []string, c Config, p Prompt) ([]string, bool) {
	r := strings.NewReplacer("{prompt}", p.Text, "{prompt_file}", p.File,
		"{model}", c.Model, "{base_url}", c.BaseURL, "{effort}", c.Effort)
	out := make([]string, len(args))
	total := 0
	for i, a := range args {
		v := r.Replace(a)
		// A prompt alone in an argument must not be read as a flag or as the
		// name of a file to include; a space in front changes nothing else.
		if a == "{prompt}" && v != "" && strings.ContainsRune("-@/", rune(v[0])) {
			v = " " + v
		}
		if total += len(v) + 1; len(v) > maxArg || total > maxArgv {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}
