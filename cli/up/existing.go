package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/cryptocmd"
	"github.com/pluralsh/plural/cli/deploy"
	"github.com/pluralsh/plural/cli/pkg"
	"github.com/pluralsh/plural/cli/progress"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/clusters"
	installed "github.com/pluralsh/plural/installer/deploy"
	"github.com/pluralsh/plural/installer/existing"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/packs"
)

// existingOptions are the flags about a cluster that is there already.
type existingOptions struct {
	context, kubeconfig string
	cluster             string
	hubURL, repoURL     string
	hubCA               string
	read, push          string
	tlsCert, tlsKey     string
	github              string
	set                 []string
	answers             string
	images              string
	// way is how the cluster is reached, once that is known.
	way clusters.Access
}

// upExisting brings a fleet up on the cluster of a context.
func (o *options) upExisting(ctx context.Context) error {
	f := o.factory
	work, stop, done := f.Patiently(ctx)
	defer done()
	config, err := o.config()
	if err != nil {
		return err
	}
	wanted, err := o.wanted(work, config)
	if err != nil {
		return err
	}
	reporter := progress.New(f.IO, f.LogFormat, f.Now)
	defer reporter.Close()
	wanted.Reporter, wanted.Token = reporter, f.Hosts().Save
	wanted.Keys, wanted.Confirmed = f.Keys(), f.Confirmed()
	wanted.Seal = func(ctx context.Context, repo *workspace.Repo) error {
		_, _, err := cryptocmd.Begin(ctx, f, repo)
		return err
	}
	given := pkg.NewGiven(f, o.existing.set, o.existing.answers)
	wanted.Packages = func(ctx context.Context, repo *workspace.Repo) error {
		return pkg.Ensure(ctx, f, repo, []packs.Wanted{pkg.Hub(), pkg.Agent()}, given)
	}
	if err := o.useImages(wanted, given); err != nil {
		return err
	}
	wanted.Deploy = func(ctx context.Context, repo *workspace.Repo, gone []string) error {
		return o.deploy(ctx, repo, gone, reporter, stop)
	}
	if err := o.checkHub(wanted); err != nil {
		return err
	}
	ask := func(hub, token string) (*client.Client, error) {
		c, err := client.New(hub, token, f.Version)
		if err == nil && wanted.HubCA != nil {
			err = c.Trust(wanted.HubCA)
		}
		return c, err
	}
	fetches := false
	wanted.Status = func(ctx context.Context, hub, token string) (*v1.Status, error) {
		c, err := ask(hub, token)
		if err != nil {
			return nil, err
		}
		if !fetches { // what was pushed while it came up, it would find at its interval too
			fetches = c.Sync(ctx, v1.OwnSource) == nil
		}
		return c.Status(ctx)
	}
	wanted.List = func(ctx context.Context, hub, token string) ([]v1.Cluster, error) {
		c, err := ask(hub, token)
		if err != nil {
			return nil, err
		}
		return listed(ctx, c)
	}
	result, err := existing.Up(work, *wanted)
	reporter.Close()
	if err != nil {
		return o.explainExisting(work, err)
	}
	for _, line := range elsewhere(result.Elsewhere) {
		f.Say("%s", line)
	}
	printer, err := f.Printer("table")
	if err != nil {
		return err
	}
	return f.Print(printer, outcomeView(outcome{result.Repo.Root(), result.HubURL, result.Status}, o.dir))
}

func (o *options) explainExisting(ctx context.Context, err error) error {
	again := "run it again to go on"
	if errors.Is(ctx.Err(), context.Canceled) {
		return &ui.Err{
			Msg: "interrupted; what is done stays done", Fix: again, Doc: ui.DocInterrupted, Code: ui.ExitInterrupted, Err: err,
		}
	}
	if told := unwell(err, o.dir); told != nil {
		return told
	}
	explained := cmdutil.Explain(deploy.Explain(err))
	var told *ui.Err
	if errors.As(explained, &told) {
		if told.Fix == "" {
			told.Fix = "mend that and " + again
		}
		return told
	}
	return &ui.Err{
		Msg: "the fleet did not come up", Cause: err.Error(), Fix: "mend that and " + again, Doc: ui.DocFleetNotUp, Err: err,
	}
}

// checkHub refuses an address to which no token may go, before anything is deployed.
func (o *options) checkHub(w *existing.Options) error {
	address := w.HubURL
	if repo, err := workspace.Find(w.Dir); err == nil && address == "" {
		manifest, err := cmdutil.Manifest(repo)
		if err != nil {
			return err
		}
		address = manifest.Spec.Hub.URL
	}
	return o.factory.CheckPlain(address)
}

