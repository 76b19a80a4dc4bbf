// Command ferry is the command line of a fleet: it reads configuration,
// builds everything and offers one verb per file.
//
// It promises stable `--json` shapes (shapes.go), exit codes (0 done, 1 not
// done, 2 misuse, 130 interrupted) and errors that say what, why and what
// next. It holds no rules of its own: what may happen is decided by the
// packages it puts together, and the worker never gets to see the operator's
// key.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/machine"
)

func main() {
	box.Main()
	os.Exit(run(machine.Here()))
}

// run is main without the exit, so that deferred work is done. The system says
// how busy this machine is, and with whom.
func run(system machine.System) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends what the first one asked to end
	a := newApp(os.Stdout, os.Stderr)
	a.system = system
	return a.execute(ctx, os.Args[1:])
}
