package redact

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// window is how much text a Writer holds back at most.
const window = 64 << 10

const tokenBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_.~-"

// Writer returns a writer that passes text on to w with its secrets hidden. Text is passed on line by line, so that a
// secret is found in whatever pieces it is written; a key of several lines is held back until its end. Close passes on the
// last, unfinished line and does not close w. It is for one goroutine.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser { return &writer{redactor: r, to: w} }

type writer struct {
	redactor *Redactor
	to       io.Writer
	pending  []byte
	wait     int  // how long pending must be before it is searched again
	swallow  bool // inside of a token that is longer than the window
	closed   bool
	err      error
}

// Write takes all of p, unless an earlier piece could not be passed on.
func (w *writer) Write(p []byte) (int, error) {
	if w.closed {
		return 0, errors.New("write to a closed redacting writer")
	}
	if w.err != nil {
		return 0, w.err
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), window)
		w.take(rest[:n])
		rest = rest[n:]
	}
	return len(p), w.err
}

func (w *writer) take(p []byte) {
	if w.swallow {
		end := bytes.IndexFunc(p, func(c rune) bool { return !strings.ContainsRune(tokenBytes, c) })
		if end < 0 {
			return
		}
		p, w.swallow = p[end:], false
	}
	w.pending = append(w.pending, p...)
	if len(w.pending) <= window && !w.due(p) {
		return
	}
	text := string(w.pending)
	hits := w.redactor.Find(text)
	cut := w.cut(text, hits)
	if cut == 0 && len(text) > window {
		w.overflow(text, hits)
		return
	}
	w.emit(text[:cut], hits)
	w.pending = append(w.pending[:0], text[cut:]...)
	if w.wait = 0; bytes.ContainsAny(w.pending, "\r\n") {
		w.wait = 2 * len(w.pending)
	}
}

// due reports whether pending is to be searched, of which p came last. Lines that are held back for what may follow them
// are searched again when twice as much is there or a key ends, so that a long key does not cost its length squared.
func (w *writer) due(p []byte) bool {
	if !bytes.ContainsAny(p, "\r\n") {
		return false
	}
	const end = "-----END"
	return len(w.pending) >= w.wait || bytes.Contains(w.pending[max(0, len(w.pending)-len(p)-len(end)-64):], []byte(end))
}

// cut returns how much of text can be passed on: whole lines, up to a secret that may go on in what is still to come.
func (w *writer) cut(text string, hits []Hit) int {
	cut := strings.LastIndexAny(text, "\r\n") + 1
	if cut > 0 {
		cut = w.redactor.heldFrom(text[:cut])
	}
	for _, h := range hits {
		if h.Start < cut && h.End >= cut {
			cut = h.Start
		}
	}
	return cut
}

// overflow makes room when the window is full and holds no place to cut. A secret that fills its end is hidden with all
// that follows of it; otherwise the older half is passed on.
func (w *writer) overflow(text string, hits []Hit) {
	cut := len(text) / 2
	for _, h := range hits {
		if h.Start >= cut || h.End < cut {
			continue
		}
		if h.End < len(text) {
			cut = h.End
			continue
		}
		w.emit(text, hits)
		w.pending = w.pending[:0]
		if h.Kind == privateKey {
			w.pending = append(w.pending, "-----BEGIN PRIVATE KEY-----\n"...)
		} else {
			w.swallow = true
		}
		return
	}
	w.emit(text[:cut], hits)
	w.pending = append(w.pending[:0], text[cut:]...)
}

// emit passes text on, of which hits are the ones that begin in it.
func (w *writer) emit(text string, hits []Hit) {
	n := 0
	for n < len(hits) && hits[n].Start < len(text) {
		n++
	}
	if text == "" || w.err != nil {
		return
	}
	_, w.err = io.WriteString(w.to, replace(text, hits[:n]))
}

// Close passes on what is held back.
func (w *writer) Close() error {
	if !w.closed {
		w.closed = true
		text := string(w.pending)
		w.emit(text, w.redactor.Find(text))
		w.pending = nil
	}
	return w.err
}
