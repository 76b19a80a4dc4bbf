package channel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// notPutBack begins the reason why an own file that is missing is still missing after a look at the folder.
const notPutBack = "an own file cannot be put back: "

// Folder gives the directory that the channel is read from and written to.
func (c *Channel) Folder() string { return c.cfg.Folder }

// Unpublished gives why records of this writer are not in the folder, as of the last Refresh, which tries to put them there;
// "" when all of them are. It costs one look at one file, however long the history is.
func (w *Writer) Unpublished(ctx context.Context) (why string, err error) {
	c := w.c
	root, err := atomicfile.OpenRoot(c.cfg.Folder)
	if err != nil {
		return Cause(err), nil
	}
	defer root.Close()
	epoch := c.authority().Epoch(w.id)
	last, err := lastOf(ctx, c.db, chain{w.id, epoch}, "")
	if err != nil {
		return "", fmt.Errorf("what is not published: %w", err)
	}
	dir := recordsPath(w.id)
	var left string
	found, err := one(ctx, c.db, []any{&left}, `SELECT reason FROM rejected WHERE dir = ? AND name = '.'`, dir)
	if err != nil {
		return "", fmt.Errorf("what is not published: %w", err)
	}
	if cause, ok := strings.CutPrefix(left, notPutBack); found && ok {
		return cause, nil
	}
	if last.seq == 0 {
		return "", nil
	}
	// The last record is never in a pack: behind every pack comes the record that names it.
	if _, err := root.Stat(path.Join(dir, recordName(epoch, last.seq, last.id))); err != nil {
		return "the last record of this writer is not in it: " + Cause(err), nil
	}
	return "", nil
}

// Cause words why a file could not be read or written without its name, which can be another one with every try.
func Cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
