package attack_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// leakedKey is the key of an engine that tells it to everybody. It has the form of no known token.
const leakedKey = "Zq7-correct.horse/battery+42"

// leaks is an engine that prints its key in every spelling, in pieces, over lines, as its answer and as a fault.
const leaks = `#!/bin/sh
k=$MY_API_KEY
echo "out $k"
echo "err $k" >&2
printf 'base64 '; printf 'user:%s' "$k" | base64
printf 'wrapped '; printf 'the key is %s and no other' "$k" | base64 -w 24
printf 'hex '; printf '%s' "$k" | od -An -tx1 | tr -d ' \n'; echo
printf '%s\n%s\n' "$(printf '%s' "$k" | cut -c1-11)" "$(printf '%s' "$k" | cut -c12-)"
for i in 1 2 3; do printf '%s' "$k"; done; echo
env
echo work >work.txt
echo "the answer is $k"
`

// spelled are the forms in which the key is looked for.
func spelled() [][]byte {
	k := []byte(leakedKey)
	inner := base64.StdEncoding.EncodeToString(append([]byte("user:"), k...))
	return [][]byte{
		k, k[:11], k[len(k)-11:], []byte(hex.EncodeToString(k)), []byte(inner[8 : len(inner)-4]),
		[]byte(base64.StdEncoding.EncodeToString(k)[:30]),
	}
}

// holding gives the files below dir that hold the key in some form.
func holding(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, form := range spelled() {
			if bytes.Contains(text, form) {
				out = append(out, strings.TrimPrefix(path, dir))
				break
			}
		}
		return err
	}))
	return out
}

// An engine that tells its key in every way puts it into no file of ours: not into the log of the run, the journal, the
// records, the index or the folder. And no command shows it, and no object of the gate holds it.
func TestEngineTellsItsKey(t *testing.T) {
	s := newSeat(t, "repo")
	agent := filepath.Join(s.home, "bin", "my-agent")
	must(t, os.MkdirAll(filepath.Dir(agent), 0o755))
	must(t, os.WriteFile(agent, []byte(leaks), 0o755))
	s.ferry(0, "enable", "--email", "ada@example.com", "--command", agent)
	must(t, os.WriteFile(filepath.Join(s.repo, ".ferry", "credentials.json"), []byte(`{"MY_API_KEY": "`+leakedKey+`"}`), 0o600))
	s.ferry(0, "channel", "order", "--id", "t-leak", "--task", "work", "--check", "test -f work.txt && env")
	said := s.ferry(0, "agent", "run", "--once")
	said += s.ferry(0, "channel", "show", "t-leak") + s.ferry(0, "log", "t-leak") + s.ferry(0, "channel", "tasks", "--json")
	if !strings.Contains(said, "out [redacted secret]") || !strings.Contains(said, "the answer is [redacted secret]") {
		t.Fatalf("the engine did not say what it was to say:\n%s", said)
	}
	for _, form := range spelled() {
		if strings.Contains(said, string(form)) {
			t.Errorf("%q is shown:\n%s", form, said)
		}
	}
	if got := holding(t, s.state()); len(got) != 0 {
		t.Errorf("files of the state directory hold the key: %v", got)
	}
	gates, err := filepath.Glob(filepath.Join(s.state(), "gate", "*.git"))
	if err != nil || len(gates) != 1 {
		t.Fatalf("gates: %v, %v", gates, err)
	}
	objects, code := s.run(s.repo, "/usr/bin/env", "git", "--git-dir", gates[0], "cat-file", "--batch-all-objects", "--batch")
	if code != 0 || !strings.Contains(objects, "t-leak") {
		t.Fatalf("the objects of the gate cannot be read: %d", code)
	}
	for _, form := range spelled() {
		if strings.Contains(objects, string(form)) {
			t.Errorf("an object of the gate holds %q", form)
		}
	}
}

