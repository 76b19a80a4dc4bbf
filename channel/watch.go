package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// Watch wakes its reader after something changed in the folder or in the store, whichever process did it. Wake-ups that
// nobody has read yet are one. The channel is closed when ctx ends. Notifications can be lost, so the caller polls as well;
// an error means that there are none and only polling is left.
func (c *Channel) Watch(ctx context.Context) (<-chan struct{}, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch channel %s: %w", c.id.Short(), err)
	}
	if err := c.watchAll(w); err != nil {
		return nil, errors.Join(fmt.Errorf("watch channel %s: %w", c.id.Short(), err), w.Close())
	}
	wake := make(chan struct{}, 1)
	go func() { // it ends with ctx
		defer close(wake)
		defer w.Close()
		c.watch(ctx, w, wake)
	}()
	return wake, nil
}

func (c *Channel) watch(ctx context.Context, w *fsnotify.Watcher, wake chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			if e.Has(fsnotify.Create) {
				c.appeared(w, e.Name)
			}
			if hidden(filepath.Base(e.Name)) || e.Op == fsnotify.Chmod || c.ownBeat(e.Name) {
				continue
			}
		case err, ok := <-w.Errors:
			if !ok {
				return
			}
			c.log.Debug("a change may have been missed", "err", err) // an overflow: waking is the answer
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// ownBeat reports whether a file is a beat that this process writes: it is no news to it.
func (c *Channel) ownBeat(name string) bool {
	if filepath.Base(name) != beatName {
		return false
	}
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	return c.seen.put[filepath.Base(filepath.Dir(name))]
}

// appeared follows a directory that was made while watching.
func (c *Channel) appeared(w *fsnotify.Watcher, name string) {
	rel, err := filepath.Rel(c.cfg.Folder, name)
	if err != nil {
		return
	}
	switch parts := strings.Split(rel, string(filepath.Separator)); {
	case parts[0] == joinDir:
		c.watchJoins(w)
	case parts[0] != writersDir:
	case len(parts) == 1:
		c.watchWriters(w)
	case len(parts) <= maxWatchDepth:
		c.watchWriter(w, filepath.Join(c.cfg.Folder, writersDir, parts[1]))
	}
}

// maxWatchDepth is the number of elements of the deepest directory that is followed: w/<writer>/r/<writer>/t.
const maxWatchDepth = 5

// watchAll adds the store, the folder, its list of writers and the directories of the writers, those of the members first.
// What is made later is added when it appears.
func (c *Channel) watchAll(w *fsnotify.Watcher) error {
	if err := w.Add(c.cfg.storePath()); err != nil {
		return err
	}
	if err := w.Add(c.cfg.Folder); err != nil {
		return err
	}
	c.watchWriters(w)
	c.watchJoins(w)
	return nil
}

func (c *Channel) watchWriters(w *fsnotify.Watcher) {
	all := filepath.Join(c.cfg.Folder, writersDir)
	c.watchDir(w, all)
	for _, m := range readable(c.authority()) {
		c.watchWriter(w, filepath.Join(all, string(m)))
	}
	for _, name := range c.namesIn(all) {
		c.watchWriter(w, filepath.Join(all, name))
	}
}

// watchWriter adds the directories of a writer: its own, and what it relays of the others.
func (c *Channel) watchWriter(w *fsnotify.Watcher, dir string) {
	c.watchDir(w, dir)
	c.watchDir(w, filepath.Join(dir, recordsDir))
	c.watchDir(w, filepath.Join(dir, packsDir))
	relays := filepath.Join(dir, relaysDir)
	if !c.watchDir(w, relays) {
		return
	}
	for _, of := range readable(c.authority()) {
		one := filepath.Join(relays, string(of))
		if c.watchDir(w, one) {
			c.watchDir(w, filepath.Join(one, recordsDir))
			c.watchDir(w, filepath.Join(one, packsDir))
		}
	}
}

// watchJoins adds the directories of requests to join.
func (c *Channel) watchJoins(w *fsnotify.Watcher) {
	all := filepath.Join(c.cfg.Folder, joinDir)
	c.watchDir(w, all)
	for _, name := range c.namesIn(all) {
		c.watchDir(w, filepath.Join(all, name))
	}
}

// namesIn gives some names of a directory; one that cannot be read is added when it appears.
func (c *Channel) namesIn(dir string) []string {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(maxWatches)
	if err != nil && !errors.Is(err, io.EOF) {
		c.log.Debug("a directory is not listed", "dir", dir, "err", err)
	}
	return names
}

// watchDir adds a directory if it exists. A flood of strangers' directories is not followed.
func (c *Channel) watchDir(w *fsnotify.Watcher, dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || len(w.WatchList()) >= maxWatches {
		return false
	}
	if err := w.Add(dir); err != nil {
		c.log.Debug("a directory is not watched", "dir", dir, "err", err)
		return false
	}
	return true
}