// config is the way to the cluster.
func (o *options) config() (*rest.Config, error) {
	config, way, err := clusters.Named(o.existing.kubeconfig, o.existing.context)
	if err != nil {
		told := &ui.Err{
			Msg: "no way to the cluster", Cause: err.Error(), Fix: "--context CONTEXT, --kubeconfig FILE", Doc: ui.DocNoWay, Err: err,
		}
		var known *clusters.ContextError
		if errors.As(err, &known) && known.Solution != "" {
			told.Fix = known.Solution
		}
		return nil, told
	}
	o.existing.way = way
	return config, nil
}

// wanted are the flags as what is to come up, with what people are asked where flags are missing.
func (o *options) wanted(ctx context.Context, config *rest.Config) (*existing.Options, error) {
	f, e := o.factory, o.existing
	abs, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, fmt.Errorf("find the repo's folder: %w", err)
	}
	w := &existing.Options{
		Dir: abs, Name: cmp.Or(o.name, filepath.Base(abs)), Cluster: e.cluster, Config: config, HubURL: e.hubURL,
		RepoURL: e.repoURL,
	}
	if err := o.origin(w); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(abs, workspace.Manifest)); errors.Is(err, fs.ErrNotExist) {
		w.Cluster = cmp.Or(w.Cluster, "mgmt")
		var questions []ui.Question
		if w.HubURL == "" {
			questions = append(questions, ui.Question{
				Flag: "hub-url", Title: "By which URL will agents and people reach the hub?", Value: &w.HubURL, Check: workspace.CheckHubURL,
				Help: "An Ingress or a load balancer leads it to the Service plural-system/plural-hub.",
			})
		}
		if w.RepoURL == "" {
			questions = append(questions, ui.Question{
				Flag: "repo-url", Title: "From which URL does the hub fetch the installation repo?", Value: &w.RepoURL, Check: workspace.CheckRepoURL,
				Help: "An empty repository on a git host. --github OWNER/NAME makes one.",
			})
		}
		if len(questions) > 0 {
			if err := f.Prompter().Ask(ctx, questions); err != nil {
				return nil, err
			}
		}
	} else if err != nil {
		return nil, fmt.Errorf("look for the installation repo: %w", err)
	}
	for _, file := range []struct {
		flag, name string
		to         *[]byte
	}{{"hub-ca", e.hubCA, &w.HubCA}, {"tls-cert", e.tlsCert, &w.TLSCert}, {"tls-key", e.tlsKey, &w.TLSKey}} {
		if file.name == "" {
			continue
		}
		if *file.to, err = os.ReadFile(file.name); err != nil {
			return nil, fmt.Errorf("--%s: %w", file.flag, err)
		}
	}
	for _, folder := range []struct {
		flag, name string
		to         *map[string]string
	}{{"repo-credentials", e.read, &w.Read}, {"edit-credentials", e.push, &w.Push}} {
		if folder.name == "" {
			continue
		}
		if *folder.to, err = readFolder(folder.name); err != nil {
			return nil, fmt.Errorf("--%s: %w", folder.flag, err)
		}
	}
	w.Person = func(ctx context.Context) (string, error) { return cryptocmd.Person(ctx, f, abs) }
	return w, nil
}

// readFolder is the content of a folder's files.
func readFolder(name string) (map[string]string, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(name, entry.Name()))
		if err != nil {
			return nil, err
		}
		files[entry.Name()] = string(text)
	}
	return files, nil
}

// deploy puts the repo's packages into place, on the cluster of the context.
func (o *options) deploy(
	ctx context.Context, repo *workspace.Repo, gone []string, reporter progress.Reporter, stop <-chan struct{},
) error {
	w, err := cmdutil.Manifest(repo)
	if err != nil {
		return err
	}
	ways := clusters.Locator{Root: repo.Root(), Config: o.factory.ConfigDir()}
	if err := ways.Remember(w.Spec.Management, o.existing.way); err != nil {
		o.factory.Say("%v: say --context %s=CONTEXT when it is needed", err, w.Spec.Management)
	}
	d, err := deploy.OpenFor(ctx, o.factory, repo, reporter, deploy.Choice{
		Stop: stop, Gone: gone, Kubeconfig: o.existing.kubeconfig, Contexts: []string{w.Spec.Management + "=" + o.existing.context},
	})
	if err != nil {
		return err
	}
	if _, err = d.Run(ctx, "plural up"); errors.Is(err, installed.ErrNothing) {
		return nil
	}
	return err
}
