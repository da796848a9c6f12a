// Package existing owns the setup of a fleet on an existing cluster.
//
// It refuses to know terminals, and which packages make a hub: those are brought in by who calls it, and a Reporter hears of
// each step. Every step finds out what is there already, so a second Up goes on where the first was interrupted.
//
// The installation repo comes first, with an origin that the hub can fetch from. Then the cluster gets its keys and the hub's
// cluster what the hub is told beside git; the packages are added to the repo; and a deploy puts hub and agent into the
// cluster, which from then on keep themselves.
package existing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/installer/converge"
	"github.com/pluralsh/plural/installer/hubkeys"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/rekey"
)

// Options say what fleet is to come up, and where.
type Options struct {
	// Dir is the installation repo's folder, Name the workspace's name.
	Dir, Name string
	// Cluster is what the fleet calls the cluster that Config reaches: its management cluster.
	Cluster string
	Config  *rest.Config
	// HubURL is where agents and people will reach the hub; RepoURL where it fetches the repo from. A repo that is there
	// already says both.
	HubURL, RepoURL string
	// HubCA holds PEM certificates to trust for the hub; empty means the system's.
	HubCA []byte
	// Person says what who begins is called among the members of the repo's groups.
	Person func(ctx context.Context) (string, error)
	// Credentials are what the hub reads, and pushes to, the repo with, by the names of files in a credentials folder.
	Read, Push map[string]string
	// TLSCert and TLSKey are PEM, for a hub that ends TLS itself.
	TLSCert, TLSKey []byte
	// Keys and Confirmed are the person's.
	Keys      workspace.Keys
	Confirmed trust.Store
	// Origin makes the repo's origin where it is not there yet; nil where there is nothing to make.
	Origin func(ctx context.Context) error
	// Grant lets the hub read the repo, and says with what; it is asked while the hub has nothing. Nil: nobody grants.
	Grant func(ctx context.Context) (read map[string]string, err error)
	// Hook has the repo's host tell the hub of pushes, signed with the secret; nil where that is not wanted.
	Hook func(ctx context.Context, secret string) error
	// Seal begins to seal a repo that Up has just made.
	Seal func(ctx context.Context, repo *workspace.Repo) error
	// Look looks at the cluster before anything is made; nil where there is nothing to look for.
	Look func(ctx context.Context, kube dynamic.Interface) error
	// Packages sees to it that the repo has the packages of hub and agent, committed.
	Packages func(ctx context.Context, repo *workspace.Repo) error
	// Deploy puts the repo's packages into place. Those that are gone are not in the cluster, whatever is recorded of them.
	Deploy func(ctx context.Context, repo *workspace.Repo, gone []string) error
	// Token takes what opens the hub from then on, before the rest is waited for: the one before may open it no more.
	Token func(hubURL, token string) error
	// Status asks the hub how the fleet is, List which clusters it has: only one is waited for.
	Status   func(ctx context.Context, hubURL, token string) (*v1.Status, error)
	List     func(ctx context.Context, hubURL, token string) ([]v1.Cluster, error)
	Reporter Reporter
}

// Reporter hears of steps.
type Reporter interface {
	Start(step string)
	// Detail says what a step is waiting for.
	Detail(step, text string)
	Done(step, text string)
	Fail(step string, err error)
}

// Result is a fleet that is up.
type Result struct {
	Repo   *workspace.Repo
	HubURL string
	Status *v1.Status
	// Elsewhere are the fleet's other clusters that are not well, which were not waited for.
	Elsewhere []v1.Problem
}

// bringUp is one Up under way.
type bringUp struct {
	Options
	kube   dynamic.Interface
	repo   *workspace.Repo
	editor *rekey.Editor // nil where nothing is sealed
	keys   *hubkeys.Keys
	status *v1.Status
	// elsewhere is Result.Elsewhere.
	elsewhere []v1.Problem
}

