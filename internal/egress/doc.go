// Package egress owns the one way out of a box that may reach some hosts and no others: an HTTP proxy that runs outside
// of the box, and the list that it holds a run to.
//
// It promises:
//
//	hosts      one grammar, before anything is compared; the value that was compared is the value that is dialed
//	addresses  a name is looked up once, here; private, loopback, link-local and reserved addresses are refused unless
//	           the list names that host with that port, and link-local ones unless it names the address
//	tunnels    CONNECT carries TLS to the named host only: the ClientHello must say its name, in the open
//	keys       a Route puts the key in outside; what runs in the box has a word that is worth nothing elsewhere
//	bounds     on connections, bytes, requests, headers and time
//	account    every decision is counted under host, port, verdict and reason, in bounded memory
//
// It never resolves a name for the box, never follows a redirect, never speaks SOCKS, and never uses another proxy.
//
// What it cannot see: what is said inside of TLS to an allowed host. A host that serves many parties, such as a code
// forge or an object store, is a way out for whatever the run can read.
package egress
