package attack_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// A body that a member has signed is still read strictly: what two readers could take for two things is nothing, and the chain
// goes on behind it.
func TestHostileBodies(t *testing.T) {
	w := newWorked(t)
	p := w.admit("sender", all...)
	a, b := w.open.String(), w.waits.String()
	bodies := []string{
		"", " ", "null", "[]", `"` + a + `"`, "{", `{"order"`, `{"order":"` + a, `{"order":"` + a + `"`,
		`{"order":"` + a + `","order":"` + b + `"}`, `{"order":"` + a + `","\u006frder":"` + b + `"}`, `{"\u006frder":"` + a + `"}`,
		`{"Order":"` + a + `"}`, `{"ORDER":"` + a + `"}`, `{"order":"` + strings.ToUpper(a) + `x"}`, `{"order":["` + a + `"]}`,
		"\xef\xbb\xbf" + `{"order":"` + a + `"}`, `{"order":"` + a + `"}x`, `{"order":"` + a + `"}` + "\x00", `{"order":"` + a + `"}{"order":"` + b + `"}`,
		`{"order":"` + a + `","reason":"` + "\x00" + `"}`, `{"order":"` + a + `","reason":"\u0000"}`, `{"order":"` + a + `","reason":"\ud800"}`,
		`{"order":"` + a + `","reason":"` + "\xff\xfe" + `"}`, `{"order":"` + a + `","reason":"` + "\n" + `"}`, `{'order':'` + a + `'}`,
		`{"order":"` + a + `",}`, `{"order":"` + a + `"/**/}`, `{order:"` + a + `"}`, `{"order":"` + a + `","x":1.5}`, `{"order":"` + a + `","x":1e9}`,
		`{"order":"` + a + `","x":9007199254740993}`, `{"order":"` + a + `","x":01}`, `{"order":"` + a + `","x":NaN}`, `{"order":"` + a + `","":1}`,
		`{"order":"` + a + `","reason":7}`, `{"order":"` + a + `","reason":{}}`,
		`{"order":"` + a + `","x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
		`{"order":"` + a + `","x":` + strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60) + `}`,
		`{"order":"` + a + `","x":[` + strings.Repeat("1,", 60_000) + `1]}`,
		`{"order":"` + a + `","reason":"` + strings.Repeat("x", 65<<10) + `"}`,
		"\xff\xfe{\x00}\x00", `{"order":"` + strings.Repeat("0", 64) + `","order":"` + a + `"}`,
	}
	var ids []ferry.RecordID
	w.unmoved("bodies that can be read in two ways", func() {
		for _, body := range bodies {
			for _, typ := range []string{"cancel", "interrupt"} {
				if typ == "interrupt" {
					body = strings.Replace(strings.Replace(body, `{"order"`, `{"action":"kill","order"`, 1), `"reason"`, `"note"`, 1)
				}
				ids = append(ids, p.raw(typ, []byte(body)).id)
			}
		}
	})
	ledger := w.ledger()
	for i, id := range ids {
		if e := ledger[id]; e.Counted || e.Why == "" {
			t.Errorf("the body %.80q counts: %v %s", bodies[i/2], e.Counted, e.Why)
		}
	}
	p.write(&ferry.Cancel{Order: w.open})
	w.wantState(w.open, ferry.StateCancelled)
}

// The size of a file says nothing about what it costs: it is not read when it is too large.
func TestHugeFiles(t *testing.T) {
	w := newWorked(t)
	dir := filepath.Join(w.folder, "w", string(wid(t, "wisp")))
	must(t, os.MkdirAll(filepath.Join(dir, "p"), 0o755))
	before := allocated()
	w.unmoved("files of 1 GiB", func() {
		for _, name := range []string{
			"t/0001-0000000050-" + strings.Repeat("a", 32) + ".fr", "p/0001-0000000001-0000000256-" + strings.Repeat("a", 32) + ".fp", "beat", "t/x", "x",
		} {
			must(t, os.WriteFile(filepath.Join(dir, name), []byte("ferry-record 1\n"), 0o644))
			must(t, os.Truncate(filepath.Join(dir, name), 1<<30))
		}
	})
	if used := allocated() - before; used > 256<<20 {
		t.Errorf("%d MiB were allocated", used>>20)
	}
}

// allocated gives the bytes that were ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// nasty are texts that move a boundary, hide or act where they are printed, joined or split.
func nasty() []string {
	return []string{
		"a\nb", "a\r\nb", "\n\nsig 0123456789abcdef AAAA\n", "a,b", `a","b":"c`, `"`, `\`, `\n`, "a\x1b[2J\x1b]0;owned\x07b", "a\u009bb", "a\u202eb\u2066c",
		"a\u200bb\ufeffc", "a\tb", " a ", "-a", "--upload-pack=x", "../../x", "/etc/passwd", "$(touch x)", "`touch x`", "%s%n", "<img src=x onerror=1>",
		"a\u0000b", "a\x7fb", "A", "é", "e\u0301", "\U000e0041", "\u2028", strings.Repeat("x", 5000), "e\xff",
	}
}

// Every text of every kind of record comes back exactly as it was signed, or the record is refused. It never becomes another.
func TestTextOfEveryField(t *testing.T) {
	w := newWorked(t)
	p := w.admit("hand", all...)
	tried := 0
	for _, a := range w.acts(t) {
		for _, text := range nasty() {
			for i := 0; ; i++ {
				body := copyOf(t, a.body)
				if n := i; !setText(reflect.ValueOf(body), &n, text) {
					break
				}
				tried++
				data, err := sign.EncodeJSON(body)
				if err != nil {
					continue
				}
				v, err := sign.Open(p.seal(string(body.Type()), data, nil).data, p.key.Public())
				must(t, err)
				rec, why := channel.Decode(v)
				if rec.Body == nil {
					if why == "" {
						t.Errorf("%s with %q is refused without a reason", a.name, text)
					}
					continue
				}
				if text == "e\xff" {
					continue // it was signed as U+FFFD
				}
				if diff := cmp.Diff(body, rec.Body); diff != "" {
					t.Errorf("%s with %.40q is read as another (-signed +read):\n%s", a.name, text, diff)
				}
			}
		}
	}
	if tried < 2000 {
		t.Errorf("%d texts were tried", tried)
	}
}

func copyOf(t *testing.T, b ferry.Body) ferry.Body {
	t.Helper()
	data, err := json.Marshal(b)
	must(t, err)
	out := ferry.New(b.Type())
	must(t, json.Unmarshal(data, out))
	return out
}

// setText puts a text into the n-th string of a body; it reports false when there are not that many.
func setText(v reflect.Value, n *int, text string) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return setText(v.Elem(), n, text)
	case reflect.Struct:
		for i := range v.NumField() {
			if setText(v.Field(i), n, text) {
				return true
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			if setText(v.Index(0), n, text) {
				return true
			}
			v.SetZero()
			return false
		}
		for i := range v.Len() {
			if setText(v.Index(i), n, text) {
				return true
			}
		}
	case reflect.String:
		if *n == 0 {
			v.SetString(text)
			return true
		}
		*n--
	}
	return false
}

// What members put into texts neither acts on a terminal nor makes lines of its own in a list.
func TestTextOnTheTerminal(t *testing.T) {
	s := newSeat(t, "repo")
	s.ferry(0, "enable", "--command", "cat")
	f := s.fleet()
	p := f.admit("hand", all...)
	id := p.write(&ferry.Order{Label: "t-a", Project: "demo", Text: "first\nsecond"})
	quiet := strings.Count(s.ferry(0, "channel", "log", "--limit", "1000"), "\n")
	w := &worked{fleet: f, good: id, waits: id, runs: id, open: id, question: id, start: id, goodResult: id, waitResult: id, verdict: id, approve: id}
	records := 0
	for _, a := range w.acts(t) {
		switch a.name {
		case "cancel", "kill", "deny":
			continue // the order is to be shown with everything that follows
		}
		for i := 0; ; i++ {
			body := copyOf(t, a.body)
			if n := i; !setText(reflect.ValueOf(body), &n, "x\n0 fake\x1b[2J\u202e\u009b\r\u2028 y") {
				break
			}
			if _, err := sign.EncodeJSON(body); err == nil {
				p.write(body)
				records++
			}
		}
	}
	claim := p.write(&ferry.Claim{Order: id, Attempt: 1})
	begun := p.write(&ferry.Start{Order: id, Attempt: 1, Claim: claim, Engine: "x\x1b[2J\ny", Sandbox: "n\u202e\n"})
	records += 2 + p.actAs(id, begun)
	for _, args := range [][]string{
		{"channel", "log", "--limit", "1000"}, {"channel", "log", "t-a", "--limit", "1000"}, {"channel", "show", "t-a"}, {"channel", "tasks"}, {"channel", "members"},
		{"status"}, {"status", "--why", "t-a"}, {"inbox"}, {"log"}, {"channel", "receipt", "t-a"},
	} {
		path, err := command()
		must(t, err)
		out, _ := s.run(s.repo, append([]string{path}, args...)...)
		for _, bad := range []string{"\x1b", "\u202e", "\u009b", "\r", "\u2028", "\n0 fake"} {
			if strings.Contains(out, bad) && (bad != "\n0 fake" || args[1:2] == nil || args[1] == "log") {
				t.Errorf("ferry %q prints %q:\n%q", args, bad, out)
			}
		}
		if args[0] == "channel" && args[1] == "log" && len(args) == 4 && strings.Count(out, "\n") != quiet+records {
			t.Errorf("the ledger has %d lines, want %d", strings.Count(out, "\n"), quiet+records)
		}
	}
}

// actAs writes what a worker says of a start, with texts that act.
func (p *pen) actAs(id, begun ferry.RecordID) int {
	evil := "x\n0 fake\x1b[2J\u202e y"
	for _, b := range []ferry.Body{
		&ferry.Run{Order: id, Start: begun, Attempt: 1, N: 1, Engine: evil, Model: evil, Reason: evil, Outcome: ferry.Outcome(evil), Started: evil},
		&ferry.Question{Order: id, Key: evil, Text: evil, Options: []ferry.Option{{Name: evil, Text: evil}}},
		&ferry.Result{
			Order: id, Start: begun, Attempt: 1, Revision: 1, Engine: evil, Model: evil, Content: evil, Branch: evil, Answer: evil, Summary: evil, Features: []string{evil},
			Files:   []ferry.File{{Path: evil, Status: evil, ModeOld: evil}},
			Checks:  []ferry.Check{{Command: evil, Exit: 1, Tail: evil, Reason: evil}},
			Facts:   ferry.Facts{Outside: []string{evil}, BadPaths: []string{evil}, Skipped: []string{evil}, Secrets: []string{evil}},
			Sandbox: ferry.Sandbox{Level: evil, Net: evil, Probe: evil}, Usage: ferry.Usage{CostSource: evil, CostMicroUSD: 5},
		},
	} {
		p.write(b)
	}
	return 3
}

// fleet gives the channel of a person at a terminal as a fleet, for the pens of others.
func (s *seat) fleet() *fleet {
	s.t.Helper()
	keys, err := filepath.Glob(filepath.Join(s.state(), "keys", "*", "operator.key"))
	must(s.t, err)
	k, err := sign.LoadKey(keys[0])
	must(s.t, err)
	stores, err := filepath.Glob(filepath.Join(s.state(), "store", "*"))
	must(s.t, err)
	f := &fleet{t: s.t, dir: s.t.TempDir(), folder: filepath.Join(s.state(), "channels", filepath.Base(s.repo))}
	var status struct {
		Projects []struct {
			Channel string `json:"channel_id"`
		} `json:"projects"`
		Channel string `json:"channel_id"`
	}
	must(s.t, json.Unmarshal([]byte(s.ferry(0, "status", "--json")), &status))
	for _, p := range status.Projects {
		status.Channel = p.Channel
	}
	f.id, err = ferry.ParseRecordID(status.Channel)
	must(s.t, err)
	c, err := channel.Open(s.t.Context(), channel.Config{Folder: f.folder, State: stores[0], Judge: judge}, f.id)
	must(s.t, err)
	f.home = &machine{Channel: c, t: s.t}
	s.t.Cleanup(func() { must(s.t, c.Close()) })
	f.master, err = c.Writer(k)
	must(s.t, err)
	return f
}

// The lines that tell apart the header, the signatures and the body of a file are found by length, never by what a text holds.
func TestTextThatLooksLikeAFile(t *testing.T) {
	f := newFleet(t)
	p := f.admit("hand", all...)
	inner := p.seal("note", []byte(`{"order":"","kind":"x","text":"inner"}`), nil)
	id := p.write(&ferry.Note{Kind: "x", Text: string(inner.data)})
	f.unmoved("a record inside of a record", func() {})
	e := f.ledger()[id]
	if n, ok := e.Body.(*ferry.Note); !ok || n.Text != string(inner.data) || !bytes.Contains(inner.data, []byte("\n\n")) {
		t.Errorf("the text came back as %+v", e.Body)
	}
	if _, there := f.ledger()[inner.id]; there {
		t.Error("the record inside was taken for one")
	}
}
