package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// Spec says what to measure of a change.
type Spec struct {
	Gate     *worktree.Gate
	Repo     *gitfacts.Repo // of the gate
	Order    *ferry.Order
	Base     ferry.Commit // the order's base: the diff is Base..Commit
	From     ferry.Commit // where the attempt began
	Commit   ferry.Commit
	Skipped  []string // what the snapshot left out
	Denied   []string // edits that the engine refused itself
	Redactor *redact.Redactor
	Checks   ChecksSpec // Gate, Commands, Commit and Redactor are filled in
}

// Findings are the measured fields of a result.
type Findings struct {
	Base, From, Commit, Tree ferry.Commit
	Content                  string
	Files                    []ferry.File
	FilesTotal               int64
	Checks                   []ferry.Check
	Facts                    ferry.Facts
}

// Fill writes the findings into a result.
func (f *Findings) Fill(r *ferry.Result) {
	r.Base, r.From, r.Commit, r.Tree, r.Content = f.Base, f.From, f.Commit, f.Tree, f.Content
	r.Files, r.FilesTotal, r.Checks, r.Facts = f.Files, f.FilesTotal, f.Checks, f.Facts
}

// Bounds of a measurement. What exceeds them is left out and said by Facts.Cut.
const (
	maxFiles     = 20000     // changed files looked at
	maxPathBytes = 64 << 10  // bytes of all paths that a record lists
	maxFacts     = 50        // entries of each list of facts
	maxFact      = 400       // bytes of one entry
	maxFile      = 100 << 20 // bytes of one file that may land
	maxScan      = 64 << 20  // bytes of all blobs searched for secrets
	maxScanFile  = 8 << 20   // bytes of one blob searched for secrets
)

// Collect measures a change and runs the order's checks on it. Where nothing
// changed no check runs: there is nothing that one could say of the change.
func Collect(ctx context.Context, s Spec) (Findings, error) {
	f, err := Measure(ctx, s)
	if err != nil || f.FilesTotal == 0 || len(s.Order.Checks) == 0 {
		return f, err
	}
	c := s.Checks
	c.Gate, c.Commands, c.Commit = s.Gate, s.Order.Checks, s.Commit
	if c.Redactor == nil {
		c.Redactor = s.Redactor
	}
	f.Checks, err = RunChecks(ctx, c)
	return f, err
}

// Measure reads the change from git, without running anything: files, tree,
// digest and facts. Landing calls it again and compares. A context that ends
// is an error at once, however much there is to read.
func Measure(ctx context.Context, s Spec) (Findings, error) {
	f := Findings{Base: s.Base, From: s.From, Commit: s.Commit}
	files, cut, err := s.Repo.Changes(ctx, s.Base, s.Commit, maxFiles)
	if err != nil {
		return f, fmt.Errorf("measure %s: %w", s.Commit.Short(), err)
	}
	if f.Tree, err = s.Repo.Tree(s.Commit); err != nil {
		return f, fmt.Errorf("measure %s: %w", s.Commit.Short(), err)
	}
	if f.Content, err = s.Repo.Content256(ctx, s.Base, s.Commit); err != nil {
		return f, fmt.Errorf("measure %s: %w", s.Commit.Short(), err)
	}
	bad, err := s.badEntries(ctx)
	if err != nil {
		return f, fmt.Errorf("measure %s: %w", s.Commit.Short(), err)
	}
	secrets, missed, err := s.secrets(ctx, files)
	if err != nil {
		return f, fmt.Errorf("measure %s: %w", s.Commit.Short(), err)
	}
	f.FilesTotal = int64(len(files))
	f.Facts.Cut = cut || missed
	red := s.redactor()
	f.Files = f.listed(files, red)
	for list, from := range map[*[]string][]string{
		&f.Facts.Outside: Outside(s.Order.Touches, files), &f.Facts.CheckEdit: CheckInputs(s.Order, files), &f.Facts.BadPaths: bad,
		&f.Facts.Skipped: s.Skipped, &f.Facts.Secrets: secrets, &f.Facts.Denied: s.Denied,
	} {
		*list = f.facts(from, red)
	}
	return f, nil
}

