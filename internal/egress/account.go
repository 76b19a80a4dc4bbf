package egress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Decision is what was decided about a host and a port, how often, and what went there and came back since.
type Decision struct {
	Host    string `json:"host"` // quoted where it was no host
	Port    uint16 `json:"port,omitempty"`
	Allowed bool   `json:"allowed"`
	// Reason is why it was refused, or how it was let through.
	Reason   string `json:"reason"`
	Count    int64  `json:"count"`
	Sent     int64  `json:"sent,omitempty"`
	Received int64  `json:"received,omitempty"`
}

// String returns the decision in one line, for a log.
func (d Decision) String() string {
	verdict := "refused"
	if d.Allowed {
		verdict = "allowed"
	}
	host := d.Host
	if d.Port != 0 {
		host = Target{Host: d.Host, Port: d.Port}.String()
	}
	s := fmt.Sprintf("%s %s (%s), %d times", verdict, host, d.Reason, d.Count)
	if d.Allowed {
		s += fmt.Sprintf(", %d bytes sent, %d received", d.Sent, d.Received)
	}
	return s
}

// maxDecisions bounds the account; what comes after is counted together.
const maxDecisions = 200

type key struct {
	host    string
	port    uint16
	allowed bool
	reason  string
}

// account counts decisions.
type account struct {
	log func(Decision)

	mu       sync.Mutex
	lines    map[key]*Decision
	order    []*Decision
	sent     int64
	received int64
}

// line returns the decision's place, made when it is the first of its kind. The log hears of each kind once.
func (a *account) line(k key) *Decision {
	a.mu.Lock()
	d, known := a.lines[k]
	if !known && len(a.order) >= maxDecisions {
		k = key{host: "others", allowed: k.allowed, reason: "more hosts than are listed"}
		d, known = a.lines[k]
	}
	if !known {
		d = &Decision{Host: k.host, Port: k.port, Allowed: k.allowed, Reason: k.reason}
		a.lines[k] = d
		a.order = append(a.order, d)
	}
	d.Count++
	first := *d
	a.mu.Unlock()
	if !known && a.log != nil {
		a.log(first)
	}
	return d
}

func (a *account) refused(host string, port uint16, reason string) {
	a.line(key{host, port, false, reason})
}

// flow is what moves in one request or tunnel. Until it is allowed, which may be late (an address is only known when it
// is dialed), its bytes wait in early.
type flow struct {
	line  *Decision
	early Decision
}

// allowed counts f, and what it moves, under t.
func (a *account) allowed(f *flow, t Target, how string) {
	d := a.line(key{t.Host, t.Port, true, how})
	a.mu.Lock()
	defer a.mu.Unlock()
	f.line = d
	d.Sent, d.Received = d.Sent+f.early.Sent, d.Received+f.early.Received
}

// move adds bytes and reports whether the run is still within most in all, in each direction.
func (a *account) move(f *flow, sent, received, most int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := f.line
	if d == nil {
		d = &f.early
	}
	d.Sent, d.Received = d.Sent+sent, d.Received+received
	a.sent, a.received = a.sent+sent, a.received+received
	return a.sent <= most && a.received <= most
}

func (a *account) within(most int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent <= most && a.received <= most
}

// decisions returns a copy of the account: what was refused first, then by bytes and name.
func (a *account) decisions() []Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Decision
	for _, d := range a.order {
		out = append(out, *d)
	}
	slices.SortStableFunc(out, func(x, y Decision) int {
		if x.Allowed != y.Allowed {
			return map[bool]int{false: -1, true: 1}[x.Allowed]
		}
		return cmp.Or(cmp.Compare(y.Sent+y.Received, x.Sent+x.Received), strings.Compare(x.Host, y.Host), cmp.Compare(x.Port, y.Port), strings.Compare(x.Reason, y.Reason))
	})
	return out
}

// Summary says in one line what was reached and what was refused, for a result. It is "" when nothing was asked for.
func Summary(decisions []Decision) string {
	const most = 5
	var words []string
	for _, allowed := range []bool{false, true} {
		var hosts []string
		for _, d := range decisions {
			name := Target{Host: d.Host, Port: d.Port}.String()
			if d.Port == 0 || d.Port == 443 {
				name = d.Host
			}
			if d.Allowed == allowed && !slices.Contains(hosts, name) {
				hosts = append(hosts, name)
			}
		}
		if len(hosts) == 0 {
			continue
		}
		more := ""
		if len(hosts) > most {
			more = fmt.Sprintf(" and %d more", len(hosts)-most)
			hosts = hosts[:most]
		}
		words = append(words, map[bool]string{false: "refused ", true: "reached "}[allowed]+strings.Join(hosts, ", ")+more)
	}
	return strings.Join(words, "; ")
}
