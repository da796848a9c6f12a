// Package doctor owns `plural doctor`.
//
// It refuses to know what is checked: installer/doctor does. The command gathers what there is to examine (repo, kubeconfig,
// hub) and never fails for want of any of it, since that is what it is there to tell.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"github.com/adrg/xdg"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/cryptocmd"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/clusters"
	"github.com/pluralsh/plural/installer/doctor"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/offline"
)

// maxClusters bounds how many clusters are looked at that nobody named.
const maxClusters = 20

type options struct {
	f          *cmdutil.Factory
	before     bool
	kubeconfig string
	contexts   []string
}

// NewCmdDoctor is `plural doctor`.
func NewCmdDoctor(f *cmdutil.Factory) *cobra.Command {
	o := &options{f: f}
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: cmdutil.GroupStart,
		Short:   "Check git, keys, clusters, hub and agents, with fixes",
		Long: `Check all that the fleet stands on: this machine, git and the remote, your keys,
what the repo's files say, the clusters that your contexts reach, the hub, and
what the hub hears of agents. Nothing is changed, and nobody is asked for
anything but the passphrase of your keys.

Each check that fails is told with its cause and what to do. The command ends
with 1 when one has failed; warnings leave it at 0.

--pre leaves out what is there only after an install. --context names the
cluster to look at, also before it belongs to any fleet; else those of the
fleet's clusters are looked at that a context has the name of.`,
		Example: cmdutil.Example("plural doctor", "plural doctor --pre --context staging", "plural doctor -o json"),
		Args:    cmdutil.Exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&o.before, "pre", false, "only what matters before an install")
	cmd.Flags().StringArrayVar(&o.contexts, "context", nil,
		"look at the cluster of this kubeconfig `CONTEXT`; CLUSTER=CONTEXT gives it another name")
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "read contexts from this `FILE` (default: as kubectl)")
	return cmd
}

// report is what is printed for programs.
type report struct {
	Items    []doctor.Finding `json:"items"`
	Total    int              `json:"total"`
	Failed   int              `json:"failed"`
	Warnings int              `json:"warnings"`
}

func (o *options) run(ctx context.Context) error {
	printer, err := o.f.Printer("")
	if err != nil {
		return err
	}
	env, err := o.env(ctx)
	if err != nil {
		return err
	}
	checks := doctor.Checks(env, o.before)
	r := &report{Items: doctor.Examine(ctx, checks, doctor.Options{}), Total: len(checks)}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	view := ui.View{Value: r, Columns: []ui.Column{
		{Name: "CHECK"}, {Name: "STATE", Style: style}, {Name: "FOUND"}, {Name: "CAUSE"}, {Name: "FIX"},
	}}
	for _, f := range r.Items {
		switch f.State {
		case doctor.Fail:
			r.Failed++
		case doctor.Warn:
			r.Warnings++
		case doctor.OK, doctor.Skipped:
		}
		view.Names = append(view.Names, "check/"+slug(f.Group)+"/"+slug(f.Name))
		view.Rows = append(view.Rows, []string{
			f.Group + ": " + f.Name, string(f.State), f.Text, cmdutil.OrDash(f.Cause), cmdutil.OrDash(f.Fix),
		})
	}
	if o.f.IO.OutTTY {
		view.Screen = func(w io.Writer) error { return o.screen(w, r) }
	}
	if err := printer.Print(view); err != nil {
		return err
	}
	if r.Failed > 0 {
		return ui.Silent(ui.ExitFailed)
	}
	return nil
}

func slug(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, " ", "-"), "'", "")
}

