package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/sign"
	"github.com/ferry-fleet/ferry/worker"
)

// workers reads the status files of this channel's workers on this machine.
// Alive reports for each whether its process still runs.
func (p *project) workers() (all []worker.Status, alive []bool) {
	entries, err := os.ReadDir(p.state.workers(p.config.ChannelID))
	if err != nil {
		return nil, nil
	}
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(base, ".") {
			continue
		}
		s, err := worker.ReadStatus(filepath.Join(p.state.workers(p.config.ChannelID), e.Name()))
		if err != nil {
			p.app.log().Warn("worker status", "err", err)
			continue
		}
		all = append(all, s)
		alive = append(alive, process.Alive(s.PID, s.PIDMark))
	}
	return all, alive
}

// workersAlive gives the workers that run now.
func (p *project) workersAlive() []worker.Status {
	all, alive := p.workers()
	var out []worker.Status
	for i, s := range all {
		if alive[i] {
			out = append(out, s)
		}
	}
	return out
}

// run is one run directory of this machine.
type localRun struct {
	*worker.Journal
	agent ferry.AgentName
	dir   string
}

// runs lists the runs of this machine, oldest first for each agent; order
// limits it to one order. Journals that cannot be read are logged.
func (p *project) runs(order ferry.RecordID) []localRun {
	entries, err := os.ReadDir(p.state.runs(p.config.ChannelID))
	if err != nil {
		return nil
	}
	var out []localRun
	for _, e := range entries {
		n, err := ferry.ParseAgentName(e.Name())
		if err != nil {
			continue
		}
		dir := p.state.runsOf(p.config.ChannelID, n)
		journals, err := worker.ReadJournals(dir)
		if err != nil {
			p.app.log().Warn("run journal", "agent", string(n), "err", err)
		}
		for _, j := range journals {
			if order.IsZero() || j.Order == order {
				out = append(out, localRun{Journal: j, agent: n, dir: filepath.Join(dir, string(j.Run))})
			}
		}
	}
	return out
}

// writersHere gives the public keys whose private halves are on this machine.
func (p *project) writersHere() map[string]bool {
	here := map[string]bool{}
	files := []string{p.state.operatorKey(p.config.ChannelID)}
	for _, n := range p.state.agents(p.config.ChannelID) {
		files = append(files, p.state.agentKey(p.config.ChannelID, n))
	}
	for _, f := range files {
		key, err := sign.LoadKey(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			p.app.log().Warn("key", "err", err)
			continue
		}
		here[key.Public().String()] = true
	}
	return here
}
