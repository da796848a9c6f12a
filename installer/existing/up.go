// Package existing owns how a fleet comes up on a cluster that is there already.
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
	"maps"
	"os"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/identity"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/installer/hubkeys"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/sharing"
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
	// Packages sees to it that the repo has the packages of hub and agent, committed.
	Packages func(ctx context.Context, repo *workspace.Repo) error
	// Deploy puts the repo's packages into place.
	Deploy func(ctx context.Context, repo *workspace.Repo) error
	// Status asks the hub how the fleet is.
	Status   func(ctx context.Context, hubURL, token string) (*v1.Status, error)
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
	// Token opens the hub to its operators.
	Token  string
	Status *v1.Status
}

// up is one Up under way.
type up struct {
	Options
	kube   dynamic.Interface
	repo   *workspace.Repo
	editor *sharing.Editor // nil where nothing is sealed
	keys   *hubkeys.Keys
	status *v1.Status
}

// Up brings the fleet up, or finishes what an earlier Up began.
func Up(ctx context.Context, o Options) (*Result, error) {
	u := &up{Options: o}
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
	return &Result{Repo: u.repo, HubURL: u.HubURL, Token: u.keys.Token(), Status: u.status}, nil
}

// answering is how long the cluster's API server may take to say what it is.
const answering = 30 * time.Second

// UnreachableError says that the cluster's API server does not answer.
type UnreachableError struct {
	Server string
	Err    error
}

// Error names the server.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the API server at %s does not answer: %v", e.Server, e.Err)
}

// Fix says where to look.
func (e *UnreachableError) Fix() string {
	return "see that it is reachable from here (kubectl version), or name another --context"
}

// Unwrap is why.
func (e *UnreachableError) Unwrap() error { return e.Err }

// look sees whether the cluster answers, before anything is made.
func (u *up) look(ctx context.Context) (string, error) {
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
	u.kube, err = dynamic.NewForConfig(u.Config)
	return "Kubernetes " + said.GitVersion, err
}

// begin makes the installation repo with its origin, as far as it is not there.
func (u *up) begin(ctx context.Context) (string, error) {
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
	u.editor, err = sharing.Open(u.repo, u.Keys, u.Confirmed)
	if errors.Is(err, policy.ErrNone) {
		err = nil
	}
	return u.repo.Root(), err
}

