package channel

import (
	"context"
	"errors"
	"fmt"
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
			if hidden(filepath.Base(e.Name)) || e.Op == fsnotify.Chmod {
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

// appeared follows a directory that was made while watching.
func (c *Channel) appeared(w *fsnotify.Watcher, name string) {
	rel, err := filepath.Rel(c.cfg.Folder, name)
	parts := strings.Split(rel, string(filepath.Separator))
	if err != nil || parts[0] != writersDir || len(parts) > 3 {
		return
	}
	if len(parts) == 1 {
		c.watchWriters(w)
		return
	}
	c.watchWriter(w, filepath.Join(c.cfg.Folder, writersDir, parts[1]))
}

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
	return nil
}

func (c *Channel) watchWriters(w *fsnotify.Watcher) {
	all := filepath.Join(c.cfg.Folder, writersDir)
	c.watchDir(w, all)
	for _, m := range c.authority().Members() {
		c.watchWriter(w, filepath.Join(all, string(m.Writer)))
	}
	d, err := os.Open(all)
	if err != nil {
		return // it is added when it appears
	}
	defer d.Close()
	names, err := d.Readdirnames(maxWatches)
	if err != nil {
		c.log.Debug("the writers are not listed", "err", err)
	}
	for _, name := range names {
		c.watchWriter(w, filepath.Join(all, name))
	}
}

// watchWriter adds the directory of a writer and that of its records.
func (c *Channel) watchWriter(w *fsnotify.Watcher, dir string) {
	c.watchDir(w, dir)
	c.watchDir(w, filepath.Join(dir, recordsDir))
}

// watchDir adds a directory if it exists. A flood of strangers' directories is not followed.
func (c *Channel) watchDir(w *fsnotify.Watcher, dir string) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || len(w.WatchList()) >= maxWatches {
		return
	}
	if err := w.Add(dir); err != nil {
		c.log.Debug("a directory is not watched", "dir", dir, "err", err)
	}
}
