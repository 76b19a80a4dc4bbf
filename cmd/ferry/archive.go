package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

func (a *app) archiveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "archive FILE",
		Short: "write every record of the channel into one file",
		Long: `Archive writes everything that this machine holds of the channel into one file.
It holds no keys, and ` + "`ferry channel verify FILE --channel ID`" + ` checks it
anywhere, without anything else. Machines that hold the same records write the
same file. A file that exists is replaced once the other is whole.`,
		Example: `  ferry channel archive my-project.ferry
  ferry channel verify my-project.ferry --channel 5c1e…`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.archive(cmd.Context(), args[0]) },
	}
	a.jsonFlag(cmd)
	return cmd
}

// archivedShape answers archive.
type archivedShape struct {
	File    string `json:"file"`
	Records int    `json:"records"`
	Bytes   int64  `json:"bytes"`
	Channel string `json:"channel_id"`
}

func (a *app) archive(ctx context.Context, file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return a.with(ctx, func(p *project) error {
		if within(p.config.Channel, path) {
			return misuse("`"+typed([]string{"ferry", "channel", "archive", filepath.Join(filepath.Dir(p.dir), filepath.Base(path))})+"`",
				"archive %s: that is in the folder of the channel, where other machines would have it as a file that does not belong there", oneLine(clip(path, 200)))
		}
		done := a.busy("writing the archive")
		shape, err := p.archive(ctx, path)
		done()
		if err != nil {
			return fault(classFailed, "give a path in a directory that exists, that you may write to, and that has room", fmt.Errorf("archive: %w", err))
		}
		return a.print(shape, func(w io.Writer) {
			fmt.Fprintf(w, "%d records, %d bytes: %s\n", shape.Records, shape.Bytes, shape.File)
			fmt.Fprintf(w, "next: `ferry channel verify %s --channel %s` checks it anywhere\n", file, shape.Channel)
		})
	})
}

// within reports whether a file would lie in a directory, whatever links lead
// there.
func within(dir, file string) bool {
	real := func(path string) string {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			return resolved
		}
		return filepath.Clean(path)
	}
	rel, err := filepath.Rel(real(dir), filepath.Join(real(filepath.Dir(file)), filepath.Base(file)))
	return err == nil && filepath.IsLocal(rel)
}

// archive writes beside the file first, so that there is never half of one
// under its name.
func (p *project) archive(ctx context.Context, path string) (shape archivedShape, err error) {
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return shape, err
	}
	log, err := atomicfile.OpenLog(part)
	if err != nil {
		return shape, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part))
		}
	}()
	shape = archivedShape{File: path, Channel: p.config.ChannelID.String()}
	shape.Records, err = p.channel.Archive(ctx, logWriter{log})
	if err == nil {
		err = log.Sync()
	}
	if err == nil {
		shape.Bytes, err = log.Size()
	}
	if err = errors.Join(err, log.Close()); err != nil {
		return shape, err
	}
	return shape, os.Rename(part, path)
}

// logWriter appends what is written to it.
type logWriter struct{ log *atomicfile.Log }

// Write appends p.
func (w logWriter) Write(p []byte) (int, error) {
	if _, err := w.log.Append(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// isArchive reports whether a file begins like an archive.
func isArchive(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	first := make([]byte, len(channel.ArchiveLine))
	_, err = io.ReadFull(f, first)
	return err == nil && string(first) == channel.ArchiveLine
}

// verifyArchive checks an archive with nothing else.
func verifyArchive(ctx context.Context, path string, id ferry.RecordID, judge ferry.Judge) (channel.VerifyReport, error) {
	f, err := os.Open(path)
	if err != nil {
		return channel.VerifyReport{}, err
	}
	defer f.Close()
	r, err := channel.VerifyArchive(ctx, f, id, judge)
	if err != nil {
		err = fault(classFailed, "`ferry channel archive FILE` writes one; send it as it is", fmt.Errorf("%s: %w", clip(path, 200), err))
	}
	return r, err
}
