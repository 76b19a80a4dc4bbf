package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) membersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "members",
		Short:   "who is in the channel, and what each may do",
		Example: `  ferry channel members --json`,
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.members(cmd.Context()) },
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) members(ctx context.Context) error {
	return a.with(ctx, func(p *project) error {
		members, err := p.channel.Members(ctx)
		if err != nil {
			return err
		}
		master, err := p.channel.Master(ctx)
		if err != nil {
			return err
		}
		here := p.writersHere()
		shape := membersShape{Members: []memberShape{}}
		for _, m := range members {
			s := memberShape{
				Name: string(m.Name), Writer: string(m.Writer), Key: m.Key, Machine: m.Machine, Email: m.Email,
				Grants: []string{}, Master: m.Writer == master.Writer, Here: here[m.Key],
			}
			for _, g := range m.Grants {
				s.Grants = append(s.Grants, string(g))
			}
			shape.Members = append(shape.Members, s)
		}
		return a.print(shape, func(w io.Writer) {
			var rows [][]string
			for _, m := range shape.Members {
				may := strings.Join(m.Grants, ", ")
				if m.Master {
					may = "master: everything but work"
				}
				rows = append(rows, []string{m.Name, m.Machine, may, m.Email, m.Writer[:8], map[bool]string{true: "here"}[m.Here]})
			}
			a.table(w, []string{"name", "machine", "may", "email", "writer", "key"}, rows)
		})
	})
}

func (a *app) verifyCommand() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "verify [DIR|FILE]",
		Short: "check every record again, from the bytes",
		Long: `Verify reads every record of this machine's store and of the folder again:
signature, chain, authority, and the state that follows. With DIR it checks a
channel's folder that this machine knows nothing else about, with FILE a receipt
that ` + "`ferry channel receipt --out`" + ` wrote. Both need no project here.`,
		Example: `  ferry channel verify
  ferry channel verify /mnt/backup/channel --channel 5c1e…
  ferry channel verify t-first.receipt --channel 5c1e…`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.verifyDir(cmd.Context(), args[0], id)
			}
			return a.verify(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&id, "channel", "", "the channel's `ID` that the folder or the receipt must have")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) verifyText(w io.Writer, s *verifyShape) {
	if s.OK {
		fmt.Fprintf(w, "%d records of %d writers hold; digest of all states %s\n", s.Records, s.Writers, s.Digest)
		return
	}
	var rows [][]string
	for _, p := range s.Problems {
		rows = append(rows, []string{p.Writer, fmt.Sprint(p.Seq), p.Kind, p.Detail})
	}
	a.table(w, []string{"writer", "seq", "kind", "detail"}, rows)
	fmt.Fprintf(w, "%d problems in %d records of %d writers\n", len(s.Problems), s.Records, s.Writers)
}
