package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Class says what kind of error an endpoint made, and with that who can do
// something about it.
type Class string

// The classes.
const (
	Transient   Class = "transient"    // the endpoint is not there, or is out of order: ask later
	RateLimited Class = "rate-limited" // too many requests
	Budget      Class = "budget"       // no money or no quota
	Auth        Class = "auth"         // the key was refused
	BadRequest  Class = "bad-request"  // this request will never be taken
	Overflow    Class = "overflow"     // the request is too large for the model
	Malformed   Class = "malformed"    // the answer breaks the protocol or a bound
	Incomplete  Class = "incomplete"   // the answer broke off
	Silent      Class = "silent"       // nothing came until a clock ran out
	Aborted     Class = "aborted"      // the caller ended it
)

// maxErrorBody bounds what an Error keeps of the endpoint's answer.
const maxErrorBody = 8 << 10

// Error is why there is no answer. Everything in it is bounded and redacted.
type Error struct {
	Class  Class
	Status int    // of HTTP, 0 when there was none
	Code   string // the endpoint's own word for it, "" when it has none
	// Message is the endpoint's or the network's own sentence.
	Message    string
	RetryAfter time.Duration // how long to stay away, 0 when not told
	// Exposed reports that text of the answer had reached the sink.
	Exposed bool
	// Empty reports that a success had not one byte or event of an answer in it.
	Empty bool
	Body  string // of an answer that is no success, at most 8 KiB
	Err   error  // the cause on this side of the network, or nil
}

// Error returns the error in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Class))
	if e.Status != 0 {
		fmt.Fprintf(&b, ", status %d", e.Status)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	return b.String()
}

// Unwrap returns the cause on this side of the network.
func (e *Error) Unwrap() error { return e.Err }

// fault is the error object of all three wires, in an answer that is no success
// or inside of a stream.
type fault struct {
	Message  string          `json:"message"`
	Type     string          `json:"type"`
	Code     json.RawMessage `json:"code"`
	Param    string          `json:"param"`
	Metadata struct {
		Headers map[string]string `json:"headers"`
	} `json:"metadata"`
}

// faultOf finds the error object in a body: under "error", as an object or as a
// bare sentence, or at the top.
func faultOf(body []byte) fault {
	var outer struct {
		Error json.RawMessage `json:"error"`
		fault
	}
	if json.Unmarshal(body, &outer) != nil {
		return fault{}
	}
	var f fault
	var sentence string
	switch {
	case json.Unmarshal(outer.Error, &f) == nil:
	case json.Unmarshal(outer.Error, &sentence) == nil:
		f = outer.fault
		f.Message = sentence
	default:
		f = outer.fault
	}
	return f
}

// codes returns what the fault calls itself, most exact first, and the HTTP
// status where one of these is a number.
func (f fault) codes() (codes []string, status int) {
	code := strings.Trim(string(f.Code), `"`)
	if n, err := strconv.Atoi(code); err == nil {
		status, code = n, ""
	}
	for _, c := range []string{code, f.Type} {
		if c != "" && c != "null" && len(c) <= maxShort {
			codes = append(codes, c)
		}
	}
	return codes, status
}

// exact are the words by which endpoints name an error. A sentence is never read.
func exact(code string) Class {
	switch code {
	case "insufficient_quota", "insufficient_balance", "insufficient_credits", "billing_error", "billing_not_active", "billing_hard_limit_reached", "payment_required":
		return Budget
	case "context_length_exceeded", "context_window_exceeded", "request_too_large", "string_above_max_length":
		return Overflow
	case "rate_limit_exceeded", "rate_limit_error", "rate_limited", "too_many_requests", "RESOURCE_EXHAUSTED":
		return RateLimited
	case "invalid_api_key", "authentication_error", "permission_error", "unauthorized", "UNAUTHENTICATED", "PERMISSION_DENIED":
		return Auth
	case "overloaded_error", "server_error", "api_error", "internal_error", "internal_server_error", "timeout_error", "service_unavailable", "UNAVAILABLE", "not_found_error", "model_not_found":
		return Transient
	case "invalid_request_error", "INVALID_ARGUMENT":
		return BadRequest
	}
	return ""
}

