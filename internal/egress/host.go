package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

const (
	maxHost  = 253
	maxLabel = 63
)

// Target is a host and a port that were parsed. Host is what is matched, looked up, dialed and compared with the name
// in TLS: a name in lower case, or the canonical text of an address.
type Target struct {
	Host string
	Port uint16
	addr netip.Addr // valid when Host is an address
}

// String returns host:port, with brackets around an IPv6 address.
func (t Target) String() string {
	if strings.Contains(t.Host, ":") {
		return "[" + t.Host + "]:" + strconv.Itoa(int(t.Port))
	}
	return t.Host + ":" + strconv.Itoa(int(t.Port))
}

// ParseTarget reads host or host:port. Without a port it is port, and an error where port is 0.
func ParseTarget(s string, port uint16) (Target, error) {
	host, digits := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host, digits = s[:i], s[i+1:]
		n, err := parsePort(digits)
		if err != nil {
			return Target{}, err
		}
		port = n
	}
	if port == 0 {
		return Target{}, errors.New("no port")
	}
	name, addr, err := parseHost(host)
	return Target{Host: name, Port: port, addr: addr}, err
}

// parsePort takes one spelling of a port: no sign, no leading zero.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, errors.New("the port is no number from 1 to 65535")
	}
	return uint16(n), nil
}

// parseHost reads a name of letters, digits and hyphens, or an address in its one canonical form. Nothing else that some
// resolver may take for a host is one: no other notation of an address, no trailing dot, no user, no escape, no byte
// beyond ASCII.
func parseHost(s string) (string, netip.Addr, error) {
	if s == "" || len(s) > maxHost {
		return "", netip.Addr{}, errors.New("the host is empty or longer than 253 bytes")
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		return parseSix(inner)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) { // some have a lower case in ASCII
		return "", netip.Addr{}, errors.New("the host has a byte that no name has: write it with xn--")
	}
	name := strings.ToLower(s)
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return "", netip.Addr{}, err
		}
	}
	if !numeric(labels[len(labels)-1]) {
		return name, netip.Addr{}, nil
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return "", netip.Addr{}, errors.New("the host is a number in an unusual notation")
	}
	return name, addr, nil
}

func parseSix(inner string) (string, netip.Addr, error) {
	text, ok := strings.CutSuffix(inner, "]")
	addr, err := netip.ParseAddr(text)
	if !ok || err != nil || !addr.Is6() || addr.Is4In6() || addr.Zone() != "" || addr.String() != text {
		return "", netip.Addr{}, errors.New("the host is no IPv6 address in its canonical form")
	}
	return text, addr, nil
}

func checkLabel(label string) error {
	if label == "" || len(label) > maxLabel {
		return errors.New("the host has a part that is empty or longer than 63 bytes")
	}
	for _, c := range []byte(label) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return errors.New("the host has a byte that no name has")
		}
	}
	if label[0] == '-' || label[len(label)-1] == '-' {
		return errors.New("the host has a part that begins or ends with a hyphen")
	}
	return nil
}

// numeric reports whether a last label makes some resolvers read the whole as an address.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// Entry is one line of the list: what may be reached.
type Entry struct {
	Host string // without the "*." of a wild one
	Wild bool   // every name below Host, and not Host itself
	Port uint16
	// Explicit says that the port was written down: such an entry may lead to a private address.
	Explicit bool
	addr     netip.Addr
}

// String returns the entry as it is written.
func (e Entry) String() string {
	s := e.Host
	if e.Explicit || e.Port != 443 {
		s = Target{Host: e.Host, Port: e.Port}.String()
	}
	if e.Wild {
		return "*." + s
	}
	return s
}

func (e Entry) matches(t Target) bool {
	if e.Port != t.Port || e.addr != t.addr {
		return false
	}
	if e.Wild {
		return strings.HasSuffix(t.Host, "."+e.Host)
	}
	return t.Host == e.Host
}

// ParseEntry reads "host", "host:port" or "*.host". Without a port it is 443, and an address needs one.
func ParseEntry(s string) (Entry, error) {
	rest, wild := strings.CutPrefix(s, "*.")
	t, err := ParseTarget(rest, 443)
	if err != nil {
		return Entry{}, fmt.Errorf("allowed host %s: %w: write it like api.example.com, *.example.com or example.com:8443",
			shown(s), err)
	}
	e := Entry{Host: t.Host, Wild: wild, Port: t.Port, addr: t.addr}
	e.Explicit = strings.HasSuffix(rest, ":"+strconv.Itoa(int(t.Port))) && rest != t.Host && rest != "["+t.Host+"]"
	switch {
	case wild && (t.addr.IsValid() || !strings.Contains(t.Host, ".")):
		return Entry{}, fmt.Errorf("allowed host %s: it is too much: name at least two parts behind the star", shown(s))
	case wild && e.Explicit:
		e.Explicit = false // a star names nobody: what is private must be named
	case t.addr.IsValid() && !e.Explicit:
		return Entry{}, fmt.Errorf("allowed host %s: an address needs a port: write it like 127.0.0.1:11434", shown(s))
	}
	return e, nil
}

// maxEntries bounds a list.
const maxEntries = 100

// ParseList reads entries with commas between them.
func ParseList(s string) ([]Entry, error) {
	words := strings.Split(s, ",")
	if len(words) > maxEntries {
		return nil, fmt.Errorf("%d allowed hosts, at most %d can be named", len(words), maxEntries)
	}
	var out []Entry
	for _, word := range words {
		e, err := ParseEntry(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// shown quotes foreign text for an error or an account, and bounds it.
func shown(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.QuoteToASCII(s)
}
