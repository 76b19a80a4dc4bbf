package main

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/internal/process"
)

// mostShare is the largest part of all initialisation that one package may
// have: above it, that package is what every command waits for. It is a share
// and no time, because the machine of a test has other work.
const mostShare = 0.6

// TestStartCost runs `ferry version` and shows whose package initialisation
// takes the time of every command. The fastest of a few runs counts.
func TestStartCost(t *testing.T) {
	best := []initCost{{"none", 1e9}}
	for range 5 {
		if costs := initCosts(t); total(costs) < total(best) {
			best = costs
		}
	}
	slices.SortFunc(best, func(a, b initCost) int { return cmp.Compare(b.millis, a.millis) })
	for _, c := range best[:min(8, len(best))] {
		t.Logf("%6.2f ms %s", c.millis, c.pkg)
	}
	if sum := total(best); best[0].millis > mostShare*sum {
		t.Errorf("%s takes %.1f of the %.1f ms in which all packages initialise", best[0].pkg, best[0].millis, sum)
	}
}

type initCost struct {
	pkg    string
	millis float64
}

func total(costs []initCost) (sum float64) {
	for _, c := range costs {
		sum += c.millis
	}
	return sum
}

var initLine = regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, ([0-9.]+) ms clock`)

// initCosts runs the test binary as `ferry version`, as testscript does.
func initCosts(t *testing.T) []initCost {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := t.TempDir() + "/ferry"
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	exit, err := process.Run(t.Context(), process.Spec{
		Argv: []string{link, "version"}, Env: []string{"GODEBUG=inittrace=1", "HOME=" + t.TempDir()}, Dir: "/", Stderr: &errs,
	})
	if err != nil || exit.Code != 0 {
		t.Fatalf("ferry version: %+v, %v\n%s", exit, err, errs.String())
	}
	var out []initCost
	for _, m := range initLine.FindAllStringSubmatch(errs.String(), -1) {
		ms, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, initCost{m[1], ms})
	}
	if len(out) == 0 {
		t.Fatalf("no trace of initialisation in:\n%s", errs.String())
	}
	return out
}
