package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/sign/secret"
)

// hinted is why a value is refused, with a remedy of its own. It never quotes
// the value: that may be a key.
type hinted struct{ why, next string }

// Error gives why.
func (h *hinted) Error() string { return h.why }

// The beginnings of a value that names where the value is.
const (
	fromSecret = "secret:"
	fromEnv    = "env:"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// isRef reports whether a value names a secret or a variable.
func isRef(s string) bool {
	if name, ok := strings.CutPrefix(s, fromSecret); ok {
		return secret.CheckName(name) == nil
	}
	name, ok := strings.CutPrefix(s, fromEnv)
	return ok && variable.MatchString(name)
}

// setRef reads where a key is. A key itself is refused: this file is shown,
// copied and pasted.
func setRef(to *string, v any) error {
	s, _ := v.(string)
	if !isRef(s) {
		return &hinted{
			why:  "it is neither secret:NAME nor env:NAME",
			next: "write secret:NAME and run `ferry secret set NAME`; leave key out where the endpoint wants none",
		}
	}
	*to = s
	return nil
}

// envTable reads variables for an engine, and refuses a key among them.
func envTable(v any) (map[string]string, error) {
	table, ok := v.(map[string]any)
	if !ok {
		return nil, &hinted{why: "it is no table of strings", next: `write env = { NAME = "value" }`}
	}
	env := map[string]string{}
	for _, name := range sortedKeys(table) {
		s, ok := table[name].(string)
		if !ok {
			return nil, &hinted{why: fmt.Sprintf("the value of %s is no string", clip(name, 60)), next: "put it in quotes"}
		}
		if !isRef(s) && looksRaw(name, s) {
			return nil, &hinted{
				why:  fmt.Sprintf("the value of %s looks like a key", clip(name, 60)),
				next: "write secret:NAME and run `ferry secret set NAME`",
			}
		}
		env[name] = s
	}
	return env, nil
}

// least is the length from which letters with digits among them, in a variable
// that is named like a secret, are taken for one.
const least = 16

// looksRaw reports whether a value is a key by its form, or is likely one
// because of the variable's name. "ollama" and "4096" are none.
func looksRaw(name, value string) bool {
	if len(redact.New(nil).Find(value)) > 0 {
		return true
	}
	if !engines.SecretName(name) || len(value) < least || strings.ContainsAny(value, " \t\n") ||
		strings.HasPrefix(value, "/") || strings.HasPrefix(value, "~") || strings.Contains(value, "://") {
		return false
	}
	return strings.ContainsAny(value, "0123456789") && strings.ContainsFunc(value, func(r rune) bool { return r > '9' })
}

func setEnv(c *config, v any) error {
	env, err := envTable(v)
	if err != nil {
		return err
	}
	c.Env = env
	return nil
}

// setSaid reads a boolean whose absence means something else than false.
func setSaid(to **bool, v any) error {
	var b bool
	if err := setBool(&b, v); err != nil {
		return err
	}
	*to = &b
	return nil
}

// setNumber reads a number whose absence means something else than 0.
func setNumber(to **int, v any, least, most int64) error {
	var n int
	if err := setInt(&n, v, least, most); err != nil {
		return err
	}
	*to = &n
	return nil
}

// setList reads a list of strings, or one string with commas.
func setList(to *[]string, v any) error {
	s, ok := v.(string)
	if !ok {
		return setStrings(to, v)
	}
	out := []string{}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	*to = out
	return nil
}

var wordForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,31}$`)

func setWord(to *string, v any) error {
	s, _ := v.(string)
	if !wordForm.MatchString(s) {
		return fmt.Errorf("%s is no word of a-z, 0-9, dash, dot, underscore", show(v))
	}
	*to = s
	return nil
}

// maxWords bounds the modalities and strengths of an engine.
const maxWords = 32

func setWords(to *[]string, v any) error {
	var list []string
	if err := setList(&list, v); err != nil {
		return err
	}
	if len(list) > maxWords {
		return fmt.Errorf("it has %d words, the limit is %d", len(list), maxWords)
	}
	for _, s := range list {
		if !wordForm.MatchString(s) {
			return fmt.Errorf("%q in the list is no word of a-z, 0-9, dash, dot, underscore", clip(s, 40))
		}
	}
	*to = list
	return nil
}

// maxAmount bounds dollars.
const maxAmount = 1e6

// amount reads dollars, bare or quoted.
func amount(v any) (float64, error) {
	var n float64
	switch v := v.(type) {
	case int64:
		n = float64(v)
	case float64:
		n = v
	case string:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return 0, fmt.Errorf("%s is no amount", show(v))
		}
		n = f
	default:
		return 0, fmt.Errorf("%s is no amount", show(v))
	}
	if math.IsNaN(n) || n < 0 || n > maxAmount {
		return 0, fmt.Errorf("%s is not between 0 and 1000000", show(v))
	}
	return n, nil
}

func setCost(to **float64, v any) error {
	n, err := amount(v)
	if err != nil {
		return err
	}
	*to = &n
	return nil
}

// setWindow reads "22:00-06:00": from the first minute up to the last one,
// over midnight where the last is the earlier.
func setWindow(c *config, v any) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("%s is no string", show(v))
	}
	var w claimWindow
	span, utc := strings.CutSuffix(s, " UTC")
	from, to, ok := strings.Cut(span, "-")
	start, err1 := time.Parse("15:04", strings.TrimSpace(from))
	end, err2 := time.Parse("15:04", strings.TrimSpace(to))
	if !ok || errors.Join(err1, err2) != nil {
		return fmt.Errorf("%s is no span of hours", show(v))
	}
	w.From, w.To, w.UTC = start.Hour()*60+start.Minute(), end.Hour()*60+end.Minute(), utc
	if w.From == w.To {
		return fmt.Errorf("%s begins when it ends: leave it out for any hour", show(v))
	}
	c.Governor.ClaimWindow = &w
	return nil
}
