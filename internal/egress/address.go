package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// reserved are the networks that are no part of the public one and that netip has no word for.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
}

var (
	sharedSpace = netip.MustParsePrefix("100.64.0.0/10") // of carriers, and of some private networks
	publicSix   = netip.MustParsePrefix("2000::/3")
)

// The kinds of addresses, from the harmless to what no name may lead to.
type reach int

const (
	public reach = iota
	private
	special // link-local, multicast and what is no address of a host: cloud metadata lives here
)

func reachOf(a netip.Addr) reach {
	a = a.Unmap() // what is mapped is as reachable as what it maps
	switch {
	case !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || a.Zone() != "":
		return special
	case a.IsLoopback() || a.IsPrivate() || sharedSpace.Contains(a):
		return private
	case slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) }):
		return special
	case a.Is6() && !publicSix.Contains(a):
		return special
	}
	return public
}

// refusal is a decision against a request. Its text holds nothing that came from the box.
type refusal struct {
	status int
	reason string
}

// Error returns the reason.
func (r *refusal) Error() string { return r.reason }

// dialer connects to what entries allow.
type dialer struct {
	entries []Entry
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

const (
	lookupLimit  = 10 * time.Second
	connectLimit = 20 * time.Second
	maxTried     = 4 // addresses of one name
)

// find returns the entry that allows t, an explicit one before others.
func (d *dialer) find(t Target) (Entry, *refusal) {
	best, found := Entry{}, false
	for _, e := range d.entries {
		if e.matches(t) && (!found || e.Explicit) {
			best, found = e, true
		}
	}
	if !found {
		return best, &refusal{403, "not on the list"}
	}
	return best, nil
}

// addresses looks t up, once, and checks everything that comes back: a name with one forbidden address is forbidden.
func (d *dialer) addresses(ctx context.Context, t Target) ([]netip.Addr, error) {
	e, no := d.find(t)
	if no != nil {
		return nil, no
	}
	addrs := []netip.Addr{t.addr}
	if !t.addr.IsValid() {
		ctx, cancel := context.WithTimeout(ctx, lookupLimit)
		defer cancel()
		var err error
		if addrs, err = d.resolve(ctx, t.Host); err != nil || len(addrs) == 0 {
			return nil, &refusal{502, "the name was not found"}
		}
	}
	for _, a := range addrs {
		switch r := reachOf(a); {
		case r == private && !e.Explicit:
			return nil, &refusal{403, "the name leads to a private address"}
		case r == special && !t.addr.IsValid():
			return nil, &refusal{403, "the name leads to a link-local or reserved address"}
		}
	}
	return addrs, nil
}

// dial connects to t at the first of its checked addresses that answers.
func (d *dialer) dial(ctx context.Context, t Target) (net.Conn, error) {
	addrs, err := d.addresses(ctx, t)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	var errs []error
	for _, a := range addrs[:min(len(addrs), maxTried)] {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", netip.AddrPortFrom(a.Unmap(), t.Port).String())
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, &refusal{502, "it cannot be reached: " + plain(errors.Join(errs...))}
}

// plain names the sort of a failed connection, in few different words: they are counted by them.
func plain(err error) string {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer"
	case errors.Is(err, context.Canceled):
		return "whoever asked has gone"
	}
	return "no connection"
}

// dialContext is dial for an http.Transport.
func (d *dialer) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	t, err := ParseTarget(address, 0)
	if err != nil || network != "tcp" {
		return nil, &refusal{400, "not a host and a port"}
	}
	return d.dial(ctx, t)
}

// systemResolve looks a name up as it stands: the dot keeps search domains of this machine from making another of it.
func systemResolve(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", host+".")
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", host, err)
	}
	return addrs, nil
}
