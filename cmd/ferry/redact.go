package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// redactFlags are the flags of `channel redact`, as typed.
type redactFlags struct {
	pattern, reason string
	stdin, dry      bool
}

func (a *app) redactCommand() *cobra.Command {
	var f redactFlags
	cmd := &cobra.Command{
		Use:   "redact RECORD|ORDER",
		Short: "take a secret out of the records",
		Long: `Redact finds a text in one record, or in all records about an order, and puts
` + redactMark + ` in its place on every machine. Only the master can. The text is asked for, or
read with --stdin; as an argument it would be seen by others and kept by the shell.

Of an order, a verdict and a landing only the texts can change; a statement of who
may do what cannot be redacted.

What was signed goes from the store, the index and the own files of every machine when
the redaction comes to it, and from new archives. It stays on machines that are off until
they are back, in copies that the carrier or a backup keeps, in older archives, in commits,
those that ferry pushed too, and in the logs of runs; the files of runs on this machine
that hold the text are listed, commits are not. Whoever had the folder may have read the secret: change it too.`,
		Example: `  ferry channel redact t-first --reason "a token in the order" --dry-run
  pass show api-token | ferry channel redact t-first --stdin --reason "a token"
  ferry channel redact 3f2a9c01 --pattern 'AKIA[0-9A-Z]{16}' --reason "a key id"`,
		Args: exactly("RECORD or ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.redact(cmd.Context(), args[0], f, cmd.InOrStdin())
		},
	}
	s := cmd.Flags()
	s.BoolVar(&f.stdin, "stdin", false, "read the text from standard input, without its last line feed")
	s.StringVar(&f.pattern, "pattern", "", "take out what a regular expression `REGEXP` finds")
	s.StringVar(&f.reason, "reason", "", "why, kept in the ledger")
	s.BoolVar(&f.dry, "dry-run", false, "only show what would change")
	cmd.MarkFlagsMutuallyExclusive("stdin", "pattern")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedName() == "text" {
			return misuse("give it to --stdin, or let ferry ask for it", "--text: arguments are seen by others and kept by the shell")
		}
		return err
	})
	a.jsonFlag(cmd)
	return cmd
}

const (
	redactMark    = "[redacted]"
	minRedact     = 4        // bytes: a shorter text is found everywhere
	maxRedact     = 64 << 10 // bytes of the text
	maxRedactions = 96 << 10 // bytes of bodies in one record
)

// redactedShape answers redact.
type redactedShape struct {
	DryRun  bool             `json:"dry_run"`
	Records []redactedRecord `json:"records"`
	Written []string         `json:"written"` // ids of the redactions
	Files   []string         `json:"files"`   // of runs on this machine that hold the text
}

// redactedRecord is one record that holds the text.
type redactedRecord struct {
	ID     string   `json:"id"`
	Type   string   `json:"type"`
	Writer string   `json:"writer"`
	Fields []string `json:"fields"` // that change
	Stays  []string `json:"stays"`  // fields that hold the text and cannot change

	id   ferry.RecordID
	body ferry.Body
}

func (a *app) redact(ctx context.Context, ref string, f redactFlags, in io.Reader) error {
	find, err := a.redactText(f, in)
	if err != nil {
		return err
	}
	if strings.TrimSpace(f.reason) == "" || find.MatchString(f.reason) {
		return misuse("say why with --reason, without the text itself", "redact %s: the reason is missing, or holds the text", clip(ref, 64))
	}
	if err := checkNotes(f.reason); err != nil {
		return err
	}
	return a.with(ctx, func(p *project) error {
		w, err := p.masterWriter(ctx)
		if err != nil {
			return err
		}
		shape, err := p.redactions(ctx, ref, find)
		if err != nil {
			return err
		}
		if shape.DryRun = f.dry; !f.dry {
			if err := p.redact(ctx, w, f.reason, &shape); err != nil {
				return err
			}
			if err := p.takeOut(ctx); err != nil {
				return err
			}
		}
		shape.Files = p.runFiles(find)
		if err := a.print(shape, func(w io.Writer) { a.redactedText(w, &shape) }); err != nil {
			return err
		}
		if slices.ContainsFunc(shape.Records, func(r redactedRecord) bool { return len(r.Stays) > 0 }) {
			return &failure{class: classRefused, code: 1, quiet: true}
		}
		return nil
	})
}

