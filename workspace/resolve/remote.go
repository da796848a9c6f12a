package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/internal/kustomizeurl"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// maxRemotes bounds how many remotes the kustomizations of one service may name: each is an archive of its own.
const maxRemotes = 64

// remoteSources are what the kustomizations of a service may name as remotes.
type remoteSources struct {
	fleet   *fleet.Fleet
	service *fleet.Service
	all     Sources
}

// remote is what an address in a kustomization means here.
type remote struct {
	kustomizeurl.Remote
	source *fleet.Source
	ref    string
	// guessed says that the address would rather mean something that no source is, yet.
	guessed bool
	// used are the files and folders of its repository that are needed.
	used []string
}

// remoteFiles are the part of a remote that a service needs, which is mounted.
type remoteFiles struct {
	remote
	snap *snapshot.Snapshot
	root snapshot.Hash // of the repository, so that a later look sees whether it is the same
	// at is where the folder or file path of the repository is seen.
	at, path string
	picked
}

func (f *remoteFiles) mount() Mount {
	m := Mount{
		At: f.at, Bundle: f.bundle, Inputs: []string{f.path}, Links: f.links, Source: f.source.Metadata.Name, Ref: f.ref,
		Commit: f.snap.Commit().ID, Snapshot: f.snap,
	}
	if f.graft != nil {
		m.Snapshot = f.snap.Grafted(f.graft)
	}
	return m
}

// find tells which source an address means, and its state. The fault says what is missing and how it is written; it is none of
// the repository's, so nothing is remembered of it.
func (s *remoteSources) find(from location, meanings []kustomizeurl.Remote) (*remote, *snapshot.Snapshot, *fault) {
	if !s.fleet.Workspace.Remotes() {
		return nil, nil, &fault{
			unread:  true,
			message: fmt.Sprintf("%s is remote, and this workspace allows none in kustomizations", meanings[0].Shown()),
			fix:     "vendor it, or take kustomize.remotes: false out of plural.yaml",
		}
	}
	for i, meaning := range meanings {
		source, ok := s.fleet.RemoteSource(meaning)
		if !ok {
			continue
		}
		if !s.mayUse(from, source) {
			return nil, nil, &fault{
				unread: true,
				message: fmt.Sprintf("%s is the private source %s, which only kustomizations of this repository may name",
					meaning.Shown(), source.Metadata.Name),
				fix: fmt.Sprintf("add it to the mounts of service %s, if its files may be used there", s.service.Metadata.Name),
			}
		}
		ref, _ := source.Standing()
		snap, err := s.all.Snapshot(source.Metadata.Name, ref)
		if err != nil {
			why := sourceProblem(s.service, source.Metadata.Name, "", err)
			return nil, nil, &fault{message: why.Message, fix: why.Fix, awaits: source.Metadata.Name, unread: true}
		}
		return &remote{Remote: meaning, source: source, ref: ref, guessed: i > 0}, snap, nil
	}
	return nil, nil, &fault{
		unread:  true,
		message: fmt.Sprintf("%s is remote, and no source of this workspace is it", meanings[0].Shown()),
		fix:     meanings[0].Command(),
	}
}

// mayUse keeps what is fetched with the fleet's credentials from kustomizations of strangers: it is for those of the
// installation repo, for those that were fetched with the same credentials, and for services that name the source themselves.
func (s *remoteSources) mayUse(from location, source *fleet.Source) bool {
	secret := secretOf(source)
	reader := s.sourceOf(from)
	if secret == "" || reader == "" || len(s.service.Reads(source)) > 0 {
		return true
	}
	known, ok := s.fleet.Source(reader)
	return ok && secretOf(known) == secret
}

func secretOf(s *fleet.Source) string {
	if s.Spec.Auth == nil {
		return ""
	}
	return s.Spec.Auth.Secret
}

