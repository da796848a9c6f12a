package rendercmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/strvals"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// fleetDeployments are what the installation repo says, narrowed to the services and the cluster that are named.
func (o options) fleetDeployments() ([]resolve.Deployment, error) {
	repo, err := o.f.Repo()
	if err != nil {
		return nil, err
	}
	state, err := offline.Open(repo, o.commit)
	if err != nil {
		return nil, err
	}
	if err := o.checkNames(state.Fleet); err != nil {
		return nil, err
	}
	resolver := resolve.New()
	var list []resolve.Deployment
	for _, c := range state.Fleet.Clusters {
		if o.cluster != "" && o.cluster != c.Metadata.Name {
			continue
		}
		deployments, err := resolver.For(state.Fleet, c.Metadata.Name, state)
		if err != nil {
			return nil, err
		}
		for _, d := range deployments {
			if len(o.services) == 0 || slices.Contains(o.services, d.Service) {
				list = append(list, d)
			}
		}
	}
	return list, o.checkFound(list)
}

// checkNames refuses names that the fleet does not have.
func (o options) checkNames(f *fleet.Fleet) error {
	if _, ok := f.Cluster(o.cluster); o.cluster != "" && !ok {
		return &ui.Err{
			Msg: fmt.Sprintf("no cluster %q in this repository", o.cluster), Fix: "ls clusters/", Doc: ui.DocNotFound,
		}
	}
	for _, name := range o.services {
		if _, ok := f.Service(name); !ok {
			return &ui.Err{Msg: fmt.Sprintf("no service %q in this repository", name), Fix: "ls services/", Doc: ui.DocNotFound}
		}
	}
	return nil
}

// checkFound refuses to print nothing for a service that was asked for.
func (o options) checkFound(list []resolve.Deployment) error {
	where := "any cluster"
	if o.cluster != "" {
		where = "cluster " + o.cluster
	}
	for _, name := range o.services {
		if !slices.ContainsFunc(list, func(d resolve.Deployment) bool { return d.Service == name }) {
			return &ui.Err{
				Msg: fmt.Sprintf("service %q is not meant for %s", name, where),
				Fix: "see spec.clusters of the service and spec.tags of the clusters",
			}
		}
	}
	return nil
}

// folder is what --path and the flags that go with it say.
type folder struct {
	path, root, renderer, namespace string
	values, set                     []string
	parameters                      map[string]string
}

// refuseAlone refuses the flags that mean nothing without --path.
func (f folder) refuseAlone() error {
	for flag, given := range map[string]bool{
		"root": f.root != "", "renderer": f.renderer != "", "namespace": f.namespace != "",
		"values": len(f.values) > 0, "set": len(f.set) > 0, "parameter": len(f.parameters) > 0,
	} {
		if given {
			return &ui.Err{Msg: fmt.Sprintf("--%s goes with --path; a service says in its file how it is rendered", flag), Fix: "--path FOLDER"}
		}
	}
	return nil
}

// folderDeployments are the folder's. In no git repository, its root is the nearest folder upward that holds all it
// refers to.
func (o options) folderDeployments() ([]resolve.Deployment, error) {
	if len(o.services) > 0 || o.cluster != "" || o.commit != "" {
		return nil, &ui.Err{
			Msg: "--path renders a folder, and takes no service, cluster or commit", Fix: "leave them out", Doc: ui.DocNotFound,
		}
	}
	dir, err := realPath(o.folder.path)
	if err != nil {
		return nil, err
	}
	root, files, err := o.folder.snapshot(dir)
	if err != nil {
		return nil, err
	}
	deployments, err := o.folder.resolve(root, dir, files)
	for range maxWiden {
		wider := filepath.Dir(root)
		if err != nil || o.folder.root != "" || gitRoot(dir) == root && root != dir || !leadsOut(deployments) || tooWide(wider) {
			break
		}
		if files, err = snapshot.Worktree(wider); err == nil {
			root = wider
			deployments, err = o.folder.resolve(root, dir, files)
		}
	}
	return deployments, err
}

// maxWiden is how many folders upward a folder in no git repository may refer to, unless --root says where to stop.
const maxWiden = 4

// leadsOut says whether a folder refers to files beyond its root.
func leadsOut(deployments []resolve.Deployment) bool {
	return slices.ContainsFunc(deployments, func(d resolve.Deployment) bool { return d.Hold != nil && d.Hold.Outside })
}

