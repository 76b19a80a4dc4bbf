package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxModels bounds a list of models.
const maxModels = 20_000

// Model is a model that an endpoint lists.
type Model struct {
	ID      string
	Owner   string // "" where it is not told
	Context int64  // tokens, 0 where it is not told
}

// Models lists the models of the endpoint. Every error is an *Error.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var raw json.RawMessage
	if err := c.Get(ctx, "models", &raw); err != nil {
		return nil, err
	}
	type entry struct {
		ID     loose `json:"id"`
		Name   loose `json:"name"`
		Owner  loose `json:"owned_by"`
		Length int64 `json:"context_length"`
		Window int64 `json:"context_window"`
		MaxLen int64 `json:"max_model_len"`
		MaxIn  int64 `json:"max_input_tokens"`
	}
	var list struct {
		Data   []entry `json:"data"`
		Models []entry `json:"models"`
	}
	into := any(&list)
	if strings.HasPrefix(strings.TrimSpace(string(raw)), "[") {
		into = &list.Data
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, c.shown(&Error{Class: Malformed, Message: "the list of models: " + err.Error(), Err: err})
	}
	out := []Model{}
	for _, e := range append(list.Data, list.Models...) {
		id := cmp.Or(string(e.ID), string(e.Name))
		if id == "" || len(id) > maxShort || len(e.Owner) > maxShort {
			continue
		}
		if len(out) == maxModels {
			return nil, &Error{Class: Malformed, Message: fmt.Sprintf("a list of more than %d models", maxModels)}
		}
		out = append(out, Model{ID: id, Owner: string(e.Owner), Context: count(cmp.Or(e.Length, e.Window, e.MaxLen, e.MaxIn))})
	}
	return out, nil
}

// Get reads a JSON document of the endpoint into v, with the key. A path that
// begins with a slash counts from the root of the host. Every error is an *Error.
func (c *Client) Get(ctx context.Context, path string, v any) error {
	u := c.base.JoinPath(path)
	if strings.HasPrefix(path, "/") {
		u = &url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: path}
	}
	l := listLimits()
	reqCtx, w := newWatch(ctx, l.idle)
	defer w.stop()
	resp, failed := c.send(ctx, reqCtx, question{method: http.MethodGet, url: u, accept: "application/json"})
	if failed != nil {
		return c.shown(failed)
	}
	defer resp.Body.Close() // what matters of it was read
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.shown(c.status(resp, w))
	}
	data, err := io.ReadAll(w.body(resp.Body, l))
	if err != nil {
		return c.shown(failure(ctx, reqCtx, err))
	}
	if err := json.Unmarshal(data, v); err != nil {
		return c.shown(&Error{Class: Malformed, Message: "the answer to GET " + u.Path + " is not the JSON that was asked for", Err: err})
	}
	return nil
}