// sourceOf is the source that a file of the view comes from; empty for the installation repo.
func (s *remoteSources) sourceOf(from location) string {
	switch {
	case from.remote != nil:
		return from.remote.source.Metadata.Name
	case from.mount > 0:
		return s.service.Spec.Mounts[from.mount-1].Source.Name
	}
	return s.service.Spec.Source.Name
}

// upToDate tells whether find would give the same remotes now. Private sources are always looked up again, since services differ
// in which of them they may use, and so is what an address means only as long as no source is what it would rather mean.
func (s *remoteSources) upToDate(list []remoteFiles) bool {
	return !slices.ContainsFunc(list, func(f remoteFiles) bool {
		source, ok := s.fleet.RemoteSource(f.Remote)
		if !ok || f.guessed || source.Metadata.Name != f.source.Metadata.Name || secretOf(source) != "" || !s.fleet.Workspace.Remotes() {
			return true
		}
		snap, err := s.all.Snapshot(source.Metadata.Name, f.ref)
		if err != nil || snap.Commit().ID != f.snap.Commit().ID {
			return true
		}
		root, _, err := snap.Hash(".")
		return err != nil || root != f.root
	})
}

// remote follows an address in a kustomization.
func (w *closureWalk) remote(from location, ref reference, depth int) *fault {
	meanings, err := kustomizeurl.Parse(kustomizeurl.WithoutKey(ref.path))
	if err != nil {
		return &fault{message: fmt.Sprintf("%s: remote address: %v", ref.field, err)}
	}
	found, f := w.mount(from, meanings)
	if f != nil {
		f.message = ref.field + ": " + f.message
		return f
	}
	name := found.Local()
	at, err := w.view.find(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &fault{
			message: fmt.Sprintf("%s: there is no %q in %s", ref.field, found.Path, found.Shown()),
			fix:     "correct the path or the ref",
		}
	case err != nil:
		return unreadable(err)
	}
	w.use(name, at)
	if !at.mode.IsDir() {
		return nil
	}
	if w.open[name] {
		return &fault{
			message: fmt.Sprintf("%s: %q of %s leads back to itself", ref.field, found.Path, found.Shown()),
			fix:     "remove one of the references",
		}
	}
	w.open[name] = true
	defer delete(w.open, name)
	return w.folder(name, depth+1)
}

// mount makes the view show what an address means, and tells which of its meanings that is.
func (w *closureWalk) mount(from location, meanings []kustomizeurl.Remote) (kustomizeurl.Remote, *fault) {
	found, snap, f := w.view.sources.find(from, meanings)
	if f != nil {
		return kustomizeurl.Remote{}, f
	}
	root := found.Root()
	remotes := 0
	for _, m := range w.view.mounts {
		if m.at == root {
			if m.remote != nil {
				m.remote.guessed = m.remote.guessed || found.guessed
			}
			return found.Remote, nil
		}
		if m.remote != nil {
			remotes++
		} else if _, inside := below(m.dir, kustomizeurl.Folder); inside {
			blocked := fmt.Sprintf("the mount at %q is in the way of remotes", m.dir)
			return found.Remote, &fault{message: blocked, fix: "mount it elsewhere"}
		}
	}
	if _, _, err := w.view.repo.Hash(kustomizeurl.Folder); err == nil {
		return found.Remote, &fault{message: fmt.Sprintf("the folder %q is in the way of remotes", kustomizeurl.Folder), fix: "rename it"}
	}
	if remotes == maxRemotes {
		return found.Remote, &fault{message: fmt.Sprintf("more than %d remotes", maxRemotes), fix: "split the service, or vendor some of them"}
	}
	w.view.mounts = append(w.view.mounts, mountPoint{dir: root, at: root, snap: snap, path: ".", remote: found})
	return found.Remote, nil
}

// use notes that a path of the view is needed.
func (w *closureWalk) use(name string, at location) {
	switch {
	case at.own():
		w.inputs = append(w.inputs, name)
	case at.remote != nil:
		inside, _ := below(name, at.remote.Root()) // by way of links, which the archive has in their places
		at.remote.used = append(at.remote.used, inside)
	}
}