// tooWide says that nobody means all of a folder: it is where projects lie, not one of them.
func tooWide(dir string) bool {
	home, err := os.UserHomeDir()
	return dir == filepath.Dir(dir) || err == nil && dir == home || dir == filepath.Clean(os.TempDir())
}

// resolve makes a fleet of one service out of the folder, so that it goes the way that services go.
func (f folder) resolve(root, dir string, files *snapshot.Snapshot) ([]resolve.Deployment, error) {
	service, err := f.service(root, dir)
	if err != nil {
		return nil, err
	}
	alone := &fleet.Fleet{Clusters: []fleet.Cluster{{Metadata: fleet.Metadata{Name: nowhere}}}, Services: []fleet.Service{*service}}
	deployments, err := resolve.For(alone, nowhere, one{files})
	for i := range deployments {
		deployments[i].Cluster = ""
	}
	return deployments, err
}

// nowhere is the cluster that a folder is rendered for.
const nowhere = "none"

// one is the only repository there is.
type one struct{ files *snapshot.Snapshot }

// Snapshot is that repository.
func (o one) Snapshot(string, string) (*snapshot.Snapshot, error) { return o.files, nil }

// snapshot takes in the folder and what it may refer to: --root, or the git repository around it, unless that ignores
// the folder, and else the folder alone.
func (f folder) snapshot(dir string) (string, *snapshot.Snapshot, error) {
	if f.root != "" {
		root, err := realPath(f.root)
		if err != nil {
			return "", nil, err
		}
		files, err := snapshot.Worktree(root)
		return root, files, err
	}
	root := gitRoot(dir)
	files, err := snapshot.Worktree(root)
	if err != nil || root == dir {
		return root, files, err
	}
	inside, err := inside(root, dir)
	if err != nil {
		return "", nil, err
	}
	if _, _, err := files.Hash(inside); errors.Is(err, fs.ErrNotExist) {
		files, err := snapshot.Worktree(dir)
		return dir, files, err
	}
	return root, files, nil
}

// gitRoot is the nearest folder upward with a git repository, or dir itself.
func gitRoot(dir string) string {
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
	}
	return dir
}

// service is the folder, written down as a service would be.
func (f folder) service(root, dir string) (*fleet.Service, error) {
	path, err := inside(root, dir)
	if err != nil {
		return nil, err
	}
	s := &fleet.Service{Metadata: fleet.Metadata{Name: serviceName(dir)}, Spec: fleet.ServiceSpec{
		Source: fleet.SourceRef{Path: path}, Renderer: f.renderer, Namespace: f.namespace,
		Clusters: fleet.Selector{Names: []string{nowhere}}, Parameters: f.parameters,
	}}
	if len(f.values)+len(f.set) == 0 {
		return s, nil
	}
	s.Spec.Helm = &fleet.Helm{Values: map[string]any{}}
	for _, set := range f.set {
		if err := strvals.ParseInto(set, s.Spec.Helm.Values); err != nil {
			return nil, &ui.Err{Msg: fmt.Sprintf("cannot read --set %q", set), Cause: err.Error(), Fix: "--set image.tag=1.2.3", Err: err}
		}
	}
	for _, name := range f.values {
		real, err := realPath(name)
		if err != nil {
			return nil, err
		}
		if name, err = inside(root, real); err != nil {
			return nil, err
		}
		s.Spec.Helm.ValuesFiles = append(s.Spec.Helm.ValuesFiles, name)
	}
	return s, nil
}

// serviceName makes a service's name, and so a release's, of a folder's.
func serviceName(dir string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(filepath.Base(dir)))
	if name = strings.Trim(name[:min(len(name), 53)], "-"); name == "" {
		return "folder"
	}
	return name
}

// realPath is name, absolute and without symbolic links.
func realPath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("find %q: %w", name, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", fmt.Errorf("find %q: %w", name, err)
	}
	return real, nil
}

// inside is name as a path from root.
func inside(root, name string) (string, error) {
	rel, err := filepath.Rel(root, name)
	if err != nil || !filepath.IsLocal(rel) {
		return "", &ui.Err{Msg: fmt.Sprintf("%q lies outside %q", name, root), Fix: "name a folder around both with --root"}
	}
	return filepath.ToSlash(rel), nil
}
