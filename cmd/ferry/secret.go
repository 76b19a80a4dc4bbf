package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/sign/secret"
)

func (a *app) secretCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "keys of engines, sealed on this machine",
		Long: `A secret is a value that agent.toml names as secret:NAME and never holds. It is
kept sealed in ferry's state directory, for every project of this machine, and
is given only to the engines that name it. No verb shows it again.`,
		Example: "  ferry secret set OPENROUTER_API_KEY\n  ferry secret list",
		RunE:    a.family,
	}
	cmd.AddCommand(a.secretSetCommand(), a.secretListCommand(), a.secretRemoveCommand())
	return cmd
}

func (a *app) secretSetCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "keep a value under a name",
		Long: `Set asks for the value without showing it, or reads it from standard input, where
one line feed at its end is left out. A worker that runs reads it when it is
started again.`,
		Example: `  ferry secret set OPENROUTER_API_KEY
  pass show openrouter | ferry secret set OPENROUTER_API_KEY
  ferry secret set OPENROUTER_API_KEY --from-env OPENROUTER_API_KEY`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return misuse("run it with the name alone: the value is asked for, or read from standard input",
					"%s: a value as an argument is seen by others and kept by the shell", cmd.CommandPath())
			}
			return exactly("NAME")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.secretSet(args[0], from, cmd.InOrStdin()) },
	}
	cmd.Flags().StringVar(&from, "from-env", "", "take the value of the variable `VARIABLE`")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) secretListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "the names that are set, and which engines use them",
		Long:    `List shows the names, when each was set, and the engines of this machine's projects that name it. It never shows a value.`,
		Example: `  ferry secret list --json`,
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.secretList(cmd.Context()) },
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) secretRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm NAME",
		Short:   "forget a value",
		Example: `  ferry secret rm OPENROUTER_API_KEY`,
		Args:    exactly("NAME"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.secretRemove(args[0]) },
	}
	a.jsonFlag(cmd)
	return cmd
}

// secretSetShape answers secret set.
type secretSetShape struct {
	Name     string `json:"name"`
	Replaced bool   `json:"replaced"`
	UseAs    string `json:"use_as"`
}

func (a *app) secretSet(name, from string, in io.Reader) error {
	if err := checkSecretName(name); err != nil {
		return err
	}
	value, err := a.secretValue(name, from, in)
	if err != nil {
		return err
	}
	if err := secret.CheckValue(value); err != nil {
		return misuse("give it again: `ferry secret set "+name+"`", "secret %s: %w", name, err)
	}
	s, err := stateDir()
	if err != nil {
		return err
	}
	shape := secretSetShape{Name: name, UseAs: fromSecret + name}
	if shape.Replaced, err = s.secrets().Set(name, value, a.now()); err != nil {
		return s.sealFault(err)
	}
	return a.print(shape, func(w io.Writer) {
		did := "set"
		if shape.Replaced {
			did = "set again: the value before is gone"
		}
		fmt.Fprintf(w, "secret %s is %s\nnext: name it in agent.toml as %q\n", name, did, shape.UseAs)
	})
}

func checkSecretName(name string) error {
	if err := secret.CheckName(name); err != nil {
		return misuse("give it a name like OPENROUTER_API_KEY", "this name: %w", err) // it could be the value
	}
	if len(redact.New(nil).Find(name)) > 0 {
		return misuse("give a name like OPENROUTER_API_KEY; the value is asked for, or read from standard input",
			"this name: it looks like the value itself, which is seen by others as an argument and kept by the shell: change that key")
	}
	return nil
}

// secretValue reads the value from a variable, a terminal or standard input.
func (a *app) secretValue(name, from string, in io.Reader) (string, error) {
	if from != "" {
		if !variable.MatchString(from) {
			return "", misuse("name the variable, not its value", "--from-env: it is no name of a variable")
		}
		value := environ(from)
		if value == "" {
			return "", misuse("export it, or leave --from-env out to be asked", "--from-env %s: this variable is not set", from)
		}
		return value, nil
	}
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return a.askHidden(file, "value of "+name+" (it is not shown): ")
	}
	value, err := io.ReadAll(io.LimitReader(in, secret.MaxValue+2))
	if err != nil {
		return "", fmt.Errorf("read the value: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(value), "\n"), "\r"), nil
}

// maxTyped is where a terminal's line ends, whatever more is typed: maxLineLen of golang.org/x/term.
const maxTyped = 4096

// askHidden asks on a terminal for a line that is not shown. The terminal is quiet before it asks: what is typed or
// pasted at the first sight of the question is not shown either.
func (a *app) askHidden(file *os.File, question string) (string, error) {
	fd := int(file.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", fmt.Errorf("quieten the terminal: %w", err)
	}
	defer func() { _ = term.Restore(fd, before) }()
	line, err := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{file, a.err}, "").ReadPassword(question)
	switch {
	case errors.Is(err, io.EOF):
		return "", &failure{class: classInterrupted, err: errors.New("interrupted: nothing is changed"), code: 130}
	case len(line) >= maxTyped:
		return "", misuse("give it to standard input: command < FILE", "the terminal: it takes less than %d characters in a line", maxTyped)
	}
	return line, err
}

