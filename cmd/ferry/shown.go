package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// setShown reads [box] ro, and refuses what no run may see, so that it is said
// where it is written and not when an order runs.
func setShown(c *config, v any) error {
	if err := setPaths(&c.Box.RO, v); err != nil {
		return err
	}
	for _, path := range c.Box.RO {
		if err := checkShown(path); err != nil {
			return err
		}
	}
	return nil
}

// checkShown refuses a host path that is, or holds, a home directory, and the
// directories of the system that hold everybody's secrets. A path that
// cannot be followed is judged by its name: it may come to be.
func checkShown(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = filepath.Clean(path)
	}
	if slices.Contains([]string{"/", "/etc", "/proc", "/sys", "/dev", "/run", "/var", "/home"}, real) {
		return fmt.Errorf("%s is too much of the machine", path)
	}
	if real == "/root" || filepath.Dir(real) == "/home" {
		return fmt.Errorf("%s is a home directory", path)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil // without a home there is none to show
	}
	if resolved, err := filepath.EvalSymlinks(home); err == nil {
		home = resolved
	}
	if home == real || strings.HasPrefix(home, strings.TrimSuffix(real, "/")+"/") {
		return fmt.Errorf("%s holds your home directory", path)
	}
	return nil
}
