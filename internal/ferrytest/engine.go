package ferrytest

import (
	"os"
	"path/filepath"

	"github.com/ferry-fleet/ferry/engines"
)

// Engine writes a shell script that plays the part of an agent CLI and gives
// the engine that runs it. The script gets the prompt as $1 and runs in the
// tree of the run.
func (m *Machine) Engine(name, script string) engines.Config {
	m.T.Helper()
	dir := filepath.Join(m.Dir, "engines")
	m.Must(os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, name)
	m.Must(os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	return engines.Config{Name: "script", Kind: engines.KindCLI, Command: path, Args: []string{"{prompt}"}, Bypass: true}
}
