package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry/internal/redact"
)

// The classes of a failure, as `--json` shows them.
const (
	classMisuse      = "misuse"
	classConfig      = "config"
	classNoProject   = "no-project"
	classNotFound    = "not-found"
	classAmbiguous   = "ambiguous"
	classRefused     = "refused"
	classRepository  = "repository"
	classChannel     = "channel"
	classKey         = "key"
	classEngine      = "engine"
	classSandbox     = "sandbox"
	classNotReady    = "not-ready"
	classInterrupted = "interrupted"
	classFailed      = "failed"
)

// failure is an error with what a person needs: what was attempted and why it
// did not happen (err), and what to do about it (next).
type failure struct {
	class string
	err   error
	next  string
	code  int
	quiet bool // the verb has already said everything
}

// Error gives what and why.
func (f *failure) Error() string {
	if f.err == nil {
		return f.class
	}
	return f.err.Error()
}

// Unwrap gives the cause.
func (f *failure) Unwrap() error { return f.err }

// fault makes a failure with exit code 1.
func fault(class, next string, err error) error {
	return &failure{class: class, err: err, next: next, code: 1}
}

// faultf is fault with a formatted message.
func faultf(class, next, format string, args ...any) error {
	return fault(class, next, fmt.Errorf(format, args...))
}

// misuse makes a failure with exit code 2.
func misuse(next, format string, args ...any) error {
	return &failure{class: classMisuse, err: fmt.Errorf(format, args...), next: next, code: 2}
}

// asMisuse marks what cobra refused before a verb began.
func asMisuse(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return err
	}
	return &failure{class: classMisuse, err: err, next: "`ferry help` and `ferry VERB --help` show what there is", code: 2}
}

// fail says what went wrong and gives the exit code.
func (a *app) fail(ctx context.Context, err error) int {
	f := explain(ctx, err)
	if f.quiet {
		return f.code
	}
	if a.json {
		shape := errorShape{}
		shape.Error.Class, shape.Error.Message, shape.Error.Next = f.class, f.Error(), f.next
		if err := writeJSON(a.out, shape); err != nil {
			return f.code
		}
	}
	fmt.Fprintf(a.err, "ferry: %s\n", further(f.Error()))
	if f.next != "" {
		fmt.Fprintf(a.err, "  next: %s\n", further(f.next))
	}
	return f.code
}

// further puts the lines after the first further in, so that a name in an
// error cannot look like a line of ferry's own.
func further(s string) string {
	return strings.NewReplacer("\n", "\n      ", "\t", "  ").Replace(strings.TrimRight(redact.Visible(s), "\n"))
}

// explain turns any error into a failure.
func explain(ctx context.Context, err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return &failure{class: classInterrupted, err: errors.New("interrupted"), code: 130}
	}
	class, next := known(err)
	return &failure{class: class, err: err, next: next, code: 1}
}

// print writes one value: as JSON when asked, else with text.
func (a *app) print(v any, text func(w io.Writer)) error {
	if a.json {
		return writeJSON(a.out, v)
	}
	var b strings.Builder
	text(&b)
	if _, err := io.WriteString(a.out, b.String()); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// warn writes one line for the person to stderr.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintln(a.err, "ferry: "+further(fmt.Sprintf(format, args...)))
}

// patience is how long something may take before ferry says that it is busy.
const patience = 2 * time.Second

// busy says on stderr what takes so long, once it takes longer than a person
// waits without a word. The function that it returns ends the watch.
func (a *app) busy(what string) (done func()) {
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-stop:
		case <-t.C:
			a.warn("%s …", what)
		}
	}()
	return func() { close(stop); <-ended }
}