// contains keeps a remote's kustomizations in their own repository, as kustomize does.
func (w *closureWalk) contains(from location, name string) bool {
	if from.remote == nil {
		return true
	}
	_, inside := below(name, from.remote.Root())
	return inside
}

// inflation is a chart that a kustomization has inflated.
type inflation struct {
	name, repo, version string
	// home is the folder of local charts, relative to the kustomization's.
	home         string
	line, column int
}

// inflations are the charts of a kustomization's helmCharts.
func inflations(home string, charts []chart) []inflation {
	var list []inflation
	for i := range charts {
		c := &charts[i]
		if c.Name.Kind != yaml.ScalarNode || c.Name.Value == "" {
			continue // kustomize says what is wrong with it
		}
		list = append(list, inflation{
			name: c.Name.Value, repo: c.Repo, version: c.Version, home: kustomizeurl.ChartHome(home, c.Name.Value, c.Repo, c.Version),
			line: c.Name.Line, column: c.Name.Column,
		})
	}
	return list
}

// chart adds a chart that lies beside the kustomization, or else the one that its repository has.
func (w *closureWalk) chart(dir string, from location, c inflation) *fault {
	if w.looked++; w.looked > maxReferences {
		return &fault{field: "spec.source.path", message: fmt.Sprintf("more than %d references", maxReferences), fix: "split the service"}
	}
	local := path.Join(dir, c.home, c.name)
	if path.IsAbs(c.home) || !fs.ValidPath(local) || !w.contains(from, local) {
		return &fault{
			field: "spec.source.path", message: fmt.Sprintf("helmCharts: %q leaves the repository", path.Join(c.home, c.name)),
			fix: "refer to files of this repository only", outside: true,
		}
	}
	at, err := w.view.find(local)
	if err == nil && at.mode.IsDir() {
		w.use(local, at)
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unreadable(err)
	}
	if c.repo == "" {
		return &fault{
			message: fmt.Sprintf("helmCharts: there is no chart in %q, and no repo is named", path.Join(c.home, c.name)),
			fix:     "add repo, or commit the chart",
		}
	}
	meaning, err := kustomizeurl.Chart(c.repo, c.name, c.version)
	if err != nil {
		return &fault{message: "helmCharts: " + err.Error()}
	}
	found, f := w.mount(from, []kustomizeurl.Remote{meaning})
	if f != nil {
		f.message = "helmCharts: " + f.message
		return f
	}
	if at, err = w.view.find(found.Local()); err != nil {
		return unreadable(err)
	}
	w.use(found.Local(), at)
	return nil
}

// remoteFiles are the folder or the file of each remote that holds all that is needed of it.
func (r *Resolver) remoteFiles(seen *view) ([]remoteFiles, *fault) {
	var list []remoteFiles
	for _, m := range seen.mounts {
		if m.remote == nil {
			continue
		}
		root, _, err := m.snap.Hash(".")
		if err != nil {
			return nil, unreadable(err)
		}
		each := remoteFiles{remote: *m.remote, snap: m.snap, root: root, path: common(m.remote.used)}
		files := r.mountFilesOf(m.snap, each.path)
		if files.fault != nil {
			blamed := *files.fault
			blamed.source = m.remote.source.Metadata.Name
			return nil, &blamed
		}
		each.picked, each.at = files.picked, path.Join(m.at, each.path)
		if files.file {
			each.at = path.Dir(each.at)
		}
		list = append(list, each)
	}
	return list, nil
}

// common is the deepest folder that holds all of the paths, or the path that is the only one.
func common(paths []string) string {
	if len(paths) == 0 {
		return "."
	}
	all := paths[0]
	for _, name := range paths[1:] {
		for all != "." {
			if _, inside := below(name, all); inside {
				break
			}
			all = path.Dir(all)
		}
	}
	return all
}