// Up brings the fleet up, or finishes what an earlier Up began.
func Up(ctx context.Context, o Options) (*Result, error) {
	u := &bringUp{Options: o}
	for _, step := range []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{"cluster", u.look},
		{"repo", u.begin},
		{"registered", u.register},
		{"hub keys", u.hub},
		{"packages", u.packages},
		{"deployed", u.deploy},
		{"converged", u.converge},
	} {
		o.Reporter.Start(step.name)
		text, err := step.do(ctx)
		if err != nil {
			o.Reporter.Fail(step.name, err)
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		o.Reporter.Done(step.name, text)
	}
	return &Result{Repo: u.repo, HubURL: u.HubURL, Status: u.status, Elsewhere: u.elsewhere}, nil
}

// answering is how long the cluster's API server may take to say what it is.
const answering = 30 * time.Second

// look sees whether the cluster answers, before anything is made.
func (u *bringUp) look(ctx context.Context) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(u.Config)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeoutCause(ctx, answering, fmt.Errorf("no answer within %s", answering))
	defer cancel()
	text, err := client.RESTClient().Get().AbsPath("/version").Do(limited).Raw()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case limited.Err() != nil:
		return "", &UnreachableError{u.Config.Host, context.Cause(limited)}
	case errors.As(err, new(apierrors.APIStatus)): // it answers, and refuses
		return "", err
	case err != nil:
		return "", &UnreachableError{u.Config.Host, err}
	}
	var said version.Info
	if err := json.Unmarshal(text, &said); err != nil {
		return "", fmt.Errorf("read the version of the API server at %s: %w", u.Config.Host, err)
	}
	if u.kube, err = dynamic.NewForConfig(u.Config); err == nil && u.Look != nil {
		err = u.Look(ctx, u.kube)
	}
	return "Kubernetes " + said.GitVersion, err
}

// begin makes the installation repo with its origin, as far as it is not there.
func (u *bringUp) begin(ctx context.Context) (string, error) {
	if u.Origin != nil {
		if err := u.Origin(ctx); err != nil {
			return "", err
		}
	}
	made, err := workspace.Init(ctx, workspace.Options{
		Dir: u.Dir, Name: u.Name, HubURL: u.HubURL, RepoURL: u.RepoURL,
	})
	if err != nil {
		return "", err
	}
	if u.repo, err = workspace.Find(u.Dir); err != nil {
		return "", err
	}
	u.repo.UseKeys(u.Keys)
	if slices.Contains(made.Created, workspace.Manifest) {
		if err := u.Seal(ctx, u.repo); err != nil {
			return "", fmt.Errorf("seal secrets: %w", err)
		}
	}
	w, err := u.manifest()
	if err != nil {
		return "", err
	}
	if err := u.settle(w); err != nil {
		return "", err
	}
	if err := workspace.CheckName(u.Cluster); err != nil { // it becomes a file's name
		return "", fmt.Errorf("cluster %w", err)
	}
	branch := w.Spec.Repo.Branch
	if branch == "" {
		branch = "main"
	}
	if err := u.repo.AddOrigin(u.RepoURL, branch); err != nil {
		return "", err
	}
	if _, err := u.repo.Push(ctx); err != nil {
		return "", err
	}
	u.editor, err = rekey.Open(u.repo, u.Keys, u.Confirmed)
	if errors.Is(err, policy.ErrNone) {
		err = nil
	}
	return u.repo.Root(), err
}

