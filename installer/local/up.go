package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/installer/converge"
	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/internal/supervise"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
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
	// Keys and Confirmed are the person's, for a repo that is sealed.
	Keys      workspace.Keys
	Confirmed trust.Store
	// Identity is the text of the identity that the hub is to open credentials of sources with; empty: that of the Up before.
	Identity string
	// IdentityFile is one that the hub reads itself, in the place of any Identity. Its path is absolute.
	IdentityFile string
	// Seal begins to seal a repo that Up has just made; nil leaves it unsealed.
	Seal func(ctx context.Context, repo *workspace.Repo) error
	// Token takes what opens the hub from then on, before the rest is waited for: the one before may open it no more.
	Token func(hubURL, token string) error
	// Status asks the hub how the fleet is.
	Status func(ctx context.Context, hubURL, token string) (*v1.Status, error)
	// List asks the hub for all of the fleet's clusters, of which Up may have brought a few up.
	List func(ctx context.Context, hubURL, token string) ([]v1.Cluster, error)
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
	Status *v1.Status
	// Elsewhere are the clusters of the fleet that Up did not bring up, and that are not well.
	Elsewhere []v1.Problem
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
	moved  string // says, when the hub moved to another port, why
	head   string // the commit that the fleet has to converge on
}

// Up brings the fleet up, or finishes what an earlier Up began. It returns once every one of its clusters runs what the repo asks
// for; those that came to the fleet by another way run or not.
func (f Fleet) Up(ctx context.Context, o Options) (*Result, error) {
	b := &bringUp{Fleet: f, Options: o}
	if err := b.step(ctx, "preflight", func(string) (string, error) { return b.preflight(ctx) }); err != nil {
		return nil, err
	}
	// Control planes take the longest, and need nothing of the repo.
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return b.step(groupCtx, "control planes", func(step string) (string, error) { return b.startClusters(groupCtx, step) })
	})
	group.Go(func() error {
		if err := b.step(groupCtx, "repo", func(string) (string, error) { return b.initRepo(groupCtx) }); err != nil {
			return err
		}
		return b.step(groupCtx, "hub", func(step string) (string, error) { return b.startHub(groupCtx, step) })
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := b.step(ctx, "agents", func(step string) (string, error) { return b.startAgents(ctx, step) }); err != nil {
		return nil, err
	}
	result := &Result{Fleet: f, HubURL: b.hubURL}
	return result, b.step(ctx, "converged", func(step string) (text string, err error) {
		text, err = b.converge(ctx, step, result)
		return text, err
	})
}

// failing is how long something may be ill while a fleet comes up before nobody waits for it any more: agents try again.
const failing = 10 * time.Second

// converge waits until every cluster of its own runs what the newest commit asks for, or something has been ill for a while.
func (b *bringUp) converge(ctx context.Context, step string, result *Result) (text string, err error) {
	own := b.Options.Clusters
	wait := converge.Wait{Head: b.head, Clusters: len(own), Own: own, Failing: failing}
	var unwell error
	err = b.until(ctx, func() (ended bool, err error) {
		now, err := b.Options.Status(ctx, b.hubURL, b.token)
		var clusters []v1.Cluster
		if err == nil && !now.Converged() { // else all are well
			clusters, err = b.Options.List(ctx, b.hubURL, b.token)
		}
		if err != nil {
			b.Reporter.Detail(step, "the hub does not answer")
			return false, err
		}
		result.Status = now
		if text, ended, unwell = wait.Look(now, clusters); !ended {
			b.Reporter.Detail(step, text)
		}
		return ended, nil
	})
	status := result.Status
	if err != nil && status != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errTakenDown) {
		err = wait.Late(status, context.Cause(ctx))
	}
	if status != nil {
		result.Elsewhere = wait.Elsewhere(status)
	}
	return text, cmp.Or(unwell, err)
}

// errStopped stands beside a step that was under way when another failed, or when somebody interrupted.
var errStopped = errors.New("stopped")

func (b *bringUp) step(ctx context.Context, name string, do func(step string) (string, error)) error {
	b.Reporter.Start(name)
	text, err := do(name)
	if err != nil {
		shown := err
		if errors.Is(ctx.Err(), context.Canceled) {
			shown = errStopped
		}
		b.Reporter.Fail(name, shown)
		return fmt.Errorf("%s: %w", name, err)
	}
	b.Reporter.Done(name, text)
	return nil
}