// sealFault says what to do about a store that does not open.
func (s state) sealFault(err error) error {
	dir := filepath.Join(string(s), "secrets")
	switch {
	case errors.Is(err, secret.ErrNotSet):
		return fault(classNotFound, "`ferry secret list` shows the names", err)
	case errors.Is(err, secret.ErrNoIdentity):
		return fault(classKey, fmt.Sprintf("put %s back, or remove %s and set every value again",
			filepath.Join(dir, secret.IdentityFile), filepath.Join(dir, secret.SealedFile)), err)
	case errors.Is(err, os.ErrPermission):
		return fault(classKey, "make "+dir+" and the files in it yours alone: chmod -R go= "+dir, err)
	}
	return fault(classKey, "look at the files in "+dir+"; without them no value is set, and all can be set again", err)
}

func (a *app) secretRemove(name string) error {
	if err := checkSecretName(name); err != nil {
		return err
	}
	s, err := stateDir()
	if err != nil {
		return err
	}
	users, _ := a.secretUsers(s)
	if err := s.secrets().Remove(name); err != nil {
		return s.sealFault(err)
	}
	shape := struct {
		Name   string   `json:"name"`
		UsedBy []string `json:"used_by"`
	}{name, orEmpty(users[name])}
	return a.print(shape, func(w io.Writer) {
		fmt.Fprintf(w, "secret %s is gone\n", name)
		if len(shape.UsedBy) > 0 {
			fmt.Fprintf(w, "next: these engines name it and cannot run without it: %s\n", redact.Visible(strings.Join(shape.UsedBy, ", ")))
		}
	})
}

// secretShape is one name of secret list.
type secretShape struct {
	Name   string     `json:"name"`
	Set    *time.Time `json:"set"` // null for a name that an engine uses and nobody has set
	UsedBy []string   `json:"used_by"`
}

// secretsShape answers secret list.
type secretsShape struct {
	Secrets []secretShape `json:"secrets"`
}

func (a *app) secretList(ctx context.Context) error {
	s, err := stateDir()
	if err != nil {
		return err
	}
	infos, err := s.secrets().List()
	if err != nil {
		return s.sealFault(err)
	}
	users, unread := a.secretUsers(s)
	for _, err := range unread {
		a.warn("warning: its secrets are not known: %v", explain(ctx, err))
	}
	shape := secretsShape{Secrets: []secretShape{}}
	for _, i := range infos {
		shape.Secrets = append(shape.Secrets, secretShape{i.Name, &i.Set, orEmpty(users[i.Name])})
		delete(users, i.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		shape.Secrets = append(shape.Secrets, secretShape{name, nil, users[name]})
	}
	return a.print(shape, func(w io.Writer) { a.secretTable(w, shape.Secrets) })
}

func (a *app) secretTable(w io.Writer, all []secretShape) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no secrets; `ferry secret set NAME` keeps one")
		return
	}
	var rows [][]string
	for _, s := range all {
		set := "not set"
		if s.Set != nil {
			set = s.Set.Local().Format("2006-01-02 15:04")
		}
		rows = append(rows, []string{s.Name, set, strings.Join(s.UsedBy, ", ")})
	}
	a.table(w, []string{"name", "set", "used by"}, rows)
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// secretUsers finds the engines of this machine's projects that name secrets,
// as PROJECT/ENGINE. A configuration that cannot be read is in the errors.
func (a *app) secretUsers(s state) (map[string][]string, []error) {
	users := map[string][]string{}
	var unread []error
	for _, r := range s.registry() {
		first := filepath.Join(r.Dir, localDir, configFile)
		if !isFile(first) {
			continue // a project that moved away
		}
		second, err := filepath.Glob(filepath.Join(globEscape(r.Dir), localDir, "agents", "*.toml"))
		if err != nil {
			unread = append(unread, err)
		}
		files := [][]string{{first}}
		for _, f := range second {
			files = append(files, []string{first, f})
		}
		for _, f := range files {
			if err := addUsers(users, r.Name, f); err != nil {
				unread = append(unread, err)
			}
		}
	}
	return users, unread
}

func addUsers(users map[string][]string, project string, files []string) error {
	c, err := loadConfig(files...)
	if err != nil {
		return err
	}
	list, err := c.engineList()
	if err != nil {
		return err
	}
	for i := range list {
		who := project + "/" + string(list[i].Name)
		for _, ref := range refs(&list[i]) {
			name, ok := strings.CutPrefix(ref, fromSecret)
			if ok && !slices.Contains(users[name], who) {
				users[name] = append(users[name], who)
			}
		}
	}
	return nil
}

// globEscape makes a directory's name stand for itself in a pattern.
func globEscape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}