// env is what there is to examine.
func (o *options) env(ctx context.Context) (doctor.Env, error) {
	f := o.f
	identities := sync.OnceValues(f.Identities().Load) // a passphrase is asked for once
	env := doctor.Env{
		Version: f.Version, Identities: identities, NoInput: f.NoInput, Now: f.Now,
		Environment: f.OwnEnvironment(),
		Folders:     []string{f.ConfigDir(), filepath.Join(xdg.CacheHome, "plural"), filepath.Join(xdg.StateHome, "plural")},
	}
	var err error
	if env.Program, err = cryptocmd.Program(); err != nil {
		return env, err
	}
	repo, err := f.Repo()
	if err != nil {
		env.NoRepo = err
		var told *ui.Err
		if errors.As(err, &told) {
			env.NoRepo = errors.New(told.Msg)
		}
	} else {
		keys := f.Keys()
		keys.Identities = identities
		repo.UseKeys(keys)
		env.Repo = repo
	}
	env.Clusters, env.NoClusters = o.clusters(env)
	if env.HubURL, err = f.HubAddress(); err != nil {
		return env, nil // the checks of the hub say that nothing tells where it is
	}
	env.Local = cmdutil.LocalRepo(env.HubURL, f.Repository()) != ""
	if env.HubCA, env.NoHub = f.HubCA(); env.NoHub != nil {
		return env, nil
	}
	hub, err := f.HubClient()
	if err == nil {
		_, asked := hub.Me(ctx)
		if errors.As(asked, new(*client.OtherRepository)) || cmdutil.Stopped(asked) != nil {
			err = cmdutil.Explain(asked)
		}
	}
	if env.NoHub = err; err == nil {
		env.Hub = hub
	}
	return env, nil
}

// clusters are those that were named, or else those of the fleet that this machine knows a way to.
func (o *options) clusters(env doctor.Env) (map[string]*rest.Config, error) {
	if len(o.contexts) > 0 {
		return o.named()
	}
	names := fleetClusters(env.Repo)
	if len(names) == 0 {
		return map[string]*rest.Config{}, nil
	}
	ways := clusters.Locator{
		Root: env.Repo.Root(), Config: o.f.ConfigDir(), Local: cmdutil.LocalState(), Kubeconfig: o.kubeconfig,
	}
	return ways.Reach(names)
}

// fleetClusters are the first of the fleet's clusters; none when its files cannot be read, which is what their check says.
func fleetClusters(repo *workspace.Repo) []string {
	if repo == nil {
		return nil
	}
	state, err := offline.Open(repo, "")
	if err != nil {
		return nil
	}
	var names []string
	for i := range state.Fleet.Clusters {
		names = append(names, state.Fleet.Clusters[i].Metadata.Name)
	}
	return names[:min(len(names), maxClusters)]
}

func (o *options) named() (map[string]*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	found := map[string]*rest.Config{}
	for _, text := range o.contexts {
		name, kubeContext, given := strings.Cut(text, "=")
		if !given {
			kubeContext = name
		}
		chosen := &clientcmd.ConfigOverrides{CurrentContext: kubeContext}
		config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, chosen).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("context %q: %w", kubeContext, err)
		}
		found[name] = config
	}
	return found, nil
}

func style(cell string) ui.Style {
	switch doctor.State(cell) {
	case doctor.OK:
		return ui.Green
	case doctor.Warn:
		return ui.Yellow
	case doctor.Fail:
		return ui.Red
	case doctor.Skipped:
	}
	return ui.Faint
}

// mark tells the states apart without color.
func mark(s doctor.State) string {
	return map[doctor.State]string{doctor.OK: "✓", doctor.Warn: "!", doctor.Fail: "✗", doctor.Skipped: "-"}[s]
}

// screen is the report for people: group by group, with causes and fixes below.
func (o *options) screen(w io.Writer, r *report) error {
	var b strings.Builder
	width := 0
	for _, f := range r.Items {
		width = max(width, len([]rune(f.Name)))
	}
	group := ""
	for _, f := range r.Items {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "%s\n", o.f.IO.Paint(ui.Bold, ui.Clean(group)))
		}
		sign := o.f.IO.Paint(style(string(f.State)), mark(f.State))
		fmt.Fprintf(&b, "  %s %-*s  %s\n", sign, width, f.Name, ui.Clean(f.Text))
		for _, line := range [][2]string{{"cause:", f.Cause}, {"fix:  ", f.Fix}} {
			if line[1] != "" && f.State != doctor.OK && f.State != doctor.Skipped {
				fmt.Fprintf(&b, "      %s %s\n", line[0], ui.Clean(line[1]))
			}
		}
	}
	left := r.Total - r.Failed - r.Warnings
	fmt.Fprintf(&b, "\n%d failed, %d with a warning, %d without\n", r.Failed, r.Warnings, left)
	_, err := io.WriteString(w, b.String())
	return err
}
