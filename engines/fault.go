package engines

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
)

// Class says in which way an engine failed.
type Class string

// The fault classes. They are narrow: an engine that ran, spent tokens and did
// bad work has no fault.
const (
	FaultCredit   Class = "credit"   // no money or no quota until a reset
	FaultRate     Class = "rate"     // too many requests, for less than ten minutes
	FaultAuth     Class = "auth"     // the key or the login was refused, or there is none
	FaultEndpoint Class = "endpoint" // the address is gone, answers with an error, or broke off
	FaultSilent   Class = "silent"   // the model said nothing until a clock ended the run
	FaultEmpty    Class = "empty"    // the engine ended without an answer and without tokens
	FaultMissing  Class = "missing"  // the command is not there or cannot be run
)

// Fault is a failure of the engine, not of the order.
type Fault struct {
	Class  Class
	Reason string // one line for a person
	// RetryAfter is how long the engine asked to be left alone, 0 when not told.
	RetryAfter time.Duration
	Engine     ferry.EngineName
}

// String returns the fault in one line.
func (f *Fault) String() string {
	return fmt.Sprintf("engine %s: %s: %s", f.Engine, f.Class, f.Reason)
}

// Ended says how a run came to its end.
type Ended string

// The ends of a run.
const (
	EndedExited     Ended = "exited"
	EndedTimeout    Ended = "timeout"
	EndedStalled    Ended = "stalled"
	EndedLimit      Ended = "limit" // it used what it was allowed
	EndedCancelled  Ended = "cancelled"
	EndedStartError Ended = "start-error"
)

// Observed is all that a fault is told from.
type Observed struct {
	Engine ferry.EngineName
	Ended  Ended
	Exit   int
	Parsed Parsed
	// Last is the last line of standard error, else of standard output.
	Last string
	// Known is set when the output was in the CLI's machine-readable form.
	Known bool
	// KeyHint says what to do about a refused key; empty is what to do with a CLI.
	KeyHint string
	Clock   time.Duration // the clock that ended the run
	Now     time.Time
}

// longWait is from where a rate limit is no longer worth waiting for.
const longWait = 10 * time.Minute

// Classify tells an engine's fault, or nil where the run says nothing against
// the engine. It is pure.
func Classify(o Observed) *Fault {
	f := classify(o)
	if f != nil {
		f.Engine = o.Engine
		f.Reason = firstLine(f.Reason, 500)
		if f.Class == FaultAuth {
			f.Reason += "; " + cmp.Or(o.KeyHint, "log in with the engine, or seal its key with `ferry secret set NAME` and name it in agent.toml")
		}
	}
	return f
}

func classify(o Observed) *Fault {
	p := o.Parsed
	nothing := p.Usage.TokensIn+p.Usage.TokensOut == 0 && !p.Answered
	switch {
	case o.Ended == EndedCancelled || o.Ended == EndedStartError || o.Ended == EndedLimit:
		return nil
	case p.Failure != nil:
		return failureFault(*p.Failure, nothing, o.Now)
	case o.Ended == EndedStalled && !p.Working:
		return &Fault{Class: FaultSilent, Reason: fmt.Sprintf("printed nothing for %s and was killed", o.Clock)}
	case o.Ended == EndedTimeout && nothing:
		return &Fault{Class: FaultSilent, Reason: fmt.Sprintf("gave no answer and no tokens within %s", o.Clock)}
	case o.Ended != EndedExited:
		return nil
	case !o.Known && o.Exit != 0:
		return proseFault(o, nothing)
	case nothing:
		return emptyFault(o)
	}
	return nil
}

// emptyFault keeps a login that the CLI complains about before its first event
// apart from a plain nothing.
func emptyFault(o Observed) *Fault {
	f := failureFault(Failure{Message: o.Last}, false, o.Now)
	if f != nil && o.Exit != 0 {
		return f
	}
	reason := "ended without an answer and without tokens"
	if o.Exit != 0 {
		reason = fmt.Sprintf("exit %d, %s", o.Exit, reason)
	}
	if o.Last != "" {
		reason += ": " + o.Last
	}
	return &Fault{Class: FaultEmpty, Reason: reason}
}

// proseFault reads the last line of an engine that reports in no known form and
// has failed: what it prints may be the work, so only an unmistakable line counts.
func proseFault(o Observed, nothing bool) *Fault {
	f := failureFault(Failure{Message: o.Last}, false, o.Now)
	if f != nil && (f.Class == FaultCredit || f.Class == FaultAuth || f.Class == FaultRate) {
		return f
	}
	if nothing {
		return emptyFault(o)
	}
	return nil
}

