// Package cryptocmd owns `plural crypto`: from a command line to sealed files, and back.
//
// It refuses to know cryptography, and how commits are made.
//
// People's commands open the installation repo with the person's keys. A change of who can open what becomes a
// rekey.Plan, is shown, is confirmed, and becomes one commit. Git's commands (filter, textconv, merge, hook) open
// whatever repository git runs them in, speak git's protocols on the process's streams, and never ask.
package cryptocmd

import (
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
)

// NewCmdCrypto is `plural crypto`.
func NewCmdCrypto(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "crypto",
		GroupID: cmdutil.GroupSecrets,
		Short:   "Seal secrets in git, and say who can open them",
		Example: cmdutil.Example("plural crypto init", "plural crypto share gh:alice --group fleet", "plural crypto status --check"),
	},
		newCmdInit(f), newCmdStatus(f), newCmdUnlock(f), newCmdLock(f),
		newCmdMembers(f), newCmdGroups(f), newCmdShare(f), newCmdRevoke(f), newCmdRotate(f),
		newCmdEdit(f), newCmdEncrypt(f), newCmdDecrypt(f),
		newCmdExport(f), newCmdImport(f), newCmdDoctor(f),
		newCmdFilter(f), newCmdTextconv(f), newCmdMerge(f), newCmdHook(f),
	)
}
