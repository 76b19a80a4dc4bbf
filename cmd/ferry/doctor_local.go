package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ferry-fleet/ferry/engines"
)

// modelServer is a program that offers models on a port of this machine.
type modelServer struct {
	name   string
	engine string // what its table may be called
	port   string
	more   []string // lines that its table needs beside the address and the model
}

// modelServers are those that doctor looks for.
func modelServers() []modelServer {
	return []modelServer{
		{"LM Studio", "lmstudio", "1234", nil},
		{"Ollama", "ollama", "11434", nil},
		{"OmniRoute", "omniroute", gatewayPort, []string{`provider = "omniroute"`}},
	}
}

// The limits of one look at a model server.
const (
	lookTime   = time.Second
	maxModels  = 256 << 10 // bytes of its list of models
	maxModelID = 200       // bytes of a model's name
)

// lookClient asks this machine alone: it goes through no proxy and follows no
// redirect to another.
func lookClient() *http.Client {
	dialer := &net.Dialer{Timeout: lookTime}
	return &http.Client{
		Timeout: lookTime,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if host, _, err := net.SplitHostPort(addr); err != nil || host != "127.0.0.1" {
					return nil, fmt.Errorf("%s is not this machine", addr)
				}
				return dialer.DialContext(ctx, network, addr)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// models asks a server for the names of its models. It answers with an error
// where there is none of its kind; one that wants a key has no names.
func (s modelServer) models(ctx context.Context, client *http.Client) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+s.port+"/v1/models", nil)
	if err != nil {
		return nil, err
	}
	reply, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxModels))
	err = errors.Join(err, reply.Body.Close())
	switch {
	case err != nil:
		return nil, err
	case reply.StatusCode == http.StatusUnauthorized:
		return nil, nil
	case reply.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answers with %d", reply.StatusCode)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("it is no list of models: %w", err)
	}
	var out []string
	for _, m := range list.Data {
		if m.ID != "" && len(m.ID) <= maxModelID {
			out = append(out, m.ID)
		}
	}
	return out, nil
}

// lines are what agent.toml needs for this server.
func (s modelServer) lines(list, models []string) string {
	model := "NAME-OF-A-MODEL"
	for _, m := range models {
		if !strings.Contains(m, "embed") { // which answers no prompt
			model = m
			break
		}
	}
	out := []string{
		"add to agent.toml: engines = " + quotedList(append(slices.Clone(list), s.engine)),
		"[engine." + s.engine + "]", fmt.Sprintf("base_url = %s", quoted("http://localhost:"+s.port+"/v1")), "model = " + quoted(model),
	}
	return strings.Join(append(out, s.more...), "\n")
}

// checkLocalModels says which model servers answer on this machine, and how an
// engine is made of one that none uses.
func (d *doctor) checkLocalModels(ctx context.Context) {
	servers := modelServers()
	found := make([][]string, len(servers))
	failed := make([]error, len(servers))
	var looks sync.WaitGroup
	for i, s := range servers {
		looks.Go(func() { found[i], failed[i] = s.models(ctx, d.look) })
	}
	looks.Wait()
	for i, s := range servers {
		if failed[i] != nil {
			continue // most machines run none of them
		}
		detail := fmt.Sprintf("it answers on port %s, with %d models", s.port, len(found[i]))
		c := checkShape{Name: s.name, Status: statusOK, Detail: detail}
		if user, used := d.at.config.uses(s.port); used {
			c.Detail += ", and is engine " + user
		} else {
			c.Fix = s.lines(d.at.config.named(), found[i])
		}
		d.shape.Checks = append(d.shape.Checks, c)
	}
}

// named gives the list of engines as it is, or as it has to be written for the
// one of the keys above to stay among others.
func (c *config) named() []string {
	if len(c.Engines) == 0 && c.Command != "" {
		return []string{string(engineName(c.Command))}
	}
	return words(c.Engines)
}

// uses gives the engine whose endpoint is on a port of this machine.
func (c *config) uses(port string) (string, bool) {
	for _, n := range c.Engines {
		t := c.Engine[n]
		if t == nil {
			continue
		}
		if u, err := url.Parse(t.BaseURL); err == nil && u.Port() == port && engines.LocalURL(t.BaseURL) {
			return string(n), true
		}
	}
	return "", false
}
