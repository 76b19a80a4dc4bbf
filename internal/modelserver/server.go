package modelserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxRequestBytes = 32 << 20
	// maxJournal bounds the memory of a server that a CLI asks in a loop.
	maxJournal = 10_000
	// journalBody is how much of each request's body the journal keeps.
	journalBody = 64 << 10
)

// Server plays a script. It is an http.Handler and safe for concurrent use.
type Server struct {
	script Script
	wires  map[string]wire
	closed chan struct{}

	mu      sync.Mutex
	entries []Entry
	total   int
	played  map[*Step]int
	stopped bool
}

// Entry is a request as the journal keeps it.
type Entry struct {
	Time    time.Time `json:"time"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Wire    string    `json:"wire,omitempty"`
	Model   string    `json:"model,omitempty"`
	Stream  bool      `json:"stream,omitempty"`
	Tools   []string  `json:"tools,omitempty"`
	Results int       `json:"results"`
	Scene   string    `json:"scene,omitempty"`
	Do      string    `json:"do,omitempty"`
	Status  int       `json:"status,omitempty"`
	Size    int       `json:"size"`
	Body    string    `json:"body,omitempty"` // its first 64 KiB
}

// New returns a server of the script, which it checks.
func New(script Script) (*Server, error) {
	if err := script.Check(); err != nil {
		return nil, err
	}
	return &Server{
		script: script,
		wires:  wires(),
		closed: make(chan struct{}),
		played: make(map[*Step]int),
	}, nil
}

// Close ends the requests that hang. It is safe to call twice.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.stopped = true
		close(s.closed)
	}
}

// Journal returns the model requests so far, oldest first, at most 10,000.
func (s *Server) Journal() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.entries)
}

// Requests returns how many model requests arrived.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// ServeHTTP answers POST requests whose path ends like a model wire, the script's
// documents, a list of models at /models and the journal at /__journal.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	for suffix, wr := range s.wires {
		if r.Method == http.MethodPost && strings.HasSuffix(path, suffix) {
			s.serveModel(w, r, wr)
			return
		}
	}
	doc, scripted := s.script.Documents[path]
	switch {
	case r.Method == http.MethodGet && scripted && !s.authorized(r):
		writeJSON(w, http.StatusUnauthorized, openAIError(http.StatusUnauthorized, "invalid API key"))
	case r.Method == http.MethodGet && scripted:
		writeJSON(w, http.StatusOK, doc)
	case path == "/__journal":
		writeJSON(w, http.StatusOK, s.Journal())
	case strings.HasSuffix(path, "/models"):
		writeJSON(w, http.StatusOK, object{"object": "list", "data": []object{{"id": "scripted", "object": "model", "owned_by": "modelserver"}}})
	default:
		writeJSON(w, http.StatusNotFound, openAIError(http.StatusNotFound, "modelserver: no such path: "+r.Method+" "+r.URL.Path))
	}
}

func (s *Server) serveModel(w http.ResponseWriter, r *http.Request, wr wire) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		writeJSON(w, http.StatusRequestEntityTooLarge, wr.fail(http.StatusRequestEntityTooLarge, err.Error()))
		return
	}
	e := Entry{
		Time: time.Now(), Method: r.Method, Path: r.URL.Path, Wire: wr.name,
		Size: len(body), Body: string(body[:min(len(body), journalBody)]),
	}
	if !s.authorized(r) {
		e.Status = http.StatusUnauthorized
		s.record(e)
		writeJSON(w, e.Status, wr.fail(e.Status, "invalid API key"))
		return
	}
	a, err := wr.read(body)
	if err != nil {
		e.Status = http.StatusBadRequest
		s.record(e)
		writeJSON(w, e.Status, wr.fail(e.Status, err.Error()))
		return
	}
	step, scene := s.step(a, body)
	e.Model, e.Stream, e.Results, e.Tools = a.model, a.stream, a.results, names(a.tools)
	e.Scene, e.Do, e.Status = scene, step.Do, step.Status
	n := s.record(e)
	p := play{w: w, r: r, wire: wr, ask: a, step: step, closed: s.closed, usage: s.script.usage(), id: fmt.Sprintf("scripted-%d", n)}
	p.run()
}

func (s *Server) authorized(r *http.Request) bool {
	if s.script.Key == "" {
		return true
	}
	return r.Header.Get("Authorization") == "Bearer "+s.script.Key || r.Header.Get("X-Api-Key") == s.script.Key
}

func (s *Server) record(e Entry) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total++
	if len(s.entries) < maxJournal {
		s.entries = append(s.entries, e)
	}
	return s.total
}

// step picks what is played, and counts the errors that have a number.
func (s *Server) step(a ask, body []byte) (Step, string) {
	if len(a.tools) == 0 && a.results == 0 && s.script.titled() {
		return Step{Do: DoText, Text: "A scripted title"}, ""
	}
	steps, scene := s.script.steps(body)
	if a.results >= len(steps) {
		return Step{Do: DoText, Text: "The script of this stand-in model is over."}, scene
	}
	step := &steps[a.results]
	s.mu.Lock()
	defer s.mu.Unlock()
	for step.Do == DoError && step.Times > 0 && s.played[step] >= step.Times {
		if step.Then == nil {
			return Step{Do: DoText, Text: "The errors of this scripted step are over."}, scene
		}
		step = step.Then
	}
	s.played[step]++
	return *step, scene
}

// titled reports whether a request without tools is a side request: a script
// that calls tools is meant for a CLI that offers some.
func (s Script) titled() bool {
	calls := func(st Step) bool { return st.Do == DoWrite || st.Do == DoShell || st.Do == DoCall }
	for _, sc := range s.Scenes {
		if slices.ContainsFunc(sc.Steps, calls) {
			return true
		}
	}
	return slices.ContainsFunc(s.Steps, calls)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The error is that of a client that has gone; there is nobody to tell.
	_ = json.NewEncoder(w).Encode(v)
}

// Listen serves s on addr until the returned close is called, and returns the
// URL of the server. An addr with port 0 takes a free port.
func Listen(s *Server, addr string) (url string, stop func() error, err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	stop = func() error {
		s.Close()
		err := srv.Close()
		<-done
		return err
	}
	return "http://" + l.Addr().String(), stop, nil
}