// redactText gives what is searched for, and refuses what would be found everywhere.
func (a *app) redactText(f redactFlags, in io.Reader) (*regexp.Regexp, error) {
	if f.pattern != "" {
		re, err := regexp.Compile(f.pattern)
		if err != nil {
			return nil, misuse("see `go doc regexp/syntax`", "--pattern: %w", err)
		}
		if re.MatchString("") {
			return nil, misuse("let it match one character at least", "--pattern: it fits an empty text, so it would be found everywhere")
		}
		return re, nil
	}
	text, err := a.secretText(f, in)
	if err != nil {
		return nil, err
	}
	if len(text) < minRedact {
		return nil, misuse(fmt.Sprintf("give %d bytes at least, or use --pattern", minRedact), "redact: a text of %d bytes would be found everywhere", len(text))
	}
	return regexp.Compile(regexp.QuoteMeta(text))
}

// secretText reads the text without showing it.
func (a *app) secretText(f redactFlags, in io.Reader) (string, error) {
	if f.stdin {
		text, err := readText("-", in, maxRedact, "use --pattern for a part of it")
		return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), err
	}
	file, ok := in.(*os.File)
	if !ok || !a.talks(in) {
		return "", misuse("give it to --stdin, or name a --pattern", "redact: there is no terminal to ask for the text on")
	}
	return a.askHidden(file, "the text to take out (it is not shown): ")
}

// masterWriter gives the person's writer if that is the master's.
func (p *project) masterWriter(ctx context.Context) (*channel.Writer, error) {
	w, err := p.operator()
	if err != nil {
		return nil, err
	}
	master, err := p.channel.Master(ctx)
	if err == nil && master.Writer != w.ID() {
		err = faultf(classRefused, fmt.Sprintf("%s does it on %s", master.Name, master.Machine), "redact: only the master can, and you are not")
	}
	return w, err
}

// redactions finds the records that hold the text, and how they would read.
func (p *project) redactions(ctx context.Context, ref string, find *regexp.Regexp) (redactedShape, error) {
	shape := redactedShape{Records: []redactedRecord{}, Written: []string{}, Files: []string{}}
	entries, err := p.redactable(ctx, ref)
	if err != nil {
		return shape, err
	}
	members, err := p.people(ctx)
	if err != nil {
		return shape, err
	}
	change := false
	for _, e := range entries {
		if e.Body == nil {
			continue
		}
		r := redactedRecord{ID: e.ID.String(), Type: string(e.Type), Writer: name(members, e.Writer), Fields: []string{}, Stays: []string{}, id: e.ID}
		if err := p.strikeAll(ctx, &r, e.Body, find); err != nil {
			return shape, err
		}
		if len(r.Fields)+len(r.Stays) > 0 {
			shape.Records = append(shape.Records, r)
			change = change || len(r.Fields) > 0
		}
	}
	switch {
	case len(shape.Records) == 0:
		err = faultf(classNotFound, "`ferry channel log` lists the records; a redaction is not undone by another", "redact %s: the text is not in it", clip(ref, 64))
	case !change:
		r := shape.Records[0]
		err = faultf(classRefused, "cancel the order and issue another; change the secret", "redact %s: the text is in %s of the %s %s, which cannot be redacted",
			clip(ref, 64), strings.Join(r.Stays, ", "), r.Type, r.ID[:8])
	}
	return shape, err
}

// redactable gives the records that a reference means: all about an order, or one.
func (p *project) redactable(ctx context.Context, ref string) ([]channel.Entry, error) {
	t, err := p.channel.Task(ctx, ref)
	if err == nil {
		return p.channel.Records(ctx, t.ID)
	}
	if !errors.Is(err, channel.ErrNoOrder) {
		return nil, err
	}
	found, err := p.channel.Named(ctx, ref)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, faultf(classNotFound, "`ferry channel log` lists the records, `ferry channel tasks` the orders", "redact %s: there is no such record and no such order", clip(ref, 64))
	case len(found) > 1:
		return nil, faultf(classAmbiguous, "give more of the id", "redact %s: %d records begin like this", clip(ref, 64), len(found))
	}
	return found, nil
}

