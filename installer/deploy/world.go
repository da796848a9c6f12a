package deploy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/packages"
)

// world is one commit of the installation repo, with its packages composed as far as they can be. Steps move it on: each
// commit that they make becomes the world.
type world struct {
	repo *workspace.Repo
	// vault is nil where nothing is sealed.
	vault *sealer.Vault

	mu sync.RWMutex // guards what follows
	at view
}

// view is a world as it stands. It does not change.
type view struct {
	commit string
	time   time.Time
	state  *offline.State
	files  fs.FS
	world  *compose.World
}

// deployed are the paths that a deploy reads and that must be committed.
func deployed() []string { return []string{"packages", lockfile.File, workspace.Manifest, "clusters"} }

// openDeployed opens the commit by which a step was taken. Whoever may push a branch, a tag or the record is no reason to carry out
// what they wrote: it has to be in this branch.
func (d *Deploy) openDeployed(ctx context.Context, step *ledger.Step) (*world, error) {
	if err := d.contains(step); err != nil {
		return nil, err
	}
	return openWorld(ctx, &d.Options, step.Commit)
}

// contains refuses a step that was taken by a commit which this branch does not have.
func (d *Deploy) contains(step *ledger.Step) error {
	ok, err := d.Repo.Contains(step.Commit)
	if err == nil && !ok {
		err = &BehindError{Commit: step.Commit, By: step.By}
	}
	return err
}

// openWorld opens a commit by its id; an empty one means HEAD, and that nothing may differ from it in the work tree.
func openWorld(ctx context.Context, o *Options, commit string) (*world, error) {
	repo := o.Repo
	if commit == "" {
		git, err := gitcmd.Find(ctx, repo.Root(), o.Environment...)
		if err != nil {
			return nil, err
		}
		paths, err := git.Uncommitted(ctx, deployed()...)
		if err != nil {
			return nil, err
		}
		if len(paths) > 0 {
			return nil, &DirtyError{Paths: paths}
		}
		if commit, err = repo.Head(); err != nil {
			return nil, err
		}
	}
	w := &world{repo: repo}
	var err error
	if w.vault, err = repo.Vault(nil); err != nil && !errors.Is(err, policy.ErrNone) {
		return nil, err
	}
	return w, w.load(commit)
}