func (b *bringUp) preflight(ctx context.Context) (string, error) {
	if err := b.check(); err != nil {
		return "", err
	}
	version, err := gitexec.Call{Args: []string{"version"}}.Run(ctx)
	if err != nil {
		return "", errors.New("git is not on PATH: install it, the fleet's origin is a git repository")
	}
	for _, dir := range []string{b.Dir, b.hubDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("make folder of the local fleet: %w", err)
		}
	}
	known, err := b.recall()
	if err != nil {
		return "", err
	}
	if err := b.choose(known); err != nil { // before the supervisor starts a hub that takes the port
		return "", err
	}
	if err := b.keep(record{Repo: b.Repo, Hub: b.hubURL, Clusters: b.Options.Clusters}); err != nil {
		return "", err
	}
	if err := b.logIn(); err != nil { // whatever fails from here on, people can ask the hub why
		return "", err
	}
	if err := b.processes().Start(ctx, b.Plural, "local", "supervise", b.Dir); err != nil {
		return "", err
	}
	return strings.TrimSpace(string(version)) + ", " + filepath.Base(b.Localkube) + " found", nil
}

// check refuses options that would fail half-way.
func (b *bringUp) check() error {
	if len(b.Options.Clusters) == 0 {
		return errors.New("a fleet has at least one cluster: name it")
	}
	for i, name := range b.Options.Clusters {
		if err := workspace.CheckName(name); err != nil {
			return fmt.Errorf("cluster %w", err)
		}
		if slices.Contains(b.Options.Clusters[:i], name) {
			return fmt.Errorf("cluster %q is named twice", name)
		}
	}
	if b.Port < 0 || b.Port > 65535 {
		return fmt.Errorf("port %d: want 0 to 65535", b.Port)
	}
	return workspace.CheckName(b.Name)
}

// startClusters runs the control planes, all at once, and waits until each serves.
func (b *bringUp) startClusters(ctx context.Context, step string) (string, error) {
	for _, cluster := range b.Options.Clusters {
		dir := b.clusterDir(cluster)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("make folder of cluster %s: %w", cluster, err)
		}
		if err := b.processes().Set(supervise.Process{
			Name:    ClusterPart + cluster,
			Command: []string{b.Localkube, "run", "--dir", dir, "--name", cluster, "--with-parent"},
		}); err != nil {
			return "", err
		}
	}
	for i, cluster := range b.Options.Clusters {
		b.Reporter.Detail(step, fmt.Sprintf("%d of %d ready", i, len(b.Options.Clusters)))
		if err := b.await(ctx, step, ClusterPart+cluster, func() bool { return b.serves(ctx, cluster) }); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s (%s), simulated nodes: no containers run", count(len(b.Options.Clusters), "cluster"),
		strings.Join(b.Options.Clusters, ", ")), nil
}

// serves says whether a cluster is ready. Its file alone may be what a killed process left behind.
func (b *bringUp) serves(ctx context.Context, cluster string) bool {
	if _, err := os.Stat(filepath.Join(b.clusterDir(cluster), "ready.json")); err != nil {
		return false
	}
	config, err := clientcmd.BuildConfigFromFlags("", b.Kubeconfig(cluster))
	if err != nil {
		return false
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return false
	}
	defer client.CloseIdleConnections()
	return answers(ctx, client, config.Host+"/readyz")
}

