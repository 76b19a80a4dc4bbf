package main

import (
	"context"
	"io/fs"
	"path/filepath"
	"regexp"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// Bounds of the search for a text in the files of runs.
const (
	maxRunFiles = 20_000
	maxRunFile  = 16 << 20
	maxRunHits  = 100
	takeOuts    = 16 // looks at the folder, each of which takes some bodies out
)

// takeOut lets the channel take out of this machine's store and files what was redacted. What is left is for the next verb or
// for a worker.
func (p *project) takeOut(ctx context.Context) error {
	for range takeOuts {
		r, err := p.channel.Refresh(ctx)
		if err != nil {
			return err
		}
		if r.Stripped == 0 {
			return nil
		}
	}
	return nil
}

// runFiles lists the files of runs on this machine that hold a text. They are no records: nobody but the person who reads the
// list knows whether they are still needed.
func (p *project) runFiles(find *regexp.Regexp) []string {
	found, looked := []string{}, 0
	// What cannot be read is not listed: the search helps a person, and proves nothing.
	_ = filepath.WalkDir(p.state.runs(p.config.ChannelID), func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && e != nil && e.IsDir():
			return fs.SkipDir
		case err != nil || looked >= maxRunFiles || len(found) >= maxRunHits:
			return fs.SkipAll
		case e.IsDir() && e.Name() == "tree":
			return fs.SkipDir // the project's own files
		case !e.Type().IsRegular():
			return nil
		}
		looked++
		if data, err := atomicfile.ReadBounded(name, maxRunFile); err == nil && find.Match(data) {
			found = append(found, name)
		}
		return nil
	})
	return found
}
