package modelserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// MaxScriptBytes bounds a script file.
const MaxScriptBytes = 4 << 20

// The things a step can do.
const (
	DoText      = "text"      // answer with Text
	DoWrite     = "write"     // call the tool that writes Content to Path
	DoShell     = "shell"     // call the tool that runs Cmd
	DoCall      = "call"      // call the tool Tool with Args, as they are
	DoError     = "error"     // answer Status with Headers and Body, Times times (0 = always), then Then
	DoHang      = "hang"      // accept the request and never answer
	DoHangMid   = "hang_mid"  // send headers and the first event, then nothing
	DoDrip      = "drip"      // answer with Text, one small event each DelayMS
	DoCut       = "cut"       // send half of the answer, then close the connection
	DoMalformed = "malformed" // put lines that are no JSON between the events of Text
	DoEmpty     = "empty"     // answer 200 with no body
	DoReset     = "reset"     // reset the connection before any byte
)

// Script says what the server answers.
type Script struct {
	// Key, where set, is the API key that every request must carry; others get 401.
	Key string `json:"key,omitempty"`
	// Usage is what each answer reports; zero means 100 in and 10 out.
	Usage Usage `json:"usage,omitzero"`
	// Scenes are tried in order: the first whose When occurs in the request is played.
	Scenes []Scene `json:"scenes,omitempty"`
	// Steps is played where no scene matches.
	Steps []Step `json:"steps,omitempty"`
	// Documents are what a GET of a path gets, with the key, in the place of what
	// the server has there itself.
	Documents map[string]json.RawMessage `json:"documents,omitempty"`
}

// Scene is a list of steps for the requests that contain When.
type Scene struct {
	When  string `json:"when"`
	Steps []Step `json:"steps"`
}

// Usage is the token count that an answer reports.
type Usage struct {
	In        int64 `json:"in"`
	Out       int64 `json:"out"`
	Cached    int64 `json:"cached,omitempty"`
	Reasoning int64 `json:"reasoning,omitempty"`
}

// Step is one thing that the model does. Which fields count depends on Do; Headers
// go with every answer that has some.
type Step struct {
	Do      string            `json:"do"`
	Text    string            `json:"text,omitempty"`
	Path    string            `json:"path,omitempty"`
	Content string            `json:"content,omitempty"`
	Cmd     string            `json:"cmd,omitempty"`
	Tool    string            `json:"tool,omitempty"`
	Args    json.RawMessage   `json:"args,omitempty"`
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	Times   int               `json:"times,omitempty"`
	Then    *Step             `json:"then,omitempty"`
	DelayMS int               `json:"delay_ms,omitempty"`
}

func (s Step) delay() time.Duration {
	if s.DelayMS == 0 {
		return time.Second
	}
	return time.Duration(s.DelayMS) * time.Millisecond
}

// ReadScript reads a script in JSON. Unknown fields and steps are errors.
func ReadScript(r io.Reader) (Script, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxScriptBytes+1))
	if err != nil {
		return Script{}, fmt.Errorf("read script: %w", err)
	}
	if len(data) > MaxScriptBytes {
		return Script{}, fmt.Errorf("read script: more than %d bytes", MaxScriptBytes)
	}
	var s Script
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return Script{}, fmt.Errorf("read script: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Script{}, errors.New("read script: text after the end of the script")
	}
	return s, s.Check()
}

// Check reports the first step that cannot be played.
func (s Script) Check() error {
	if len(s.Steps) == 0 && len(s.Scenes) == 0 {
		return errors.New("script: no steps")
	}
	for path, doc := range s.Documents {
		if !strings.HasPrefix(path, "/") || !json.Valid(doc) {
			return fmt.Errorf("script: document %q: wants a path that begins with / and JSON", path)
		}
	}
	for i, sc := range s.Scenes {
		if sc.When == "" {
			return fmt.Errorf("script: scene %d: when is empty", i)
		}
		if err := checkSteps(sc.Steps); err != nil {
			return fmt.Errorf("script: scene %q: %w", sc.When, err)
		}
	}
	if err := checkSteps(s.Steps); err != nil {
		return fmt.Errorf("script: %w", err)
	}
	return nil
}

func checkSteps(steps []Step) error {
	for i, st := range steps {
		if err := st.check(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

func (s Step) check() error {
	switch s.Do {
	case DoText, DoHang, DoHangMid, DoDrip, DoCut, DoMalformed, DoEmpty, DoReset:
		return nil
	case DoWrite:
		if s.Path == "" {
			return errors.New("write: path is empty")
		}
	case DoShell:
		if s.Cmd == "" {
			return errors.New("shell: cmd is empty")
		}
	case DoCall:
		if s.Tool == "" || !json.Valid(s.Args) {
			return errors.New("call: wants tool and args in JSON")
		}
	case DoError:
		if s.Status < 400 || s.Status > 599 {
			return fmt.Errorf("error: status %d is not 400 to 599", s.Status)
		}
		if s.Then != nil {
			return s.Then.check()
		}
	default:
		return fmt.Errorf("do %q is none of text, write, shell, call, error, hang, hang_mid, drip, cut, malformed, empty, reset", s.Do)
	}
	return nil
}

// steps returns the list that the request is played from, and its name.
func (s Script) steps(body []byte) ([]Step, string) {
	for _, sc := range s.Scenes {
		if strings.Contains(string(body), sc.When) {
			return sc.Steps, sc.When
		}
	}
	return s.Steps, ""
}

func (s Script) usage() Usage {
	if s.Usage == (Usage{}) {
		return Usage{In: 100, Out: 10}
	}
	return s.Usage
}