// load makes a commit the world.
func (w *world) load(commit string) error {
	state, err := offline.At(w.repo, commit)
	if err != nil {
		return err
	}
	snap := state.Taken()
	v := view{commit: commit, time: snap.Commit().Time, state: state, files: snap.FS()}
	if w.vault != nil {
		v.files = w.vault.FS(v.files)
	}
	lock, err := lockfile.Load(v.files)
	if err != nil {
		return err
	}
	v.world = &compose.World{
		Fleet: state.Fleet, Repo: v.files, Lock: lock,
		Stored: func(path string) (string, error) {
			hash, _, err := snap.Hash(path)
			if errors.Is(err, fs.ErrNotExist) {
				return "", nil
			}
			return string(hash), err
		},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = v
	return nil
}

func (w *world) now() view {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.at
}

// names are the installations.
func (w *world) names() []string {
	var names []string
	for i := range w.now().state.Fleet.Installations {
		names = append(names, w.now().state.Fleet.Installations[i].Metadata.Name)
	}
	return names
}

// clusters are the fleet's.
func (w *world) clusters() []string {
	var names []string
	for i := range w.now().state.Fleet.Clusters {
		names = append(names, w.now().state.Fleet.Clusters[i].Metadata.Name)
	}
	return names
}

// agent is the public key by which the fleet knows a cluster's agent; empty where it has none.
func (w *world) agent(cluster string) string {
	c, ok := w.now().state.Fleet.Cluster(cluster)
	if !ok {
		return ""
	}
	return c.Spec.Agent.Auth
}

// management is the cluster on which packages run that name no other.
func (w *world) management() string { return w.now().state.Fleet.Workspace.Spec.Management }

// wanted says on which clusters a service is wanted; nil when it is wanted nowhere.
func (w *world) wanted(service string) func(cluster string) bool {
	f := w.now().state.Fleet
	s, ok := f.Service(service)
	if !ok {
		return nil
	}
	return func(cluster string) bool {
		c, ok := f.Cluster(cluster)
		return ok && s.Spec.Clusters.Matches(c)
	}
}

// targets are the clusters that steps' services are for.
func (w *world) targets(composed []*compose.Composed) map[plan.ID][]string {
	return targetsOf(w.now().state.Fleet, composed)
}

func targetsOf(f *fleet.Fleet, composed []*compose.Composed) map[plan.ID][]string {
	targets := map[plan.ID][]string{}
	for _, c := range composed {
		for i := range c.Steps {
			step := &c.Steps[i]
			for j := range f.Clusters {
				on := func(s fleet.Service) bool { return s.Spec.Clusters.Matches(&f.Clusters[j]) }
				if slices.ContainsFunc(step.Services, on) {
					id := plan.NewID(c.Name, step.Name)
					targets[id] = append(targets[id], f.Clusters[j].Metadata.Name)
				}
			}
		}
	}
	return targets
}

// composeAll composes every installation.
func (w *world) composeAll() ([]*compose.Composed, error) {
	return compose.All(w.now().world, nil)
}

// compose composes a step's installation as it is now.
func (w *world) compose(id plan.ID) (*compose.Composed, *compose.Step, error) {
	c, err := compose.Installation(w.now().world, id.Installation(), nil)
	if err != nil {
		return nil, nil, err
	}
	for i := range c.Steps {
		if c.Steps[i].Name == id.Step() {
			return c, &c.Steps[i], nil
		}
	}
	return nil, nil, fmt.Errorf("package %s has no step %q any more", c.Name, id.Step())
}

// payload is a folder of an installation's package.
func (w *world) payload(installation, path string) (fs.FS, error) {
	return fs.Sub(w.now().files, compose.Payload(installation)+"/"+path)
}

// module is what a package says of a terraform step; nil when it is none.
func module(p *packages.Package, step string) *packages.Terraform {
	for i := range p.Spec.Steps {
		if p.Spec.Steps[i].Name == step {
			return p.Spec.Steps[i].Terraform
		}
	}
	return nil
}

// commit makes files what is given, where HEAD has them otherwise, pushes that, and moves the world on. It returns the commit
// that has them all.
func (w *world) commit(ctx context.Context, message string, files map[string][]byte) (string, error) {
	at := w.now()
	changed := map[string][]byte{}
	for path, content := range files {
		old, err := fs.ReadFile(at.files, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if content != nil {
				changed[path] = content
			}
		case err != nil:
			return "", err
		case content == nil || string(old) != string(content):
			changed[path] = content
		}
	}
	if len(changed) == 0 {
		return at.commit, nil
	}
	commit, err := w.repo.Commit(ctx, message, changed)
	if err != nil {
		return "", err
	}
	remote, err := w.repo.HasRemote()
	if err != nil {
		return "", err
	}
	if remote {
		if commit, err = w.repo.Push(ctx); err != nil {
			return "", err
		}
	}
	return commit, w.load(commit)
}

// publish lets the remote have the commits that only this clone has: others, and the hub, must be able to find what was deployed,
// and once it is recorded it can no longer be made anew on top of theirs.
func (w *world) publish(ctx context.Context) error {
	remote, err := w.repo.HasRemote()
	if err != nil || !remote {
		return err
	}
	if published, err := w.repo.Published(); err != nil || published {
		return err
	}
	commit, err := w.repo.Push(ctx)
	if err != nil || commit == w.now().commit {
		return err
	}
	return w.load(commit)
}

// UnsealableError says that something secret would have to be kept, and nothing seals it.
type UnsealableError struct {
	Path   string
	Policy bool
}

// Error says what.
func (e *UnsealableError) Error() string {
	if e.Policy {
		return fmt.Sprintf("terraform's state may hold secrets, and no rule of .plural/seal.yaml seals %s", e.Path)
	}
	return "terraform's state may hold secrets, and nothing is sealed in this repository"
}

// Fix says what to do.
func (e *UnsealableError) Fix() string {
	if e.Policy {
		return "add the pattern **/*.secret.yaml to .plural/seal.yaml, or give the module a backend"
	}
	return "plural crypto init, or give the module a backend"
}

// sealable says why a path cannot be sealed, if it cannot.
func (w *world) sealable(path string) error {
	if w.vault == nil {
		return &UnsealableError{Path: path}
	}
	must, err := w.vault.Must(path)
	if err == nil && !must {
		err = &UnsealableError{Path: path, Policy: true}
	}
	return err
}

func (w *world) seal(path string, content []byte) ([]byte, error) {
	if err := w.sealable(path); err != nil {
		return nil, err
	}
	return w.vault.Seal(path, content)
}

func (w *world) open(path string, content []byte) ([]byte, error) {
	if w.vault == nil {
		return nil, &UnsealableError{Path: path}
	}
	return w.vault.Open(path, content)
}
