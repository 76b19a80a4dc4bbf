package channel_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		// Every check writes to the disk; the nightly run asks for more with -rapid.checks.
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	if step := os.Getenv(crashEnv); step != "" {
		crashing(step)
		return
	}
	if os.Getenv(publishEnv) != "" {
		publishing()
		return
	}
	os.Exit(m.Run())
}