func (u *bringUp) manifest() (*fleet.Workspace, error) {
	root, err := os.OpenRoot(u.repo.Root())
	if err != nil {
		return nil, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	return fleet.LoadWorkspace(root.FS())
}

// settle takes from plural.yaml what nobody gave, and refuses what it says otherwise.
func (u *bringUp) settle(w *fleet.Workspace) error {
	for _, field := range []struct {
		name, flag string
		has        string
		given      *string
	}{
		{"spec.hub.url", "--hub-url URL", w.Spec.Hub.URL, &u.HubURL},
		{"spec.repo.url", "--repo-url URL", w.Spec.Repo.URL, &u.RepoURL},
		{"spec.management", "--cluster NAME", w.Spec.Management, &u.Cluster},
	} {
		switch {
		case field.has == "" && *field.given == "":
			return &ManifestError{Field: field.name, Flag: field.flag}
		case field.has == "" && field.given == &u.Cluster: // it is written when there is such a cluster
		case field.has == "":
			return &ManifestError{Field: field.name, Wanted: *field.given}
		case *field.given == "":
			*field.given = field.has
		case *field.given != field.has:
			return &ManifestError{Field: field.name, Has: field.has, Wanted: *field.given}
		}
	}
	return nil
}

func (u *bringUp) read(path string) ([]byte, error) {
	root, err := os.OpenRoot(u.repo.Root())
	if err != nil {
		return nil, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	text, err := root.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return text, nil
}

func (u *bringUp) packages(ctx context.Context) (string, error) {
	if err := u.Packages(ctx, u.repo); err != nil {
		return "", err
	}
	_, err := u.repo.Push(ctx)
	return "", err
}

func (u *bringUp) deploy(ctx context.Context) (string, error) {
	if err := u.signed(); err != nil {
		return "", err
	}
	gone, err := u.gone(ctx)
	if err != nil {
		return "", err
	}
	return "", u.Deploy(ctx, u.repo, gone)
}

// gone are the packages of hub and agent that are not in the cluster: it is new, or somebody deleted them. Of others the hub and
// the agents take care once they are there.
func (u *bringUp) gone(ctx context.Context) (packages []string, err error) {
	for _, its := range []struct{ pkg, resource, name string }{
		{"hub", "statefulsets", "plural-hub"},
		{"agent", "deployments", "plural-agent"},
	} {
		kind := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: its.resource}
		_, err := u.kube.Resource(kind).Namespace(hubkeys.Namespace).Get(ctx, its.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			packages = append(packages, its.pkg)
		case err != nil:
			return nil, fmt.Errorf("look for %s %s/%s: %w", its.resource, hubkeys.Namespace, its.name, err)
		}
	}
	return packages, nil
}

const (
	// looking is the wait between two questions to the hub.
	looking = time.Second
	// patience is how long the cluster may take to run what the newest commit asks for.
	patience = 10 * time.Minute
	// failing is how long something may be ill meanwhile: on a new cluster much has to be there before other things can be.
	failing = time.Minute
)

// converge waits until the cluster runs what the newest commit asks for, as its hub says, or something has been ill for a while.
// Of the fleet's other clusters it only says how they are: whoever brings this one up can do nothing about them.
func (u *bringUp) converge(ctx context.Context) (string, error) {
	head, err := u.repo.Head()
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not up after %v", patience))
	defer cancel()
	ticker := time.NewTicker(looking)
	defer ticker.Stop()
	wait := converge.Wait{Head: head, Clusters: 1, Own: []string{u.Cluster}, Failing: failing}
	var silent error // why the hub did not answer when it was asked last
	for {
		status, clusters, err := u.ask(limited)
		switch {
		case err == nil:
			u.status, silent = status, nil
			text, ended, err := wait.Look(status, clusters)
			if ended {
				u.elsewhere = wait.Elsewhere(status)
				return text, err
			}
			u.Reporter.Detail("converged", text)
		case limited.Err() == nil: // else it was cut off
			silent = err
			u.Reporter.Detail("converged", "the hub does not answer at "+u.HubURL)
		}
		select {
		case <-limited.Done():
			switch why := context.Cause(limited); {
			case silent != nil:
				return "", &SilentError{HubURL: u.HubURL, Why: why, Err: silent}
			case u.status != nil:
				return "", wait.Late(u.status, why)
			default:
				return "", why
			}
		case <-ticker.C:
		}
	}
}

// ask asks the hub how the fleet is, and, unless all of it is well, how each of its clusters is.
func (u *bringUp) ask(ctx context.Context) (*v1.Status, []v1.Cluster, error) {
	status, err := u.Status(ctx, u.HubURL, u.keys.Token())
	if err != nil || status.Converged() {
		return status, nil, err
	}
	clusters, err := u.List(ctx, u.HubURL, u.keys.Token())
	return status, clusters, err
}
