package evidence

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry"
)

// Classify says what a result is worth by the table in the package comment.
// It reads nothing but its arguments. Facts that the record could have left
// out (paths outside touches, edited checks, bad paths) are computed again
// from its file list.
func Classify(o *ferry.Order, r *ferry.Result) ferry.Evidence {
	if o == nil || r == nil {
		return ferry.Evidence{Status: ferry.EvidenceUnverified, Reasons: []string{"the order of this result is not known here"}}
	}
	if reasons := refutes(o, r); len(reasons) > 0 {
		return ferry.Evidence{Status: ferry.EvidenceRefuted, Reasons: append(reasons, leftOut(r, isSpecial)...)}
	}
	if r.FilesTotal == 0 {
		if left := leftOut(r, isSpecial); len(left) > 0 {
			return ferry.Evidence{Status: ferry.EvidenceUnverified, Reasons: append(left, "nothing else changed")}
		}
		return ferry.Evidence{Status: ferry.EvidenceNone, Reasons: []string{"no file changed and the order asked for none: the answer is the result"}}
	}
	if reasons := doubts(o, r); len(reasons) > 0 {
		return ferry.Evidence{Status: ferry.EvidenceUnverified, Reasons: reasons}
	}
	return ferry.Evidence{Status: ferry.EvidenceVerified, Reasons: []string{holds(o, r)}}
}

func refutes(o *ferry.Order, r *ferry.Result) []string {
	reasons := checksRefute(o, r)
	if reason := unchanged(o, r); reason != "" {
		reasons = append(reasons, reason)
	}
	if out := union(r.Facts.Outside, Outside(o.Touches, r.Files)); len(out) > 0 {
		reasons = append(reasons, fmt.Sprintf("%s outside what the order touches (%s): %s",
			count(len(out), "changed file is", "changed files are"), few(o.Touches), few(out)))
	}
	if bad := badFacts(r.Facts.BadPaths, r.Files); len(bad) > 0 {
		reasons = append(reasons, "paths that may not land: "+few(bad))
	}
	if s := r.Facts.Secrets; len(s) > 0 {
		reasons = append(reasons, "the change adds what looks like a secret: "+few(s)+"; take it out and revoke it")
	}
	return reasons
}

func checksRefute(o *ferry.Order, r *ferry.Result) []string {
	if r.FilesTotal == 0 && len(r.Checks) == 0 {
		return nil // no check runs where nothing changed, and that is what refutes it
	}
	if len(r.Checks) != len(o.Checks) {
		return []string{fmt.Sprintf("the order names %s and %s ran", count(len(o.Checks), "check", "checks"), count(len(r.Checks), "check", "checks"))}
	}
	var reasons []string
	for i, c := range r.Checks {
		switch {
		case c.Command != o.Checks[i]:
			reasons = append(reasons, fmt.Sprintf("the order's check `%s` did not run; `%s` ran in its place", clip(o.Checks[i]), clip(c.Command)))
		case c.Exit != 0 && c.Reason != "":
			reasons = append(reasons, fmt.Sprintf("the check `%s` failed with exit %d: %s", clip(c.Command), c.Exit, c.Reason))
		case c.Exit != 0:
			reasons = append(reasons, fmt.Sprintf("the check `%s` failed with exit %d", clip(c.Command), c.Exit))
		}
	}
	return reasons
}

func unchanged(o *ferry.Order, r *ferry.Result) string {
	refused := ""
	if len(r.Facts.Denied) > 0 {
		refused = "; the engine itself refused edits: " + few(r.Facts.Denied)
	}
	asks := o.AsksForChange()
	switch {
	case r.FilesTotal == 0 && asks && r.Commit == r.From:
		return "the engine changed nothing and the order asks for a change" + refused
	case r.FilesTotal == 0 && asks:
		return "what the engine changed undoes itself: the files are those of the base " + r.Base.Short()
	case r.FilesTotal > 0 && r.Commit == r.From && r.Revision > 1:
		return "nothing changed since the earlier result at " + r.From.Short() + refused
	case r.FilesTotal == 0 && strings.TrimSpace(r.Answer) == "":
		return "the engine changed nothing and answered nothing" + refused
	}
	return ""
}

func doubts(o *ferry.Order, r *ferry.Result) []string {
	var reasons []string
	if len(o.Checks) == 0 {
		reasons = append(reasons, "the order names no check, so nothing but its paths was tested; `--check` names one")
	}
	if r.Sandbox.Level == "" || r.Sandbox.Level == "none" {
		reasons = append(reasons, "it ran without a sandbox, so the engine could have changed what its checks rely on")
	}
	if edits := union(r.Facts.CheckEdit, CheckInputs(o, r.Files)); len(edits) > 0 && len(o.Checks) > 0 {
		reasons = append(reasons, "the change alters files that the checks run, read them first: "+few(edits))
	}
	reasons = append(reasons, leftOut(r, unseenByGit)...)
	if r.Facts.Cut || r.FilesTotal > int64(len(r.Files)) {
		reasons = append(reasons, fmt.Sprintf("the change is too large to be listed whole (%d files, %d in the record)", r.FilesTotal, len(r.Files)))
	}
	if o.Base != "" && r.Base != o.Base {
		reasons = append(reasons, fmt.Sprintf("the change was measured against %s, the order begins from %s", r.Base.Short(), o.Base.Short()))
	}
	return reasons
}

// leftOut gives the reason that names what the snapshot left out, or none.
// What harmless says nothing is missing of is not named.
func leftOut(r *ferry.Result, harmless func(skipped string) bool) []string {
	left := slices.DeleteFunc(slices.Clone(r.Facts.Skipped), harmless)
	if len(left) == 0 {
		return nil
	}
	return []string{"left out of the commit: " + few(left)}
}

// unseenByGit reports whether what was left out is something that no commit
// ever holds, so that nothing of the change is missing.
func unseenByGit(skipped string) bool {
	return isSpecial(skipped) || strings.HasSuffix(skipped, ": ferry's own directory")
}

// isSpecial reports whether what was left out is neither a file nor a
// directory, so that it never held any work.
func isSpecial(skipped string) bool {
	return strings.HasSuffix(skipped, ": FIFO") || strings.HasSuffix(skipped, ": socket") || strings.HasSuffix(skipped, ": device")
}

func holds(o *ferry.Order, r *ferry.Result) string {
	s := fmt.Sprintf("%s passed on %s", count(len(r.Checks), "check", "checks"), count(int(r.FilesTotal), "changed file", "changed files"))
	if len(o.Touches) > 0 {
		s += ", all inside what the order touches"
	}
	return s
}

// union joins two lists as lines, keeps the first's order and says nothing
// twice.
func union(a, b []string) []string {
	have := map[string]bool{}
	var out []string
	for _, s := range slices.Concat(a, b) {
		if s = line(s); !have[s] {
			have[s] = true
			out = append(out, s)
		}
	}
	return out
}

// shown is how many entries of a list a reason spells out.
const shown = 5

func few(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	if len(list) <= shown {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:shown], ", "), len(list)-shown)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
