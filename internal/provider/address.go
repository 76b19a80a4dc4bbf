package provider

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// addressOf reads a base address: the root of a host, the part that ends with a
// version, or the whole address of one of the wires.
func addressOf(base, wireName string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case base == "":
		return nil, errors.New(`base_url is empty: write the address of the endpoint, for example "https://api.example.com/v1"`)
	case err != nil:
		// The error quotes the address, in which a person may have put a key.
		return nil, errors.New(`base_url is no address: write one like "https://api.example.com/v1"`)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New(`base_url does not begin with http:// or https:// and a host: write an address like "https://api.example.com/v1"`)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("base_url holds a user, a query or a fragment: write the bare address, and the key into key")
	}
	path := strings.TrimRight(u.Path, "/")
	for _, name := range Wires() {
		w, _ := wireOf(name) // Wires lists only what wireOf knows
		path = strings.TrimSuffix(path, w.path)
	}
	path = strings.TrimRight(strings.TrimSuffix(path, "/models"), "/")
	// The Anthropic wire lies behind a version wherever it is mounted.
	if path == "" || wireName == WireAnthropic && !strings.HasSuffix(path, "/v1") {
		path += "/v1"
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}, nil
}

// checkPlain refuses to send a key where the network can read it.
func checkPlain(u *url.URL, key string, allowed bool) error {
	if u.Scheme == "https" || key == "" || allowed || Loopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("base_url sends the key to %s without encryption: write https://, or an address of this machine", u.Host)
}

// Loopback reports whether a host of an address is this machine by its name alone.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