// badEntries gives "path: why" for every changed path that may not land.
func (s Spec) badEntries(ctx context.Context) ([]string, error) {
	bad, err := s.Repo.BadEntries(ctx, s.Base, s.Commit, maxFile)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, b := range bad {
		out = append(out, b.Path+": "+b.Why)
	}
	return out, nil
}

// listed bounds the list of files of a record, and makes its paths valid text without secrets.
func (f *Findings) listed(files []ferry.File, red *redact.Redactor) []ferry.File {
	var out []ferry.File
	bytes := 0
	for _, file := range files {
		bytes += len(file.Path)
		if len(out) == ferry.MaxResultFiles || bytes > maxPathBytes {
			f.Facts.Cut = true
			break
		}
		file.Path = strings.ToValidUTF8(red.String(file.Path), "�")
		out = append(out, file)
	}
	return out
}

// facts bounds one list of facts.
func (f *Findings) facts(list []string, red *redact.Redactor) []string {
	if len(list) > maxFacts {
		f.Facts.Cut = true
		list = list[:maxFacts]
	}
	var out []string
	for _, s := range list {
		out = append(out, line(red.String(s)))
	}
	return out
}

// line makes one visible line of a path, or of "path: why", that others chose.
// What is too long is cut in the path: the reason stays. A line is its own line.
func line(s string) string {
	s = redact.Visible(strings.ToValidUTF8(s, "�"))
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\n", `\n`), "\t", `\t`)
	if len(s) <= maxFact {
		return s
	}
	const gap = "…"
	why := ""
	if i := strings.LastIndex(s, ": "); i >= 0 && len(s)-i <= maxFact/2 {
		why = s[i:]
	}
	cut := maxFact - len(why) - len(gap)
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + gap + why
}

// secrets searches what the change adds, the names of its files too, and reports whether something was
// too large to be searched. A value that the old file held already is not
// added by the change.
func (s Spec) secrets(ctx context.Context, files []ferry.File) (found []string, missed bool, err error) {
	red := s.redactor()
	var total int64
	for _, file := range files {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		if file.NewBlob == "" || file.NewBlob == file.OldBlob || isGitlink(file) {
			continue
		}
		for _, kind := range added(red.Find(file.Path), file.Path, "") {
			found = append(found, red.String(file.Path)+": "+kind+" in the name of the file")
		}
		text, err := s.Repo.Blob(file.NewBlob, maxScanFile)
		if errors.Is(err, gitfacts.ErrTooLarge) || total+int64(len(text)) > maxScan {
			missed = true
			continue
		}
		if err != nil {
			return nil, false, err
		}
		total += int64(len(text))
		hits := red.Find(string(text))
		if len(hits) == 0 {
			continue
		}
		old := ""
		if file.OldBlob != "" {
			b, err := s.Repo.Blob(file.OldBlob, maxScanFile)
			if err != nil && !errors.Is(err, gitfacts.ErrTooLarge) {
				return nil, false, err
			}
			old = string(b)
		}
		for _, kind := range added(hits, string(text), old) {
			found = append(found, red.String(file.Path)+": "+kind)
		}
	}
	return found, missed, nil
}

func (s Spec) redactor() *redact.Redactor {
	if s.Redactor == nil {
		return redact.New(nil)
	}
	return s.Redactor
}

// added gives the kinds of hits whose text the old file did not hold.
func added(hits []redact.Hit, text, old string) []string {
	var kinds []string
	for _, h := range hits {
		if !strings.Contains(old, text[h.Start:h.End]) && !slices.Contains(kinds, h.Kind) {
			kinds = append(kinds, h.Kind)
		}
	}
	return kinds
}
