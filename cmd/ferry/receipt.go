package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/land"
)

func (a *app) receiptCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "receipt ORDER",
		Short: "every record on the way from the order to its commit, checked again",
		Long: `Receipt shows every record on the way from the order to its commit, each checked
again. With --out it also writes the proof of the landing as one file, which
` + "`ferry channel verify FILE`" + ` checks on a machine that has nothing else.`,
		Example: `  ferry channel receipt t-first
  ferry channel receipt t-first --out t-first.receipt`,
		Args: exactly("ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.receipt(cmd.Context(), args[0], out) },
	}
	cmd.Flags().StringVar(&out, "out", "", "write the proof of the landing to `FILE`")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) receipt(ctx context.Context, ref, out string) error {
	return a.with(ctx, func(p *project) error {
		gate, err := p.Gate(ctx)
		if err != nil {
			return err
		}
		done := a.busy("checking every record again")
		r, err := land.MakeReceipt(ctx, p.channel, gate, ref)
		done()
		if err != nil {
			return err
		}
		if out != "" {
			file, err := land.MakeReceiptFile(ctx, p.channel, gate, ref)
			if err != nil {
				return err
			}
			if err := a.saveReceipt(file, out); err != nil {
				return err
			}
		}
		if err := a.print(r, func(w io.Writer) { a.receiptText(w, &r) }); err != nil {
			return err
		}
		if !r.OK {
			return &failure{class: classFailed, code: 1, quiet: true}
		}
		return nil
	})
}

func (a *app) saveReceipt(file []byte, out string) error {
	path, err := filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	if err := atomicfile.Write(path, file, 0o644); err != nil {
		return fault(classFailed, "give a path in a directory that exists and that you may write to", fmt.Errorf("receipt: %w", err))
	}
	a.warn("receipt written to %s", path)
	return nil
}

func (a *app) receiptText(w io.Writer, r *land.Receipt) {
	fmt.Fprintf(w, "receipt of %s (%s)\n", r.Label, r.State)
	field(w, "order", r.Order.String())
	field(w, "channel", r.Channel.String())
	field(w, "base", string(r.Base))
	field(w, "work", string(r.Work))
	field(w, "evidence", string(r.Evidence.Status))
	if r.Commit != "" {
		field(w, "landed", fmt.Sprintf("%s on %s", r.Commit, r.Target))
	}
	fmt.Fprintln(w)
	var rows [][]string
	for _, l := range r.Records {
		rows = append(rows, []string{l.Time.UTC().Format("2006-01-02 15:04:05"), string(l.Type), string(l.Name), fmt.Sprint(l.Seq), l.ID.String(), l.Says})
	}
	a.table(w, []string{"time (utc)", "type", "writer", "seq", "record", "what"}, rows)
	fmt.Fprintln(w)
	if r.OK {
		fmt.Fprintln(w, "every signature, chain and commit was checked again and holds")
	}
	for _, problem := range r.Problems {
		fmt.Fprintln(w, indentLine("problem: "+problem))
	}
}

func (a *app) verify(ctx context.Context) error {
	return a.with(ctx, func(p *project) error {
		done := a.busy("checking every record again")
		r, err := p.channel.Verify(ctx)
		done()
		if err != nil {
			return err
		}
		return a.verified(r)
	})
}

func (a *app) verifyDir(ctx context.Context, dir, id string) error {
	if _, err := os.Stat(dir); err != nil {
		return fault(classNotFound, "name a receipt, an archive, or a channel's folder", fmt.Errorf("verify: %w", err))
	}
	if isFile(dir) && !isArchive(dir) {
		return a.verifyFile(ctx, dir, id)
	}
	var want ferry.RecordID
	check, what := channel.VerifyDir, "a folder"
	if isFile(dir) {
		check, what = verifyArchive, "an archive"
	}
	if id == "" {
		return misuse("say which channel it must be: --channel ID", "verify %s: %s alone proves nothing", clip(dir, 200), what)
	}
	want, err := ferry.ParseRecordID(id)
	if err != nil {
		return misuse("a channel's id has 64 hex digits; `ferry status --json` shows it", "--channel: %w", err)
	}
	done := a.busy("checking every record")
	r, err := check(ctx, dir, want, evidence.Classify)
	done()
	if err != nil {
		return err
	}
	return a.verified(r)
}

func (a *app) verified(r channel.VerifyReport) error {
	shape := verifyShape{OK: r.OK, Writers: r.Writers, Records: r.Records, Problems: []problemShape{}, Digest: r.Digest}
	for _, p := range r.Problems {
		shape.Problems = append(shape.Problems, problemShape{Writer: string(p.Writer), Seq: p.Seq, Kind: string(p.Kind), Detail: p.Detail})
	}
	if err := a.print(shape, func(w io.Writer) { a.verifyText(w, &shape) }); err != nil {
		return err
	}
	if !r.OK {
		return &failure{class: classFailed, code: 1, quiet: true}
	}
	return nil
}
