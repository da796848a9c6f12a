package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/adrg/xdg"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

type configOptions struct {
	f    *cmdutil.Factory
	all  bool
	into string
	// merge writes into the person's own kubeconfig.
	merge bool
}

func newCmdConfig(f *cmdutil.Factory) *cobra.Command {
	o := &configOptions{f: f}
	cmd := &cobra.Command{
		Use:   "config [CLUSTER...]",
		Short: "Write contexts for Kubernetes tools",
		Long: `Write contexts for Kubernetes tools: plural/CLUSTER for each cluster.

They hold no secret: a tool that uses one runs plural kube token, which asks the
hub for a token that is good for this cluster and some minutes. The contexts go
into a file of their own, and the line that makes tools read it is printed. With
a yes, --merge writes them into the file that kubectl uses anyway.

Contexts that are there already stay, with the namespace that was chosen there.
But with --all those of clusters go that have left this hub's fleet.`,
		Example: cmdutil.Example(
			"plural kube config prod-eu prod-us",
			"plural kube config --all --merge"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "all clusters of the fleet")
	flags.BoolVar(&o.merge, "merge", false, "write into the kubeconfig that kubectl uses")
	flags.StringVar(&o.into, "kubeconfig", "", "write this `FILE` (default $XDG_STATE_HOME/plural/kubeconfig)")
	return cmd
}

// written is what came of it.
type written struct {
	File     string   `json:"file"`
	Contexts []string `json:"contexts"`
}

func (o *configOptions) run(ctx context.Context, clusters []string) error {
	switch {
	case o.all && len(clusters) > 0:
		return &ui.Err{Msg: "--all goes without names", Fix: "plural kube config --all"}
	case !o.all && len(clusters) == 0:
		return &ui.Err{Msg: "which clusters?", Fix: "name them, or take all of them: plural kube config --all"}
	case o.merge && o.into != "":
		return &ui.Err{Msg: "--merge and --kubeconfig do not go together", Fix: "give one of them"}
	}
	hub, printer, err := o.f.Ask()
	if err != nil {
		return err
	}
	if !secure(hub) {
		return &ui.Err{
			Msg:   "Kubernetes tools show no token to a hub over plain http",
			Cause: "the hub is " + hub.Address(), Fix: "plural kube run CLUSTER -- CMD, or plural kube proxy CLUSTER",
			Doc: ui.DocPlainHTTP,
		}
	}
	if clusters, err = o.clusters(ctx, hub, clusters); err != nil {
		return err
	}
	file, err := o.file()
	if err != nil {
		return err
	}
	if err := o.confirm(ctx, file, len(clusters)); err != nil {
		return err
	}
	if err := o.write(file, hub, clusters); err != nil {
		return err
	}
	return o.show(printer, file, clusters)
}

// clusters are those that are meant. A hub that does not show clusters to this person may let them in all the same.
func (o *configOptions) clusters(ctx context.Context, hub *client.Client, names []string) ([]string, error) {
	if !o.all {
		for _, name := range names {
			_, err := hub.Cluster(ctx, name)
			var answer *client.Error
			if err != nil && (!errors.As(err, &answer) || answer.Status != http.StatusForbidden) {
				return nil, unknown(err, name)
			}
		}
		return names, nil
	}
	list, err := hub.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// file is the one to write.
func (o *configOptions) file() (string, error) {
	if o.into != "" {
		return filepath.Abs(o.into)
	}
	if !o.merge {
		return filepath.Join(xdg.StateHome, "plural", "kubeconfig"), nil
	}
	// As kubectl config: the last of $KUBECONFIG's files that is there, or simply the last.
	files := slices.DeleteFunc(filepath.SplitList(o.f.Getenv("KUBECONFIG")), func(file string) bool { return file == "" })
	for _, file := range slices.Backward(files) {
		if _, err := os.Stat(file); err == nil {
			return filepath.Abs(file)
		}
	}
	if len(files) > 0 {
		return filepath.Abs(files[len(files)-1])
	}
	return filepath.Join(xdg.Home, ".kube", "config"), nil
}

// confirm asks before another program's file is changed.
func (o *configOptions) confirm(ctx context.Context, file string, n int) error {
	if !o.merge || o.f.Yes {
		return nil
	}
	yes, err := o.f.Prompter().Confirm(ctx, fmt.Sprintf("Write %d contexts into %s?", n, file), "--yes")
	if err == nil && !yes {
		err = context.Canceled
	}
	return err
}

func (o *configOptions) write(file string, hub *client.Client, clusters []string) error {
	entries, err := entriesFor(o.f, hub, command(), clusters)
	if err != nil {
		return err
	}
	return locked(file, func() error {
		config, err := read(file)
		if err != nil {
			return err
		}
		if err := merge(config, entries, hub, o.all, o.f.Yes); err != nil {
			return err
		}
		if !o.merge && len(clusters) == 1 {
			config.CurrentContext = contextName(clusters[0])
		}
		return write(file, config)
	})
}

// command is how tools call this program: by its name where that leads here.
func command() string {
	self, err := os.Executable()
	if err != nil {
		return "plural"
	}
	if found, err := exec.LookPath("plural"); err == nil && same(found, self) {
		return "plural"
	}
	return self
}

func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func (o *configOptions) show(printer *ui.Printer, file string, clusters []string) error {
	result := written{File: file, Contexts: []string{}}
	for _, name := range clusters {
		result.Contexts = append(result.Contexts, contextName(name))
	}
	if printer.Human() {
		o.f.Say("wrote %d contexts into %s", len(clusters), file)
		if len(clusters) > 0 {
			o.f.Say("for example: kubectl --context %s get pods", result.Contexts[0])
		}
	}
	return printer.Print(ui.View{
		Value: result, Names: result.Contexts,
		Screen: func(w io.Writer) error {
			if o.merge {
				return nil // tools read it as it is
			}
			_, err := fmt.Fprintf(w, "export KUBECONFIG=%s\n", quoted(file))
			return err
		},
	})
}

// quoted is a word of a shell.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%", r)
	}
	if strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
