package engines

import (
	"context"
	"fmt"
	"net/http"
)

// Runner runs a prompt with the engines of one kind. It always returns a Reply,
// when nothing of the engine is alive: whatever goes wrong is in it.
type Runner interface {
	Run(ctx context.Context, req Request) Reply
}

// Runners are the runners of a machine. Those of this package come from Own; who
// has one for another kind adds it.
type Runners map[Kind]Runner

// Own returns the runners of this package. client makes the connections of the
// engines behind an endpoint; with nil each run has its own.
func Own(client *http.Client) Runners {
	return Runners{KindCLI: CLI{}, KindHTTP: HTTP{Client: client}}
}

// Run runs the prompt with the runner of the engine's kind.
func (rs Runners) Run(ctx context.Context, req Request) Reply {
	if r, ok := rs[req.Engine.Kind]; ok {
		return r.Run(ctx, req)
	}
	r := begin(req)
	return r.end(fmt.Errorf("engine %s: kind %q cannot be run here", req.Engine.Name, req.Engine.Kind))
}

// Run runs the prompt with a runner of this package.
func Run(ctx context.Context, req Request) Reply { return Own(nil).Run(ctx, req) }
