package modelserver

import (
	"net"
	"net/http"
	"time"
)

// play is one request being answered.
type play struct {
	w      http.ResponseWriter
	r      *http.Request
	wire   wire
	ask    ask
	step   Step
	closed <-chan struct{}
	usage  Usage
	id     string
}

func (p play) run() {
	for k, v := range p.step.Headers {
		p.w.Header().Set(k, v)
	}
	switch p.step.Do {
	case DoText, DoWrite, DoShell, DoCall:
		p.answer()
	case DoError:
		p.refuse()
	case DoHang:
		p.hang()
	case DoHangMid:
		p.startStream()
		p.send(p.events()[:1])
		p.hang()
	case DoDrip:
		p.drip()
	case DoCut:
		ev := p.events()
		p.startStream()
		p.send(ev[:len(ev)/2])
		p.drop(false)
	case DoMalformed:
		p.malformed()
	case DoEmpty:
		p.startStream()
	case DoReset:
		p.drop(true)
	}
}

func (p play) answer() {
	a, err := p.make()
	if err != nil {
		writeJSON(p.w, http.StatusInternalServerError, p.wire.fail(http.StatusInternalServerError, "modelserver: "+err.Error()))
		return
	}
	if !p.ask.stream {
		writeJSON(p.w, http.StatusOK, p.wire.body(a))
		return
	}
	p.startStream()
	p.send(p.wire.events(a))
}

func (p play) make() (answer, error) {
	a := answer{id: p.id, model: p.ask.model, text: p.step.Text, usage: p.usage}
	switch p.step.Do {
	case DoWrite, DoShell, DoCall:
		c, err := toolCall(p.step, p.ask)
		if err != nil {
			return answer{}, err
		}
		a.call = &c
	}
	return a, nil
}

// events returns the stream of the step's text, whatever the step does with it.
func (p play) events() []event {
	text := p.step.Text
	if text == "" {
		text = "a scripted answer of several words"
	}
	return p.wire.events(answer{id: p.id, model: p.ask.model, text: text, usage: p.usage})
}

func (p play) refuse() {
	if p.step.Body == "" {
		writeJSON(p.w, p.step.Status, p.wire.fail(p.step.Status, http.StatusText(p.step.Status)))
		return
	}
	if p.w.Header().Get("Content-Type") == "" {
		p.w.Header().Set("Content-Type", "application/json")
	}
	p.w.WriteHeader(p.step.Status)
	// The error is that of a client that has gone; there is nobody to tell.
	_, _ = p.w.Write([]byte(p.step.Body))
}

func (p play) startStream() {
	p.w.Header().Set("Content-Type", "text/event-stream")
	p.w.WriteHeader(http.StatusOK)
	p.flush()
}

func (p play) send(events []event) {
	for _, e := range events {
		if _, err := p.w.Write([]byte(e.String())); err != nil {
			return
		}
	}
	p.flush()
}

func (p play) flush() {
	// A writer that cannot flush only delays the bytes.
	_ = http.NewResponseController(p.w).Flush()
}

func (p play) drip() {
	p.startStream()
	for _, e := range p.events() {
		p.send([]event{e})
		select {
		case <-time.After(p.step.delay()):
		case <-p.r.Context().Done():
			return
		case <-p.closed:
			return
		}
	}
}

func (p play) malformed() {
	p.startStream()
	for _, e := range p.events() {
		p.send([]event{{"", "{this is not json"}, e})
	}
}

// hang waits until the client or the server goes away.
func (p play) hang() {
	select {
	case <-p.r.Context().Done():
	case <-p.closed:
	}
	p.drop(false)
}

// drop ends the connection without an end of the answer; with a reset where the
// transport has one.
func (p play) drop(reset bool) {
	conn, _, err := http.NewResponseController(p.w).Hijack()
	if err != nil {
		return
	}
	if t, ok := conn.(*net.TCPConn); ok && reset {
		// Without the reset the client sees an ordinary end, which is as broken.
		_ = t.SetLinger(0)
	}
	// The connection is being destroyed on purpose.
	_ = conn.Close()
}
