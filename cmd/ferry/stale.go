package main

import (
	"fmt"

	"github.com/ferry-fleet/ferry"
)

// holdStale says of an order that runs by its records, while the worker of
// this machine that holds it is gone, that it waits for that worker. It is
// what this machine knows, not what the channel says, so it is a hold and no
// state.
func (p *project) holdStale(tasks ...*ferry.Task) {
	all, alive := p.workers()
	gone := map[ferry.WriterID]ferry.AgentName{}
	for i, s := range all {
		if !alive[i] {
			gone[s.Writer] = s.Agent
		}
	}
	for i, s := range all {
		if alive[i] {
			delete(gone, s.Writer)
		}
	}
	for _, t := range tasks {
		if agent, ok := gone[t.Holder]; ok && t.State == ferry.StateRunning && t.Hold == "" {
			t.Hold = fmt.Sprintf("its worker %s is gone: `ferry agent run` takes it up again and keeps what was done", agent)
		}
	}
}
