package engines

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry/internal/process"
)

// ErrMissing is the cause when an engine's command cannot be run here.
var ErrMissing = errors.New("command is missing")

// Installed is where an engine's command lies on this machine.
type Installed struct {
	// Path is the program itself, behind every link.
	Path string
	// Interpreter is what a script names in its first line, "" for a binary.
	Interpreter string
	// Dirs are the files and directories beside the system's own that a box must
	// show read-only: the package with the packages beside it, the interpreter.
	Dirs []string
	// PathDirs go in front of PATH so that the interpreter is found.
	PathDirs []string
}

// system are the directories that every box shows.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"}

// Resolve finds a command on a PATH value and what it needs to run in a box: an
// npm command is a link into a package whose platform binaries lie in packages
// beside it.
func Resolve(command, path string) (Installed, error) {
	in, err := resolve(command, path)
	if err != nil {
		return Installed{}, fmt.Errorf("engine command %q: %w", command, err)
	}
	return in, nil
}

func resolve(command, path string) (Installed, error) {
	found, err := process.LookPath(command, path)
	if err != nil {
		return Installed{}, fmt.Errorf("%w: %w; is it installed and on PATH?", ErrMissing, err)
	}
	in := Installed{}
	if in.Path, err = filepath.EvalSymlinks(found); err != nil {
		return Installed{}, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	head, err := readHead(in.Path)
	if err != nil {
		return Installed{}, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if bytes.HasPrefix(head, []byte("MZ")) && filepath.Ext(found) == ".exe" {
		return Installed{}, fmt.Errorf("%w: %s is a Windows program; point command at the Linux one", ErrMissing, in.Path)
	}
	in.show(packageRoot(in.Path))
	if name := interpreter(head); name != "" {
		if err := in.interpret(name, path); err != nil {
			return Installed{}, err
		}
	}
	return in, nil
}

func (in *Installed) interpret(name, path string) error {
	found, err := process.LookPath(name, path)
	if err != nil {
		return fmt.Errorf("%w: it is a script for %s: %w", ErrMissing, name, err)
	}
	if in.Interpreter, err = filepath.EvalSymlinks(found); err != nil {
		return fmt.Errorf("%w: interpreter %s: %w", ErrMissing, name, err)
	}
	if in.show(in.Interpreter) {
		in.PathDirs = append(in.PathDirs, filepath.Dir(in.Interpreter))
	}
	return nil
}

// show adds what the box does not show by itself.
func (in *Installed) show(path string) bool {
	own := slices.ContainsFunc(system, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, dir+"/")
	})
	if own {
		return false
	}
	if !slices.Contains(in.Dirs, path) {
		in.Dirs = append(in.Dirs, path)
	}
	return true
}

// packageRoot is the outermost node_modules above the program, else the program
// alone: its directory may be one where a person keeps other things.
func packageRoot(path string) string {
	const dir = "/node_modules/"
	if i := strings.Index(path, dir); i >= 0 {
		return path[:i+len(dir)-1]
	}
	return path
}

func readHead(path string) (head []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "run", Path: path, Err: errors.New("is no regular file")}
	}
	if info.Mode()&0o111 == 0 {
		return nil, &fs.PathError{Op: "run", Path: path, Err: errors.New("is not executable")}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	head = make([]byte, 256)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return head[:n], nil
}

// interpreter reads the first line of a script: the program that env looks for,
// or the one that is named.
func interpreter(head []byte) string {
	if !bytes.HasPrefix(head, []byte("#!")) {
		return ""
	}
	line, err := bufio.NewReader(bytes.NewReader(head[2:])).ReadString('\n')
	if err != nil {
		return ""
	}
	words := strings.Fields(line)
	if len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return w
		}
	}
	return ""
}

const (
	versionClock = 20 * time.Second
	versionBytes = 64 << 10
)

// Version asks the command for its version: the first line that it prints.
func (in Installed) Version(ctx context.Context, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionClock)
	defer cancel()
	stderr := process.NewKeep(versionBytes, 0)
	out, _, err := process.Output(ctx, process.Spec{Argv: []string{in.Path, "--version"}, Env: env, Dir: "/", Stderr: stderr}, versionBytes)
	if err != nil {
		return "", fmt.Errorf("version of %s: %w", in.Path, err)
	}
	// pi prints its version to standard error.
	for _, text := range []string{string(out), string(stderr.Bytes())} {
		if line := firstLine(text, 200); line != "" {
			return line, nil
		}
	}
	return "", fmt.Errorf("version of %s: no answer", in.Path)
}