// answers says whether a GET of url gets a 200, soon.
func answers(ctx context.Context, client *http.Client, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// errTakenDown ends an Up whose fleet somebody else took down meanwhile.
var errTakenDown = errors.New("the fleet was taken down meanwhile")

// until asks until the answer is yes, as long as the fleet is there.
func (b *bringUp) until(ctx context.Context, ask func() (bool, error)) error {
	var gone error
	err := until(ctx, func() (bool, error) {
		if up, err := b.Running(); err == nil && !up {
			gone = errTakenDown
			return true, nil
		}
		return ask()
	})
	return cmp.Or(gone, err)
}

// tries is how often a process may end while it is waited for.
const tries = 5

// await waits for a process; one that ends again and again will not come.
func (b *bringUp) await(ctx context.Context, step, process string, ready func() bool) error {
	named := time.AfterFunc(converge.NameAfter, func() {
		b.Reporter.Detail(step, "waiting for "+process+" to answer; its output is in "+b.Log(process))
	})
	defer named.Stop()
	states, err := b.processes().Status()
	if err != nil {
		return err
	}
	before, hopeless := states[process].Restarts, error(nil)
	err = b.until(ctx, func() (bool, error) {
		if ready() {
			return true, nil
		}
		states, err := b.processes().Status()
		if err == nil && states[process].Restarts-before >= tries {
			hopeless = fmt.Errorf("it ends again and again (%s)", states[process].Exit)
		}
		return hopeless != nil, err
	})
	if err = cmp.Or(hopeless, err); err != nil {
		return fmt.Errorf("wait for %s: %w; its output is in %s", process, err, b.Log(process))
	}
	return nil
}

func (b *bringUp) startHub(ctx context.Context, step string) (string, error) {
	command := []string{
		b.Plural, "hub", "serve", "--data", b.hubDir(), "--listen", strings.TrimPrefix(b.hubURL, "http://"), "--url", b.hubURL,
		"--repo", b.origin, "--branch", b.branch, "--allow-file-sources", "--allow-loopback", "--edits", "--with-parent",
		"--interval", "1s", "--poll-interval", "2s", "--report-interval", "5s",
	}
	identity, err := b.handOverIdentity(ctx)
	if err != nil {
		return "", err
	}
	if identity != "" {
		command = append(command, identityFlag, identity)
	}
	if err := b.renewToken(ctx); err != nil {
		return "", err
	}
	if err := b.processes().Set(supervise.Process{Name: HubPart, Command: command}); err != nil {
		return "", err
	}
	client := &http.Client{}
	if err := b.await(ctx, step, HubPart, func() bool { return answers(ctx, client, b.hubURL+"/healthz") }); err != nil {
		return "", err
	}
	if err := b.dropIdentity(identity); err != nil {
		return "", err
	}
	return b.hubURL + b.moved, b.logIn()
}

// logIn has the person know the token that opens the hub, and makes one before the hub's first start.
func (b *bringUp) logIn() error {
	token, err := os.ReadFile(b.TokenFile())
	if errors.Is(err, fs.ErrNotExist) {
		token = []byte(fleet.NewOperatorToken(time.Now().Add(fleet.OperatorLifetime)) + "\n")
		err = replaceFile(b.TokenFile(), token, 0o600)
	}
	if err != nil {
		return fmt.Errorf("make hub token: %w", err)
	}
	if b.token = strings.TrimSpace(string(token)); b.Options.Token == nil {
		return nil
	}
	return b.Options.Token(b.hubURL, b.token)
}

// renewToken writes another token for the hub where the one that is there expires soon, or never. A hub that runs is stopped before:
// it may be of a release that reads the file when it starts.
func (b *bringUp) renewToken(ctx context.Context) error {
	token, err := os.ReadFile(b.TokenFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the hub makes one
	}
	if err != nil {
		return fmt.Errorf("read hub token: %w", err)
	}
	if !fleet.OperatorDue(strings.TrimSpace(string(token)), time.Now()) {
		return nil
	}
	if err := b.stopHub(ctx); err != nil {
		return fmt.Errorf("renew hub token: %w", err)
	}
	if err := replaceFile(b.TokenFile(), []byte(fleet.NewOperatorToken(time.Now().Add(fleet.OperatorLifetime))+"\n"), 0o600); err != nil {
		return fmt.Errorf("renew hub token: %w", err)
	}
	return nil
}

// identityFlag names the hub the file of its identity.
const identityFlag = "--identity"

// handOverIdentity leaves the person's identity in a file of the hub's, and gives its name; or that of the person's own file,
// which then is the only one. The environment does not come as far: what is started gets no identity by it, and the supervisor of
// an earlier Up has another one.
func (b *bringUp) handOverIdentity(ctx context.Context) (file string, err error) {
	switch {
	case b.Options.IdentityFile != "":
		return b.Options.IdentityFile, nil
	case b.Options.Identity == "":
		return b.identityBefore()
	}
	file = b.identityFile()
	kept, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read identity of the hub: %w", err)
	}
	text := b.Options.Identity + "\n"
	if string(kept) == text {
		return file, nil
	}
	if err := b.stopHub(ctx); err != nil { // it reads the file when it needs it: never half of two
		return "", fmt.Errorf("hand the identity to the hub: %w", err)
	}
	if err := replaceFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("hand the identity to the hub: %w", err)
	}
	return file, nil
}

// identityBefore is the file that the Up before named to the hub, if it is still there: without it the hub would not start.
func (b *bringUp) identityBefore() (string, error) {
	wanted, err := b.processes().Wanted()
	if err != nil {
		return "", err
	}
	files := []string{b.identityFile()} // which an Up may have left that ended before it named it
	command := wanted[HubPart].Command
	if i := slices.Index(command, identityFlag); i >= 0 && i+1 < len(command) {
		files = slices.Insert(files, 0, command[i+1])
	}
	for _, file := range files {
		switch _, err := os.Stat(file); {
		case err == nil:
			return file, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("look for the identity of the hub: %w", err)
		}
	}
	return "", nil
}

// dropIdentity deletes what an earlier Up handed to a hub that reads another file now.
func (b *bringUp) dropIdentity(reads string) error {
	if reads == "" {
		return nil
	}
	own, err := os.Stat(reads)
	if err != nil {
		return fmt.Errorf("find the identity of the hub: %w", err)
	}
	if kept, err := os.Stat(b.identityFile()); err == nil && os.SameFile(kept, own) { // by whatever path the person named it
		return nil
	}
	return b.forgetIdentity()
}

// stopHub is for what a hub that runs must not see change.
func (b *bringUp) stopHub(ctx context.Context) error {
	runs, err := b.hubRuns()
	if err != nil || !runs {
		return err
	}
	return b.Stop(ctx, HubPart, true)
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
