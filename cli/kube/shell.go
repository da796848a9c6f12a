package kube

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
)

func newCmdShell(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "shell CLUSTER",
		Short: "Open a shell in which kubectl talks to a cluster",
		Long: `Open a shell in which kubectl and other Kubernetes tools talk to a cluster.

It is $SHELL, or sh, as plural kube run runs a program. The prompt of bash, zsh,
fish and sh begins with the cluster's name.`,
		Example: cmdutil.Example("plural kube shell prod-eu", "plural kube shell edge-1"),
		Args:    cmdutil.Exactly("CLUSTER"),
		RunE:    func(cmd *cobra.Command, args []string) error { return shell(cmd.Context(), f, args[0]) },
	}
}

func shell(ctx context.Context, f *cmdutil.Factory, cluster string) error {
	program := cmp.Or(f.Getenv("SHELL"), "/bin/sh")
	return runWith(ctx, f, cluster, []string{program}, func(dir string) (args, env []string, err error) {
		f.Say("kubectl talks to cluster %s in this shell; exit leaves it", cluster)
		return prompting(filepath.Base(program), cluster, dir, f.Getenv)
	})
}

// prompting is what has a shell begin its prompt with the cluster's name, behind the person's own settings. Of a shell that is not
// known it is nothing.
func prompting(shell, cluster, dir string, getenv func(string) string) (args, env []string, err error) {
	name := quoted("(" + cluster + ") ")
	switch shell {
	case "bash":
		file := filepath.Join(dir, "bashrc")
		err = os.WriteFile(file, []byte("[ -r ~/.bashrc ] && . ~/.bashrc\nPS1="+name+"\"$PS1\"\n"), 0o600)
		args = []string{"--rcfile", file, "-i"}
	case "zsh":
		own := quoted(cmp.Or(getenv("ZDOTDIR"), getenv("HOME")))
		text := fmt.Sprintf("ZDOTDIR=%s\n[ -r \"$ZDOTDIR/.zshrc\" ] && . \"$ZDOTDIR/.zshrc\"\nPROMPT=%s\"$PROMPT\"\n", own, name)
		err = os.WriteFile(filepath.Join(dir, ".zshrc"), []byte(text), 0o600)
		env = []string{"ZDOTDIR=" + dir}
	case "fish":
		args = []string{"--init-command", "functions --copy fish_prompt own_prompt; function fish_prompt; printf %s " + name +
			"; own_prompt; end"}
	case "sh", "dash", "ash", "ksh":
		env = []string{"PS1=(" + cluster + ") $ "}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("write the shell's settings: %w", err)
	}
	return args, env, nil
}
