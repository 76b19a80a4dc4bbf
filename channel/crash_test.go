package channel_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// The environment in which the test binary is another process that writes into the same state directory.
const (
	crashEnv   = "FERRY_TEST_CRASH_AT"
	publishEnv = "FERRY_TEST_PUBLISH"
	dirEnv     = "FERRY_TEST_DIR"
	idEnv      = "FERRY_TEST_CHANNEL"
)

// helper opens the channel that the environment names, in a process of its own.
func helper() (*channel.Channel, *channel.Writer) {
	id, err := ferry.ParseRecordID(os.Getenv(idEnv))
	must(err)
	dir := os.Getenv(dirEnv)
	c, err := channel.Open(context.Background(), channel.Config{
		Folder: filepath.Join(dir, "folder"), State: filepath.Join(dir, "state"), Judge: judge,
	}, id)
	must(err)
	w, err := c.Writer(testKey(fatal{}, "master"))
	must(err)
	return c, w
}

type fatal struct{ testing.TB }

func (fatal) Helper()           {}
func (fatal) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// crashing does something and kills itself at a step of it: it issues three orders in one write, or what the environment says.
func crashing(step string) {
	c, w := helper()
	c.SetStep(func(at string) {
		if at == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // nothing after it runs
			select {}
		}
	})
	if do := os.Getenv(crashDoEnv); do != "" {
		must(crashWork[do](c))
		return
	}
	added, err := w.Update(context.Background(), start, func(tx *channel.Tx) error {
		for i := range 3 {
			o := order(fmt.Sprintf("crash-%d-%s", i, os.Getenv("FERRY_TEST_ROUND")))
			if _, err := tx.Add(&o); err != nil {
				return err
			}
		}
		return nil
	})
	must(err)
	fmt.Println(len(added))
}

func helperCommand(t *testing.T, s *site, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), append(env, dirEnv+"="+filepath.Dir(s.cfg.Folder), idEnv+"="+s.ID().String())...)
	cmd.Stderr = os.Stderr
	return cmd
}

// A kill between any two steps leaves all records of the write or none, an intact chain, and files that come back.
func TestKilledWhileWriting(t *testing.T) {
	for _, step := range []string{"locked", "signed", "appended", "indexed", "file", "published"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			for round := range 2 {
				err := helperCommand(t, s, crashEnv+"="+step, fmt.Sprintf("FERRY_TEST_ROUND=%d", round)).Run()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the process ended with %v, want SIGKILL", err)
				}
				if round == 1 {
					s.reopen(t) // the first crash is seen by a process that lives on, the second by a new one
				}
				all, err := s.Tasks(t.Context(), channel.Filter{})
				if err != nil {
					t.Fatal(err)
				}
				want := 0
				if step != "locked" && step != "signed" {
					want = 3 * (round + 1)
				}
				if len(all) != want+round {
					t.Fatalf("round %d: %d orders, want %d", round, len(all), want+round)
				}
				s.issue(t, order(fmt.Sprintf("after-%d", round)))
				wantIntact(t, s)
			}
		})
	}
}

// wantIntact looks at the folder once more and verifies everything.
func wantIntact(t *testing.T, s *site) {
	t.Helper()
	if _, err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := s.Verify(t.Context())
	if err != nil || !r.OK {
		t.Errorf("verify: %+v, %v", r.Problems, err)
	}
	bare, err := channel.VerifyDir(t.Context(), s.cfg.Folder, s.ID(), judge)
	if err != nil || !bare.OK || bare.Digest != r.Digest {
		t.Errorf("the folder alone: %+v, %v, digest %s, want %s", bare.Problems, err, bare.Digest, r.Digest)
	}
}

// A write that the kernel only did in part is cut off at the next look, wherever it broke.
func TestTornTail(t *testing.T) {
	s := newSite(t)
	s.issue(t, order("kept"))
	name := filepath.Join(s.cfg.State, "store.log")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	frame := channel.Frame(whole[60:1000])
	for _, n := range []int{1, 5, 12, 100, len(frame) - 1} {
		torn := append(append([]byte{}, whole...), frame[:n]...)
		if err := os.WriteFile(name, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		s.reopen(t)
		if got, err := os.ReadFile(name); err != nil || len(got) != len(whole) {
			t.Fatalf("torn after %d bytes: the store has %d bytes (%v), want %d", n, len(got), err, len(whole))
		}
	}
	s.issue(t, order("after"))
	wantIntact(t, s)
}

// Damage in the middle is skipped, never cut: what stands behind it stays, and what is gone comes back from the folder.
func TestDamagedStore(t *testing.T) {
	s := newSite(t)
	var ids []ferry.RecordID
	for i := range 5 {
		ids = append(ids, s.issue(t, order(fmt.Sprintf("t-%d", i))))
	}
	name := filepath.Join(s.cfg.State, "store.log")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(data), `"label":"t-2"`)
	data[at] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.cfg.State, "index.db")); err != nil {
		t.Fatal(err)
	}
	s.reopen(t)
	if _, err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		s.wantState(t, id, ferry.StateOpen)
	}
	r, err := s.Verify(t.Context())
	if err != nil || r.OK || len(r.Problems) != 1 || r.Problems[0].Kind != channel.ProblemStore {
		t.Errorf("verify: %+v, %v", r, err)
	}
	s.issue(t, order("after"))
}

// publishing issues orders from several goroutines, one label on each line of standard input.
func publishing() {
	c, w := helper()
	lines := make(chan string)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for label := range lines {
				_, err := w.Issue(context.Background(), start, order(label))
				if err != nil && !errors.Is(err, channel.ErrLabelTaken) {
					must(err)
				}
			}
		})
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		lines <- in.Text()
	}
	close(lines)
	wg.Wait()
	must(c.Close())
}

// Two processes with four goroutines each write into one state directory: every label is issued once, and the chain has
// neither a gap nor a fork.
func TestTwoProcesses(t *testing.T) {
	s := newSite(t)
	const n = 40
	var labels strings.Builder
	for i := range n {
		fmt.Fprintf(&labels, "t-%d\n", i)
	}
	var wg sync.WaitGroup
	for range 2 {
		cmd := helperCommand(t, s, publishEnv+"=1")
		cmd.Stdin = strings.NewReader(labels.String())
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("publishing process: %v", err)
			}
		})
	}
	wg.Wait()
	all, err := s.Tasks(t.Context(), channel.Filter{})
	if err != nil || len(all) != n {
		t.Errorf("%d orders (%v), want %d", len(all), err, n)
	}
	ledger, err := s.Ledger(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	for _, e := range ledger {
		if seen[e.Seq] {
			t.Errorf("number %d twice", e.Seq)
		}
		seen[e.Seq] = true
	}
	if len(seen) != n+2 { // the root record and an admission
		t.Errorf("%d numbers, want %d", len(seen), n+2)
	}
	wantIntact(t, s)
}
