package main

import (
	"github.com/spf13/cobra"
)

func (a *app) channelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "channel",
		Short: "orders, results, reviews and landings",
		Long: `The channel holds everything that was ordered, done, said and landed, as signed
records. An order is named by its label or by the beginning of its id.`,
		Example: `  ferry channel order --id t-first --task "fix the failing test" --check "go test ./..."
  ferry channel tasks
  ferry channel show t-first`,
		RunE: a.family,
	}
	cmd.AddCommand(
		a.orderCommand(), a.tasksCommand(), a.showCommand(), a.ledgerCommand(), a.inboxCommand(),
		a.reviewCommand(), a.approveCommand(), a.landCommand(), a.denyCommand(),
		a.interruptCommand(), a.cancelCommand(), a.retryCommand(), a.answerCommand(),
		a.membersCommand(), a.verifyCommand(), a.receiptCommand(), a.archiveCommand(), a.redactCommand(),
		a.inviteCommand(), a.joinCommand(), a.admitCommand(), a.rejoinCommand(), a.revokeCommand(), a.delegateCommand(),
		a.retireCommand(), a.reassignCommand(), a.rotateRootCommand(), a.recoverCommand(),
	)
	return cmd
}