// A secret in a file that the engine adds refutes the result: it is not accepted and does not land, and its value is not
// in what is said of it.
func TestEngineAddsItsKeyToTheTree(t *testing.T) {
	s := newSeat(t, "repo")
	agent := filepath.Join(s.home, "bin", "my-agent")
	must(t, os.MkdirAll(filepath.Dir(agent), 0o755))
	must(t, os.WriteFile(agent, []byte("#!/bin/sh\nprintf 'key: %s\\n' \"$MY_API_KEY\" | fold -w 20 >config.yaml\necho done\n"), 0o755))
	s.ferry(0, "enable", "--email", "ada@example.com", "--command", agent)
	must(t, os.WriteFile(filepath.Join(s.repo, ".ferry", "credentials.json"), []byte(`{"MY_API_KEY": "`+leakedKey+`"}`), 0o600))
	s.ferry(0, "channel", "order", "--id", "t-leak", "--task", "work", "--check", "cat config.yaml")
	s.ferry(0, "agent", "run", "--once")
	said := s.ferry(0, "channel", "show", "t-leak")
	if !strings.Contains(said, "refuted") || !strings.Contains(said, "config.yaml: secret") {
		t.Errorf("the result is not refuted for its secret:\n%s", said)
	}
	s.ferry(1, "channel", "review", "t-leak", "--accept")
	s.ferry(1, "channel", "land", "t-leak")
	if got := holding(t, filepath.Join(s.state(), "channels")); len(got) != 0 {
		t.Errorf("the folder holds the key: %v", got)
	}
}

// A secret that the engine puts into the name of a file refutes the result as well, and one in the subjects of its own
// commits does not get into ours. Neither is in the folder or in what is shown.
func TestEngineNamesThingsByItsKey(t *testing.T) {
	const key = "Zq7-correct.horse+battery+43"
	s := newSeat(t, "repo")
	agent := filepath.Join(s.home, "bin", "my-agent")
	must(t, os.MkdirAll(filepath.Dir(agent), 0o755))
	must(t, os.WriteFile(agent, []byte("#!/bin/sh\nset -e\nprintf work >\"$MY_API_KEY.txt\"\ngit add -A\n"+
		"git -c user.name=x -c user.email=x@example.com commit -qm \"add $MY_API_KEY\"\necho done\n"), 0o755))
	s.ferry(0, "enable", "--email", "ada@example.com", "--command", agent)
	must(t, os.WriteFile(filepath.Join(s.repo, ".ferry", "credentials.json"), []byte(`{"MY_API_KEY": "`+key+`"}`), 0o600))
	s.ferry(0, "channel", "order", "--id", "t-name", "--task", "work", "--check", "true")
	said := s.ferry(0, "agent", "run", "--once") + s.ferry(0, "channel", "show", "t-name")
	if !strings.Contains(said, "refuted") || !strings.Contains(said, "in the name of the file") {
		t.Errorf("the result is not refuted for the name of its file:\n%s", said)
	}
	gates, err := filepath.Glob(filepath.Join(s.state(), "gate", "*.git"))
	if err != nil || len(gates) != 1 {
		t.Fatalf("gates: %v, %v", gates, err)
	}
	messages, code := s.run(s.repo, "/usr/bin/env", "git", "--git-dir", gates[0], "log", "--all", "--format=%B")
	if code != 0 || !strings.Contains(messages, "add [redacted secret]") {
		t.Errorf("the messages of the commits (%d):\n%s", code, messages)
	}
	for what, text := range map[string]string{"what is shown": said, "a message": messages} {
		if strings.Contains(text, key) {
			t.Errorf("%s holds the key:\n%s", what, text)
		}
	}
	s.ferry(1, "channel", "land", "t-name")
	must(t, filepath.WalkDir(filepath.Join(s.state(), "channels"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(key)) {
			t.Errorf("%s holds the key", path)
		}
		return err
	}))
}
