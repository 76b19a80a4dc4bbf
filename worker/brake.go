package worker

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
)

// maxGivenBack is how often in a row an order may be given back before a
// person is asked: what failed three times does not mend itself.
const maxGivenBack = 3

// brake finds the limit that an order has run into, as the question that is
// asked once about it, or nil.
func brake(t *ferry.Task) *ferry.Question {
	if limit := allowance(t); limit > 0 {
		if spent := t.Usage().CostMicroUSD; spent >= limit {
			return ask(t, fmt.Sprintf(capKey+"%d", len(t.Attempts)), fmt.Sprintf("%s has spent $%s of the $%s it may cost. Spend as much as its cap on it again?",
				t.Order.Label, dollars(spent), dollars(limit)))
		}
	}
	if n := givenBack(t); n >= maxGivenBack {
		last := t.Attempts[len(t.Attempts)-1]
		return ask(t, "given-back-"+last.StopID.Short(), fmt.Sprintf("%s could not be carried through %d times (last: %s). Try again?",
			t.Order.Label, n, last.Stop.Note))
	}
	if last := noProgress(t); last != nil {
		return ask(t, "no-progress-"+last.ID.Short(), fmt.Sprintf(
			"%s makes no progress: two attempts left the same files and the same failures (%s). Try again?",
			t.Order.Label, strings.Join(last.Evidence.Reasons, "; ")))
	}
	return nil
}

// capKey begins the key of the question whether more may be spent.
const capKey = "cap-"

// allowance is what an order may cost, in millionths of a dollar: its cap, and as much again for each time that a person
// has said that more may be spent. 0 is without a limit.
func allowance(t *ferry.Task) int64 {
	times := int64(1)
	for _, key := range t.Answered {
		if strings.HasPrefix(key, capKey) {
			times++
		}
	}
	return min(t.Order.CapMicroUSD, math.MaxInt64/times) * times
}

// ask gives the question, or nil when it was answered already.
func ask(t *ferry.Task, key, text string) *ferry.Question {
	if slices.Contains(t.Answered, key) {
		return nil
	}
	return &ferry.Question{Order: t.ID, Key: key, Options: options(), Seen: t.Next.Failed, Text: text}
}

func options() []ferry.Option {
	return []ferry.Option{{Name: ferry.OptionRetry, Text: "Try again"}, {Name: ferry.OptionCancel, Text: "Cancel the order"}}
}

func dollars(micro int64) string { return fmt.Sprintf("%.2f", float64(micro)/1e6) }

// noProgress gives the latest result when it and the one before are refuted
// with the same tree and the same failed checks.
func noProgress(t *ferry.Task) *ferry.Outturn {
	n := len(t.Results)
	if n < 2 {
		return nil
	}
	a, b := &t.Results[n-2], &t.Results[n-1]
	if a.Evidence.Status != ferry.EvidenceRefuted || b.Evidence.Status != ferry.EvidenceRefuted ||
		a.Result.Tree != b.Result.Tree || !slices.Equal(failedChecks(a.Result), failedChecks(b.Result)) {
		return nil
	}
	return b
}

func failedChecks(r *ferry.Result) []string {
	var out []string
	for _, c := range r.Checks {
		if c.Exit != 0 {
			out = append(out, fmt.Sprintf("%d %s", c.Exit, c.Command))
		}
	}
	return out
}

// Backoff is how long a worker leaves an order alone after so many counted
// failures: 10 s, 40 s, 160 s and so on, at most 10 min.
func Backoff(failures int) time.Duration {
	wait := 10 * time.Second
	for range min(failures-1, 5) {
		wait *= 4
	}
	return min(wait, 10*time.Minute)
}

// Overlap reports whether two lists of globs may name the same file. An empty
// list says nothing, so it overlaps with nothing. It errs on the side of yes:
// two globs overlap when the fixed beginning of one is that of the other.
func Overlap(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if within(fixed(x), fixed(y)) || within(fixed(y), fixed(x)) {
				return true
			}
		}
	}
	return false
}

// fixed gives the whole path parts of a glob before its first pattern.
func fixed(glob string) []string {
	var parts []string
	for p := range strings.SplitSeq(strings.Trim(glob, "/"), "/") {
		if strings.ContainsAny(p, "*?[{\\") {
			break
		}
		if p != "" && p != "." {
			parts = append(parts, p)
		}
	}
	return parts
}

func within(short, long []string) bool {
	return len(short) <= len(long) && slices.Equal(short, long[:len(short)])
}
