package ferry

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// Limits of an order, refused when it is issued and ignored by readers when a
// record exceeds them. The text bound is the channel's (64 KiB).
const (
	MaxOrderText   = 64 << 10 // bytes
	MaxOrderList   = 64       // entries of touches, checks, depends_on, tags
	MaxAttempts    = 100
	MaxCheckLength = 4 << 10 // bytes of one check command

	DefaultMaxAttempts = 3
)

// Order is a unit of work, signed, written once. Its identity is its record id.
type Order struct {
	Label         Label      `json:"label"`
	Project       string     `json:"project"`
	Text          string     `json:"text"`
	Kind          string     `json:"kind,omitempty"` // code-change, docs, tests, review, plan, chore, research, ...
	Size          string     `json:"size,omitempty"` // small, medium, large
	Needs         []string   `json:"needs,omitempty"`
	MinContextK   int64      `json:"min_context_k,omitempty"`
	Tier          string     `json:"tier,omitempty"` // judge, build, chore
	Tags          []string   `json:"tags,omitempty"`
	To            AgentName  `json:"to,omitempty"`      // the only agent that may take it
	Touches       []string   `json:"touches,omitempty"` // globs the change must stay inside
	Checks        []string   `json:"checks,omitempty"`  // each run as `sh -c` in a clean checkout
	Require       []string   `json:"require,omitempty"`
	DependsOn     []RecordID `json:"depends_on,omitempty"`
	NeedsReview   bool       `json:"requires_review,omitempty"`
	NeedsApproval bool       `json:"requires_approval,omitempty"`
	Land          bool       `json:"land,omitempty"`   // land by itself once a master accepted it
	Target        string     `json:"target,omitempty"` // branch that it lands on
	Base          Commit     `json:"base"`             // commit the first attempt begins from
	Attachments   []Attached `json:"attachments,omitempty"`
	TimeoutSecs   int64      `json:"timeout_secs,omitempty"`
	CapMicroUSD   int64      `json:"cap_micro_usd,omitempty"`
	MaxAttempts   int64      `json:"max_attempts,omitempty"`
}

// Attached is a file that travels with an order: its name, size in bytes and
// the hex SHA-256 of its content. The content itself is carried in the order
// (Text form) when it is small UTF-8.
type Attached struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Text   string `json:"text"`
}

// Attempts gives how many counted attempts the order allows.
func (o *Order) Attempts() int {
	if o.MaxAttempts <= 0 {
		return DefaultMaxAttempts
	}
	return int(min(o.MaxAttempts, MaxAttempts))
}

// AsksForChange reports whether the order asked for a change of files, so
// that "nothing changed" refutes the result: a check, a list of paths, or a
// kind of work that is made of files.
func (o *Order) AsksForChange() bool {
	if len(o.Checks) > 0 || len(o.Touches) > 0 {
		return true
	}
	switch o.Kind {
	case "code-change", "docs", "tests", "translate", "image", "video", "audio":
		return true
	}
	return false
}

// Kinds lists the kinds of work an order may name, in the order help shows them.
func Kinds() []string {
	return []string{"code-change", "docs", "tests", "review", "plan", "chore", "research", "translate", "transcribe", "image", "video", "audio", "other"}
}

// Check reports what is wrong with an order before it is signed, and again
// when one is read.
func (o *Order) Check() error {
	if _, err := ParseLabel(string(o.Label)); err != nil {
		return err
	}
	if strings.TrimSpace(o.Text) == "" {
		return fmt.Errorf("order %s: the text is empty; say what is to be done with --task or --task-file", o.Label)
	}
	if len(o.Text) > MaxOrderText {
		return fmt.Errorf("order %s: the text has %d bytes, the limit is %d; put long material into a file of the repository or --attach it", o.Label, len(o.Text), MaxOrderText)
	}
	if !utf8.ValidString(o.Text) || strings.ContainsRune(o.Text, 0) {
		return fmt.Errorf("order %s: the text is not valid UTF-8 without NUL; save it as UTF-8", o.Label)
	}
	if o.Base != "" {
		if _, err := ParseCommit(string(o.Base)); err != nil {
			return fmt.Errorf("order %s: base: %w", o.Label, err)
		}
	}
	if o.To != "" {
		if _, err := ParseAgentName(string(o.To)); err != nil {
			return fmt.Errorf("order %s: to: %w", o.Label, err)
		}
	}
	if o.MaxAttempts < 0 || o.MaxAttempts > MaxAttempts {
		return fmt.Errorf("order %s: max attempts %d: want 1 to %d", o.Label, o.MaxAttempts, MaxAttempts)
	}
	if o.TimeoutSecs < 0 || o.CapMicroUSD < 0 || o.MinContextK < 0 {
		return fmt.Errorf("order %s: timeout, cap and context cannot be negative", o.Label)
	}
	if err := oneOf(o.Label, "kind", o.Kind, Kinds()); err != nil {
		return err
	}
	if err := oneOf(o.Label, "size", o.Size, []string{"small", "medium", "large"}); err != nil {
		return err
	}
	if err := oneOf(o.Label, "tier", o.Tier, []string{"judge", "build", "chore"}); err != nil {
		return err
	}
	return o.checkLists()
}

func (o *Order) checkLists() error {
	lists := []struct {
		name    string
		entries []string
		most    int
	}{
		{"touches", o.Touches, 512}, {"checks", o.Checks, MaxCheckLength}, {"needs", o.Needs, 64},
		{"tags", o.Tags, 64}, {"require", o.Require, 256},
	}
	for _, l := range lists {
		if len(l.entries) > MaxOrderList {
			return fmt.Errorf("order %s: %d entries in %s, the limit is %d", o.Label, len(l.entries), l.name, MaxOrderList)
		}
		for _, e := range l.entries {
			if strings.TrimSpace(e) == "" || len(e) > l.most || !utf8.ValidString(e) || strings.ContainsRune(e, 0) {
				return fmt.Errorf("order %s: %s %q: want 1 to %d bytes of text", o.Label, l.name, clip(e), l.most)
			}
		}
	}
	for _, glob := range o.Touches {
		if why := badGlob(glob); why != "" {
			return fmt.Errorf("order %s: touches %q: %s; want a glob of paths in the repository, like docs/**", o.Label, clip(glob), why)
		}
	}
	if len(o.DependsOn) > MaxOrderList {
		return fmt.Errorf("order %s: %d dependencies, the limit is %d", o.Label, len(o.DependsOn), MaxOrderList)
	}
	return nil
}

// badGlob gives why no path of a repository can match a glob, or "".
func badGlob(glob string) string {
	glob = strings.TrimSpace(glob)
	switch {
	case strings.HasPrefix(glob, "/"):
		return "it is an absolute path"
	case slices.Contains(strings.Split(glob, "/"), ".."):
		return "it leaves the repository"
	case !doublestar.ValidatePattern(glob):
		return "a bracket or brace in it is not closed, or it ends in a backslash"
	}
	return ""
}

func oneOf(l Label, what, got string, want []string) error {
	if got == "" {
		return nil
	}
	for _, w := range want {
		if got == w {
			return nil
		}
	}
	return fmt.Errorf("order %s: %s %q: want one of %s", l, what, clip(got), strings.Join(want, ", "))
}