// classOf judges an error by its exact codes first, where they are about money or
// size, then by the status, then by the other codes.
func classOf(status int, codes []string) Class {
	var told Class
	for _, c := range codes {
		switch k := exact(c); {
		case k == Budget || k == Overflow:
			return k
		case told == "":
			told = k
		}
	}
	switch {
	case status == http.StatusPaymentRequired:
		return Budget
	case status == http.StatusTooManyRequests:
		return RateLimited
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return Auth
	case status == http.StatusRequestEntityTooLarge:
		return Overflow
	case status == http.StatusNotFound || status == http.StatusRequestTimeout || status >= 500 || status >= 300 && status < 400:
		return Transient
	case told != "":
		return told
	case status == 0:
		return Transient
	}
	return BadRequest
}

// faultError makes the error of an error object. status is that of HTTP, or 0
// inside of a stream, where the object may hold one itself.
func faultError(status int, f fault) *Error {
	codes, inner := f.codes()
	if status == 0 && inner >= 400 && inner <= 599 {
		status = inner
	}
	e := &Error{Class: classOf(status, codes), Status: status, Message: f.Message}
	if len(codes) > 0 {
		e.Code = codes[0]
	}
	return e
}

// maxWait bounds what an endpoint can ask for.
const maxWait = 35 * 24 * time.Hour

// retryAfter reads how long an endpoint wants to be left alone: the headers that
// say so outright, else the reset of the limit that is used up.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return bounded(ms, time.Millisecond)
	}
	if v := strings.TrimSpace(h.Get("Retry-After")); v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil {
			return bounded(s, time.Second)
		}
		if at, err := http.ParseTime(v); err == nil {
			return min(max(at.Sub(now), 0), maxWait)
		}
	}
	return resetOf(h, now)
}

// resetOf looks through the rate limit headers. The names are
// x-ratelimit-reset[-SOMETHING] and SOMETHING-ratelimit-[SOMETHING-]reset, beside
// one with "remaining" in the place of "reset".
func resetOf(h http.Header, now time.Time) time.Duration {
	var spent, other time.Duration
	for name := range h {
		low := strings.ToLower(name)
		if !strings.Contains(low, "ratelimit") || !strings.Contains(low, "reset") {
			continue
		}
		wait := resetTime(h.Get(name), now)
		if wait <= 0 {
			continue
		}
		left := h.Get(strings.Replace(low, "reset", "remaining", 1))
		if n, err := strconv.ParseFloat(left, 64); err == nil && n <= 0 {
			spent = max(spent, wait)
		}
		if other == 0 || wait < other {
			other = wait
		}
	}
	if spent > 0 {
		return spent
	}
	return other
}

// resetTime reads one such header: seconds from now, a Unix time in seconds or in
// milliseconds, a time in RFC 3339, or a duration like "6m0s".
func resetTime(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		switch {
		case n > 1e12:
			return min(max(time.UnixMilli(int64(min(n, 1e15))).Sub(now), 0), maxWait)
		case n > 1e9:
			return min(max(time.Unix(int64(n), 0).Sub(now), 0), maxWait)
		}
		return bounded(n, time.Second)
	}
	if at, err := time.Parse(time.RFC3339, v); err == nil {
		return min(max(at.Sub(now), 0), maxWait)
	}
	if d, err := time.ParseDuration(v); err == nil {
		return min(max(d, 0), maxWait)
	}
	return 0
}

func bounded(n float64, unit time.Duration) time.Duration {
	if !(n > 0) { // NaN too
		return 0
	}
	if n > float64(maxWait/unit) {
		return maxWait
	}
	return time.Duration(n * float64(unit))
}

// header turns the headers that a gateway quotes in an error into a header.
func (f fault) header() http.Header {
	h := http.Header{}
	for name, value := range f.Metadata.Headers {
		h.Set(name, value)
	}
	return h
}

// waits reports whether an error of this status can say when to come back.
func waits(status int) bool {
	return slices.Contains([]int{http.StatusPaymentRequired, http.StatusTooManyRequests, http.StatusServiceUnavailable, 529}, status)
}