var (
	creditText = regexp.MustCompile(`(?i)insufficient[ _](credit|balance|fund|quota)|(usage|spending|session|weekly|daily|monthly) limit|hit your limit|out of credits|credit balance is too low|quota (was |has been |is )?exceeded|exceeded your current quota|payment required`)
	authText   = regexp.MustCompile(`(?i)not logged in|please run /login|log ?in again|invalid (api|x-api)[ -]?key|incorrect api key|no api key|missing environment variable: .*(key|token)|unauthorized|failed to authenticate|authentication_error|(token|login|session|credentials?) (has |have |is )?expired|token could not be refreshed`)
	rateText   = regexp.MustCompile(`(?i)too many requests|rate[ _-]?limit`)
	brokenText = regexp.MustCompile(`(?i)connection (refused|error|failed|reset|closed|to the api was lost)|error sending request|econnrefused|econnreset|enotfound|eai_again|etimedout|timed out|time-?out|stream (disconnected|closed|ended)|network error|fetch failed|socket hang up|^terminated$|premature close|high demand|overloaded|server_error|service unavailable|bad gateway|could not resolve`)
	emptyText  = regexp.MustCompile(`(?i)empty or malformed response|empty response|no response`)
)

// failureFault classifies the error of a model call. An error that is about the
// request and not the endpoint is a fault only if nothing at all came of the run.
func failureFault(f Failure, nothing bool, now time.Time) *Fault {
	wait := f.wait(now)
	out := &Fault{Reason: f.Message, RetryAfter: wait}
	status, text := f.Status, f.Message
	switch {
	case f.Class != "":
		out.Class = f.Class
	case status == 402 || creditText.MatchString(text):
		out.Class = FaultCredit
	case status == 429 && wait >= longWait:
		out.Class = FaultCredit
	case status == 429 || status == 0 && rateText.MatchString(text):
		out.Class = FaultRate
	case status == 401 || status == 403 || status == 0 && authText.MatchString(text):
		out.Class = FaultAuth
	case status == 404 || status == 408 || status >= 500:
		out.Class = FaultEndpoint
	case status == 0 && emptyText.MatchString(text):
		out.Class = FaultEmpty
	case status == 0 && brokenText.MatchString(text):
		out.Class = FaultEndpoint
	case nothing:
		out.Class = FaultEmpty
	default:
		return nil
	}
	if out.Reason == "" {
		out.Reason = fmt.Sprintf("status %d", status)
	}
	return out
}

var (
	epochText = regexp.MustCompile(`\|(1[0-9]{9})\b`)
	waitText  = regexp.MustCompile(`(?i)(?:try again in|retry[ -]after:?|retry in|reset(?:s)? (?:in|after)|available again in)\s+((?:\d+(?:\.\d+)?\s*[a-z]+[, ]*(?:and )?)+|\d+)`)
	waitPart  = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?)\s*([a-z]*)`)
)

// maxWait bounds what a message can ask for.
const maxWait = 35 * 24 * time.Hour

// wait is how long the failure asks to be left alone, from its reset time or
// from a duration in its message.
func (f Failure) wait(now time.Time) time.Duration {
	at := f.Resets
	if m := epochText.FindStringSubmatch(f.Message); m != nil {
		if n, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			at = time.Unix(n, 0)
		}
	}
	if !at.IsZero() {
		return min(max(at.Sub(now), 0), maxWait)
	}
	m := waitText.FindStringSubmatch(f.Message)
	if m == nil {
		return 0
	}
	var sum time.Duration
	for _, part := range waitPart.FindAllStringSubmatch(m[1], -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		unit := unitOf(part[2])
		if err != nil || unit == 0 || n > float64(maxWait/unit) {
			break
		}
		sum += time.Duration(n * float64(unit))
	}
	return min(sum, maxWait)
}

func unitOf(s string) time.Duration {
	s = strings.ToLower(s)
	switch {
	case s == "ms" || strings.HasPrefix(s, "milli"):
		return time.Millisecond
	case s == "" || s == "s" || strings.HasPrefix(s, "sec"):
		return time.Second
	case s == "m" || strings.HasPrefix(s, "min"):
		return time.Minute
	case s == "h" || s == "hr" || s == "hrs" || strings.HasPrefix(s, "hour"):
		return time.Hour
	case s == "d" || strings.HasPrefix(s, "day"):
		return 24 * time.Hour
	}
	return 0
}
