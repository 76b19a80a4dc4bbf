package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestConfigDoc compares the tables of docs/agent-toml.md with the keys that
// there are.
func TestConfigDoc(t *testing.T) {
	const path = "../../docs/agent-toml.md"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := string(data)
	head, rest, ok := strings.Cut(got, "<!-- keys -->\n")
	_, tail, end := strings.Cut(rest, "<!-- end of keys -->\n")
	if !ok || !end {
		t.Fatalf("%s has no part between the marks of the keys", path)
	}
	want := head + "<!-- keys -->\n" + keysDoc() + "<!-- end of keys -->\n" + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is stale; run `go test ./cmd/ferry -run TestConfigDoc -update` (-want +got):\n%s", path, diff)
	}
}

// TestConfigExamples reads every example of the pages that show agent.toml.
func TestConfigExamples(t *testing.T) {
	blocks := regexp.MustCompile("(?ms)^```toml\n(.*?)^```$")
	n := 0
	for _, page := range []string{"agent-toml.md", "howto/engines.md", "howto/secrets.md"} {
		data, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range blocks.FindAllStringSubmatch(string(data), -1) {
			n++
			var c config
			err := parseConfig(&c, page, []byte(m[1]))
			if err == nil && len(c.Engines) > 0 {
				_, err = c.engineList()
			}
			if err != nil {
				t.Errorf("%v in:\n%s", err, m[1])
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d examples were found", n)
	}
}

// keysDoc writes a table for each part of agent.toml.
func keysDoc() string {
	var top, box, land, engine []keyText
	for _, k := range configKeys() {
		name, inBox := strings.CutPrefix(k.name, "box.")
		name, inLand := strings.CutPrefix(name, "land.")
		text := k.keyText
		text.name = name
		switch {
		case inBox:
			box = append(box, text)
		case inLand:
			land = append(land, text)
		default:
			top = append(top, text)
		}
	}
	for _, k := range engineKeys() {
		engine = append(engine, k.keyText)
	}
	return keysTable("Above the tables", top) + keysTable("`[engine.NAME]`", engine) + keysTable("`[box]`", box) + keysTable("`[land]`", land) + "\n"
}

func keysTable(title string, keys []keyText) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", title)
	for _, k := range keys {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, k.want, k.def, k.what)
	}
	return b.String()
}