// strikeAll takes the text out of every field of a record that may change.
func (p *project) strikeAll(ctx context.Context, r *redactedRecord, b ferry.Body, find *regexp.Regexp) error {
	fields, _, err := strike(b, find, func(string) bool { return false })
	if err != nil {
		return fmt.Errorf("redact record %s: %w", r.ID[:8], err)
	}
	for _, field := range fields {
		_, alone, err := strike(b, find, func(f string) bool { return f == field })
		if err == nil {
			err = p.channel.Replaces(ctx, r.id, alone)
		}
		if err != nil {
			r.Stays = append(r.Stays, field)
			continue
		}
		r.Fields = append(r.Fields, field)
	}
	if len(r.Fields) > 0 {
		_, r.body, err = strike(b, find, func(f string) bool { return slices.Contains(r.Fields, f) })
	}
	return err
}

// redact writes the redactions: one record, or a few where they are large.
func (p *project) redact(ctx context.Context, w *channel.Writer, reason string, shape *redactedShape) error {
	reason, err := p.note(reason)
	if err != nil {
		return err
	}
	bodies, size := map[ferry.RecordID]ferry.Body{}, 0
	flush := func() error {
		if len(bodies) == 0 {
			return nil
		}
		id, err := w.Redact(ctx, p.app.now(), reason, bodies)
		if err := p.app.published(err); err != nil {
			return err
		}
		shape.Written = append(shape.Written, id.String())
		bodies, size = map[ferry.RecordID]ferry.Body{}, 0
		return nil
	}
	for _, r := range shape.Records {
		if r.body == nil {
			continue
		}
		text, err := sign.EncodeJSON(r.body)
		if err != nil {
			return err
		}
		if size+len(text) > maxRedactions {
			if err := flush(); err != nil {
				return err
			}
		}
		bodies[r.id], size = r.body, size+len(text)
	}
	return flush()
}

func (a *app) redactedText(w io.Writer, s *redactedShape) {
	for _, r := range s.Records {
		if len(r.Fields) > 0 {
			fmt.Fprintf(w, "%s %s by %s: %s\n", r.ID[:8], r.Type, r.Writer, strings.Join(r.Fields, ", "))
		}
		if len(r.Stays) > 0 {
			fmt.Fprintf(w, "%s %s by %s: stays in %s, which cannot be redacted\n", r.ID[:8], r.Type, r.Writer, strings.Join(r.Stays, ", "))
		}
	}
	for _, file := range s.Files {
		fmt.Fprintf(w, "not a record, and stays as it is: %s\n", file)
	}
	if s.DryRun {
		fmt.Fprintln(w, "nothing was written; without --dry-run these read "+redactMark)
		return
	}
	fmt.Fprintln(w, "what was signed is gone from the store and the files of this machine, and goes from others when this comes to them")
	fmt.Fprintln(w, "next: change the secret; whoever had the folder may have read it")
}

// strike gives the fields of a body in which the text is, and the body with the text
// taken out of those that change names.
func strike(b ferry.Body, find *regexp.Regexp, change func(field string) bool) (fields []string, out ferry.Body, err error) {
	text, err := json.Marshal(b)
	if err != nil {
		return nil, nil, err
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, nil, err
	}
	tree = strikeIn(tree, "", func(field, s string) string {
		if !find.MatchString(s) {
			return s
		}
		fields = append(fields, field)
		if !change(field) {
			return s
		}
		return find.ReplaceAllLiteralString(s, redactMark)
	})
	if text, err = json.Marshal(tree); err != nil {
		return nil, nil, err
	}
	if out = ferry.New(b.Type()); out == nil {
		return nil, b, nil
	}
	return fields, out, json.Unmarshal(text, out)
}

// strikeIn passes every text of a JSON value through f, in a fixed order.
func strikeIn(v any, at string, f func(field, s string) string) any {
	switch v := v.(type) {
	case string:
		return f(at, v)
	case []any:
		for i := range v {
			v[i] = strikeIn(v[i], fmt.Sprintf("%s[%d]", at, i), f)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			v[k] = strikeIn(v[k], strings.TrimPrefix(at+"."+k, "."), f)
		}
	}
	return v
}
