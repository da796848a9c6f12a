package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/internal/supervise"
	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace"
)

// Options say what a local fleet is made of.
type Options struct {
	// Name is the workspace's name.
	Name string
	// Clusters are the names of the clusters; the first is the management cluster.
	Clusters []string
	// Port is the hub's on the loopback interface; another free one is taken when it is in use.
	Port int
	// Plural and Localkube are the absolute paths of the programs.
	Plural, Localkube string
	// Agent is the command that runs an agent, without its flags.
	Agent []string
	// Status asks the hub how the fleet is.
	Status func(ctx context.Context, hubURL, token string) (*v1.Status, error)
	// Reporter hears of each step.
	Reporter Reporter
}

// Reporter hears of steps, which may overlap.
type Reporter interface {
	Start(step string)
	// Detail says what a step is waiting for.
	Detail(step, text string)
	Done(step, text string)
	Fail(step string, err error)
}

// Result is a fleet that is up.
type Result struct {
	Fleet  Fleet
	HubURL string
	Token  string
	Status *v1.Status
}

// bringUp is one Up under way.
type bringUp struct {
	Fleet
	Options
	repo   *workspace.Repo
	hubURL string
	branch string
	origin string
	token  string
	head   string // the commit that the fleet has to converge on
}

// Up brings the fleet up, or finishes what an earlier Up began. It returns once every cluster runs what the repo asks for.
func (f Fleet) Up(ctx context.Context, o Options) (*Result, error) {
	b := &bringUp{Fleet: f, Options: o}
	if err := b.step("preflight", func(string) (string, error) { return b.preflight(ctx) }); err != nil {
		return nil, err
	}
	// Control planes take the longest, and need nothing of the repo.
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return b.step("control planes", func(step string) (string, error) { return b.startClusters(groupCtx, step) })
	})
	group.Go(func() error {
		if err := b.step("repo", func(string) (string, error) { return b.initRepo(groupCtx) }); err != nil {
			return err
		}
		return b.step("hub", func(string) (string, error) { return b.startHub(groupCtx) })
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := b.step("agents", func(string) (string, error) { return b.startAgents(ctx) }); err != nil {
		return nil, err
	}
	result := &Result{Fleet: f, HubURL: b.hubURL, Token: b.token}
	return result, b.step("converged", func(step string) (text string, err error) {
		result.Status, text, err = b.converge(ctx, step)
		return text, err
	})
}

func (b *bringUp) step(name string, do func(step string) (string, error)) error {
	b.Reporter.Start(name)
	text, err := do(name)
	if err != nil {
		b.Reporter.Fail(name, err)
		return fmt.Errorf("%s: %w", name, err)
	}
	b.Reporter.Done(name, text)
	return nil
}

func (b *bringUp) preflight(ctx context.Context) (string, error) {
	version, err := exec.CommandContext(ctx, "git", "version").Output()
	if err != nil {
		return "", errors.New("git is not on PATH: install it, the fleet's origin is a git repository")
	}
	for _, dir := range []string{b.Dir, b.hubDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("make folder of the local fleet: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.Dir, repoFile), []byte(b.Repo+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write folder of the local fleet: %w", err)
	}
	if err := b.processes().Start(ctx, b.Plural, "local", "supervise", b.Dir); err != nil {
		return "", err
	}
	return strings.TrimSpace(string(version)) + ", " + filepath.Base(b.Localkube) + " found", nil
}

// startClusters runs the control planes, all at once, and waits until each serves.
func (b *bringUp) startClusters(ctx context.Context, step string) (string, error) {
	for _, cluster := range b.Options.Clusters {
		dir := b.clusterDir(cluster)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("make folder of cluster %s: %w", cluster, err)
		}
		if err := b.processes().Set(supervise.Process{
			Name:    clusterPart + cluster,
			Command: []string{b.Localkube, "run", "--dir", dir, "--name", cluster, "--with-parent"},
		}); err != nil {
			return "", err
		}
	}
	for i, cluster := range b.Options.Clusters {
		b.Reporter.Detail(step, fmt.Sprintf("%d of %d ready", i, len(b.Options.Clusters)))
		ready := filepath.Join(b.clusterDir(cluster), "ready.json")
		if err := b.await(ctx, clusterPart+cluster, func() (bool, error) {
			_, err := os.Stat(ready)
			return err == nil, nil
		}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d clusters (%s), simulated nodes: no containers run", len(b.Options.Clusters), strings.Join(b.Options.Clusters, ", ")), nil
}

// await waits for a process; one that ends again and again will not come.
func (b *bringUp) await(ctx context.Context, process string, ready func() (bool, error)) error {
	err := until(ctx, func() (bool, error) {
		if yes, err := ready(); yes || err != nil {
			return yes, err
		}
		states, err := b.processes().Status()
		if err == nil && states[process].Restarts >= 5 {
			return true, fmt.Errorf("%s ends again and again (%s)", process, states[process].Exit)
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w; its output is in %s", process, err, b.Log(process))
	}
	if states, err := b.processes().Status(); err == nil && states[process].Restarts >= 5 {
		return fmt.Errorf("%s ends again and again (%s); its output is in %s", process, states[process].Exit, b.Log(process))
	}
	return nil
}

func (b *bringUp) startHub(ctx context.Context) (string, error) {
	command := []string{
		b.Plural, "hub", "serve", "--data", b.hubDir(), "--listen", strings.TrimPrefix(b.hubURL, "http://"), "--url", b.hubURL,
		"--repo", b.origin, "--branch", b.branch, "--allow-file-sources", "--with-parent",
		"--interval", "1s", "--poll-interval", "250ms", "--report-interval", "5s",
	}
	if err := b.processes().Set(supervise.Process{Name: hubProcess, Command: command}); err != nil {
		return "", err
	}
	client := &http.Client{Timeout: 2 * time.Second}
	if err := b.await(ctx, hubProcess, func() (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.hubURL+"/healthz", nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil // not listening yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	}); err != nil {
		return "", err
	}
	token, err := os.ReadFile(b.TokenFile())
	if err != nil {
		return "", fmt.Errorf("read hub token: %w", err)
	}
	b.token = strings.TrimSpace(string(token))
	return b.hubURL, nil
}

// startAgents registers the clusters that are not, commits them with what the fleet is to run at first, and starts
// their agents.
func (b *bringUp) startAgents(ctx context.Context) (string, error) {
	files := map[string][]byte{}
	for i, cluster := range b.Options.Clusters {
		if err := b.register(ctx, files, cluster, i == 0); err != nil {
			return "", err
		}
	}
	err := b.addSample(files)
	if err != nil {
		return "", err
	}
	if len(files) > 0 {
		if _, err := b.repo.Commit(ctx, "Register the local clusters", files); err != nil {
			return "", err
		}
	}
	if b.head, err = b.repo.Push(ctx); err != nil {
		return "", err
	}
	for _, cluster := range b.Options.Clusters {
		command := append(slices.Clone(b.Agent),
			"--kubeconfig", b.Kubeconfig(cluster), "--data", b.agentDir(cluster),
			"--listen", "127.0.0.1:0", "--heal-interval", "5s", "--with-parent")
		if err := b.processes().Set(supervise.Process{Name: agentPart + cluster, Command: command}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d registered and started", len(b.Options.Clusters)), nil
}

// register adds a cluster's file to files, unless the cluster knows its keys and the repo knows the cluster.
func (b *bringUp) register(ctx context.Context, files map[string][]byte, cluster string, management bool) error {
	path := register.Path(cluster)
	file, err := os.ReadFile(filepath.Join(b.Repo, path))
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	registered := filepath.Join(b.clusterDir(cluster), "registered")
	if _, err := os.Stat(registered); err == nil && file != nil {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", b.Kubeconfig(cluster))
	if err != nil {
		return fmt.Errorf("read kubeconfig of %s: %w", cluster, err)
	}
	kube, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", cluster, err)
	}
	role := "edge"
	if management {
		role = "management"
	}
	request := register.Request{Cluster: cluster, HubURL: b.hubURL, Tags: map[string]string{"env": "local", "role": role}}
	if files[path], err = register.Cluster(ctx, kube, request, file); err != nil {
		return err
	}
	return os.WriteFile(registered, nil, 0o600)
}

// addSample gives a fleet without services one to look at.
func (b *bringUp) addSample(files map[string][]byte) error {
	services, err := filepath.Glob(filepath.Join(b.Repo, "services", "*.yaml"))
	if err != nil || len(services) > 0 {
		return err
	}
	sample, err := templates.Render(templates.Sample, nil)
	if err != nil {
		return err
	}
	for _, file := range sample {
		if _, err := os.Lstat(filepath.Join(b.Repo, file.Path)); err == nil {
			return nil // somebody has begun already
		}
		files[file.Path] = file.Content
	}
	return nil
}

// converge waits until every cluster runs what the newest commit asks for.
func (b *bringUp) converge(ctx context.Context, step string) (*v1.Status, string, error) {
	var status *v1.Status
	err := until(ctx, func() (bool, error) {
		var err error
		if status, err = b.Options.Status(ctx, b.hubURL, b.token); err != nil {
			return false, err
		}
		b.Reporter.Detail(step, fmt.Sprintf("%d of %d deployments healthy", status.Deployments[v1.Healthy], status.Deployments.Total()))
		if status.Head.ID == b.head && len(status.Refused) > 0 {
			return true, nil
		}
		return status.Converged() && status.Commit.ID == b.head && status.Clusters.Total() >= len(b.Options.Clusters), nil
	})
	if err != nil {
		return status, "", err
	}
	if len(status.Refused) > 0 {
		p := status.Refused[0]
		return status, "", fmt.Errorf("the hub refuses commit %.12s: %s:%d: %s", b.head, p.File, p.Line, p.Message)
	}
	return status, fmt.Sprintf("%d clusters, %d services at %.7s", status.Clusters.Total(), status.Services.Total(), b.head), nil
}