func (u *up) manifest() (*fleet.Workspace, error) {
	root, err := os.OpenRoot(u.repo.Root())
	if err != nil {
		return nil, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	return fleet.LoadWorkspace(root.FS())
}

// ManifestError says what plural.yaml lacks, or has otherwise than it was asked for.
type ManifestError struct{ Field, Has, Wanted string }

// Error says it.
func (e *ManifestError) Error() string {
	if e.Has == "" {
		return fmt.Sprintf("%s has no %s", workspace.Manifest, e.Field)
	}
	return fmt.Sprintf("%s says %s: %s, and %s was asked for", workspace.Manifest, e.Field, e.Has, e.Wanted)
}

// Fix says what to do.
func (e *ManifestError) Fix() string {
	if e.Has == "" {
		return fmt.Sprintf("write %s: %s into %s", e.Field, e.Wanted, workspace.Manifest)
	}
	return fmt.Sprintf("leave the flag out, or change %s and commit it", workspace.Manifest)
}

// settle takes from plural.yaml what nobody gave, and refuses what it says otherwise.
func (u *up) settle(w *fleet.Workspace) error {
	for _, field := range []struct {
		name  string
		has   string
		given *string
	}{
		{"spec.hub.url", w.Spec.Hub.URL, &u.HubURL},
		{"spec.repo.url", w.Spec.Repo.URL, &u.RepoURL},
		{"spec.management", w.Spec.Management, &u.Cluster},
	} {
		switch {
		case field.has == "" && *field.given == "":
			return &ManifestError{Field: field.name, Wanted: "..."}
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

// register gives the cluster's agent its keys, unless it has those that the repo knows.
func (u *up) register(ctx context.Context) (string, error) {
	path := register.Path(u.Cluster)
	file, err := u.read(path)
	if err != nil {
		return "", err
	}
	registered, err := u.registered(ctx, file)
	if err != nil || registered {
		return u.Cluster + " as it was", err
	}
	request := register.Request{Cluster: u.Cluster, HubURL: u.HubURL, HubCA: u.HubCA}
	if u.editor != nil {
		request.Repository = u.editor.Vault().Policy().Repository
	}
	prepared, err := register.Prepare(request, file)
	if err != nil {
		return "", err
	}
	changes := map[string][]byte{path: prepared.File}
	if changes[workspace.Manifest], err = u.managed(); err != nil {
		return "", err
	}
	message := "Register cluster " + u.Cluster
	if u.editor == nil {
		if err := prepared.Install(ctx, u.kube); err != nil {
			return "", err
		}
		_, err = u.repo.Commit(ctx, message, changes)
	} else {
		plan, planned := u.editor.AddCluster(sharing.Cluster{Name: u.Cluster, Tags: prepared.Tags, Age: prepared.Age})
		if planned != nil {
			return "", planned
		}
		maps.Copy(plan.Changes, changes)
		if err := prepared.Install(ctx, u.kube); err != nil {
			return "", err
		}
		_, err = plan.Apply(ctx, message)
	}
	if err != nil {
		return "", err
	}
	_, err = u.repo.Push(ctx)
	return u.Cluster, err
}

// managed is plural.yaml with the management cluster's name.
func (u *up) managed() ([]byte, error) {
	text, err := u.read(workspace.Manifest)
	if err != nil {
		return nil, err
	}
	return values.Set(workspace.Manifest, text, "spec.management", []byte(u.Cluster), values.String)
}

// registered says whether the cluster's agent is the one that the repo knows.
func (u *up) registered(ctx context.Context, file []byte) (bool, error) {
	if file == nil {
		return false, nil
	}
	known, err := identity.Read(ctx, u.kube)
	if err != nil {
		return false, nil //nolint:nilerr // one that cannot be read is made anew
	}
	root, err := os.OpenRoot(u.repo.Root())
	if err != nil {
		return false, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	f, err := fleet.Load(root.FS())
	if err != nil {
		return false, err
	}
	c, ok := f.Cluster(u.Cluster)
	return ok && known.Cluster == u.Cluster && known.HubURL == u.HubURL && c.Spec.Agent.Auth == known.Identity.Public().Auth, nil
}

func (u *up) read(path string) ([]byte, error) {
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

// hub puts into the cluster what the hub is told beside git, and lets it open what is sealed for it.
func (u *up) hub(ctx context.Context) (string, error) {
	request := hubkeys.Request{Repo: u.Read, Edit: u.Push, TLSCert: u.TLSCert, TLSKey: u.TLSKey}
	var err error
	if u.keys, err = hubkeys.Prepare(ctx, u.kube, request); err != nil {
		return "", err
	}
	if u.Grant != nil && !u.keys.HasRepo() {
		if request.Repo, err = u.Grant(ctx); err != nil {
			return "", err
		}
		if u.keys, err = hubkeys.Prepare(ctx, u.kube, request); err != nil {
			return "", err
		}
	}
	if u.keys.Changed() {
		if err := u.keys.Install(ctx, u.kube); err != nil {
			return "", err
		}
	}
	if u.Hook != nil {
		if err := u.Hook(ctx, u.keys.HookSecret()); err != nil {
			return "", err
		}
	}
	if u.editor == nil {
		return "", nil
	}
	recipient, err := u.keys.Recipient()
	if err != nil {
		return "", err
	}
	// The registration may have changed who can open what.
	if u.editor, err = sharing.Open(u.repo, u.Keys, u.Confirmed); err != nil {
		return "", err
	}
	person, err := u.Person(ctx)
	if err != nil {
		return "", err
	}
	plan, err := hubkeys.Join(u.editor, recipient, person)
	if err != nil {
		return "", err
	}
	if plan.Empty() {
		return "as they were", nil
	}
	if _, err := plan.Apply(ctx, ""); err != nil {
		return "", err
	}
	_, err = u.repo.Push(ctx)
	return hubkeys.Namespace + "/" + hubkeys.SecretName, err
}

func (u *up) packages(ctx context.Context) (string, error) {
	if err := u.Packages(ctx, u.repo); err != nil {
		return "", err
	}
	_, err := u.repo.Push(ctx)
	return "", err
}

func (u *up) deploy(ctx context.Context) (string, error) { return "", u.Deploy(ctx, u.repo) }

const (
	// looking is the wait between two questions to the hub.
	looking = time.Second
	// patience is how long the cluster may take to run what the newest commit asks for.
	patience = 10 * time.Minute
)

// LateError says that the cluster does not run what the newest commit asks for.
type LateError struct {
	HubURL string
	// Last is what the hub said last, or why it said nothing.
	Last error
	// Silent says that it was not the hub who said it: the hub did not answer.
	Silent bool
}

// Error says what is the matter.
func (e *LateError) Error() string {
	if e.Silent {
		return fmt.Sprintf("the hub at %s did not answer within %s: %v", e.HubURL, patience, e.Last)
	}
	return fmt.Sprintf("it took more than %s; the hub at %s said last: %v", patience, e.HubURL, e.Last)
}

// Fix says where to look.
func (e *LateError) Fix() string {
	if e.Silent {
		return fmt.Sprintf("see that %s leads to the Service plural-system/plural-hub, and run it again", e.HubURL)
	}
	return "plural status and plural why SERVICE tell more; run it again to go on waiting"
}

// Unwrap is what was said last.
func (e *LateError) Unwrap() error { return e.Last }

// converge waits until the cluster runs what the newest commit asks for, as its hub says.
func (u *up) converge(ctx context.Context) (string, error) {
	head, err := u.repo.Head()
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(looking)
	defer ticker.Stop()
	late := &LateError{HubURL: u.HubURL}
	for {
		u.status, err = u.Status(limited, u.HubURL, u.keys.Token())
		switch {
		case limited.Err() != nil && late.Last != nil: // it was cut off
		case err != nil:
			late.Last, late.Silent = err, true
			u.Reporter.Detail("converged", "the hub does not answer at "+u.HubURL)
		default:
			if u.status.Head.ID == head && len(u.status.Refused) > 0 {
				p := u.status.Refused[0]
				return "", fmt.Errorf("the hub refuses commit %.12s: %s:%d: %s", head, p.File, p.Line, p.Message)
			}
			if u.status.Converged() && u.status.Commit.ID == head && u.status.Clusters.Total() > 0 {
				clusters, services := counted(u.status.Clusters.Total(), "cluster"), counted(u.status.Services.Total(), "service")
				return fmt.Sprintf("%s, %s at %.7s", clusters, services, head), nil
			}
			late.Last, late.Silent = said(u.status, head), false
			u.Reporter.Detail("converged", late.Last.Error())
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return "", fmt.Errorf("%w: %w", context.Cause(ctx), late.Last)
			}
			return "", late
		case <-ticker.C:
		}
	}
}

// said is how far a hub says that the cluster is.
func said(s *v1.Status, head string) error {
	healthy := fmt.Sprintf("%d of %d deployments are healthy", s.Deployments[v1.Healthy], s.Deployments.Total())
	if s.Commit.ID != head {
		return fmt.Errorf("%s, at commit %.7s where %.7s is the newest", healthy, s.Commit.ID, head)
	}
	return errors.New(healthy)
}

// counted is "1 cluster", "2 clusters".
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
