package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/internal/redact"
)

// TestLogsShowNoSecret logs a value that ferry knows, and one of a known form, in each place where a log has texts.
func TestLogsShowNoSecret(t *testing.T) {
	const known, form = "canary-0aa8b1c7d5", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	var out bytes.Buffer
	a := newApp(&out, &out)
	log := a.workLog(redact.New([]string{known}))
	for _, secret := range []string{known, form} {
		log.With("agent", secret).Warn("msg "+secret, "text", secret, "err", fmt.Errorf("on: %w", errors.New(secret)), "any", []string{secret})
	}
	a.log().Warn(form, "err", errors.New(form))
	if strings.Contains(out.String(), known) || strings.Contains(out.String(), form) {
		t.Errorf("a secret is in the log:\n%s", out.String())
	}
	if n := strings.Count(out.String(), "level=WARN"); n != 3 {
		t.Errorf("%d lines of a level, want 3:\n%s", n, out.String())
	}
}
