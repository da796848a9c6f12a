package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/internal/boundread"
	"github.com/pluralsh/plural/internal/yamlstrict"
)

// Bounds of one load, besides those of single documents (internal/yamlstrict). They are far above what fleets need, and keep hostile input cheap.
const (
	MaxFile      = 1 << 20  // bytes in one file
	MaxTotal     = 64 << 20 // bytes in all files
	MaxDocuments = 100_000  // documents in all files, empty ones too
)

// workspaceFile is the one file every installation repo has.
const workspaceFile = "plural.yaml"

// loader reads one repository. A value is used once.
type loader struct {
	fsys   fs.FS
	fleet  Fleet
	faults yamlstrict.Faults
	bytes  int
	// documents counts those of all files, also of such as are read side by side.
	documents *atomic.Int64
	agentKeys []agentKey
}

// agentKey is the key of a cluster's agent.
type agentKey struct {
	auth           string
	cluster, place Position
}

func newLoader(fsys fs.FS) *loader {
	return &loader{fsys: fsys, faults: yamlstrict.Faults{Redact: redact}, documents: &atomic.Int64{}}
}

// readAll reads every file of ours. The error is one of reading; mistakes go to l.faults.
func (l *loader) readAll() error {
	if err := l.readWorkspace(); err != nil {
		return err
	}
	for _, folder := range folders() {
		if err := l.readFolder(folder); err != nil {
			return err
		}
	}
	return l.readPackages()
}

func (l *loader) readWorkspace() error {
	info, err := fs.Stat(l.fsys, workspaceFile)
	at := Position{File: workspaceFile}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.faults.Add(at, `create it with "plural init"`, "file not found")
		return nil
	case err != nil:
		return fmt.Errorf("stat %s: %w", workspaceFile, err)
	case !info.Mode().IsRegular():
		l.faults.Add(at, "put the file itself here", "not a regular file")
		return nil
	}
	if err := l.readFile(workspaceFile, folder{kinds: []string{kindWorkspace}}); err != nil {
		return err
	}
	if l.fleet.Workspace.Position.Line == 0 && l.faults.Len() == 0 {
		l.faults.Add(at, "write a Workspace document", "file is empty")
	}
	return nil
}

func (l *loader) readFolder(f folder) error {
	entries, err := fs.ReadDir(l.fsys, f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", f.name, err)
	}
	var files []string
	for _, e := range entries {
		name := path.Join(f.name, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			l.faults.Add(Position{File: name}, "move its files into "+f.name+"/", "folders inside %s/ are not read", f.name)
		case !isYAML(e.Name()):
		case !e.Type().IsRegular():
			l.faults.Add(Position{File: name}, "put the file itself here", "not a regular file")
		default:
			files = append(files, name)
		}
	}
	return l.readFiles(files, f)
}

// readFiles decodes files side by side, which is most of the work of a load, and keeps what they hold in their order.
func (l *loader) readFiles(files []string, f folder) error {
	parts := make([]*loader, len(files))
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range files {
		data, err := l.readBounded(name)
		if err != nil {
			_ = workers.Wait() // no worker fails
			return err
		}
		part := newLoader(nil)
		part.documents, parts[i] = l.documents, part
		workers.Go(func() error {
			if data != nil {
				part.documentsOf(name, data, f)
			}
			return nil
		})
	}
	_ = workers.Wait() // the same
	l.keep(parts)
	return nil
}

// keep takes over what files of a folder held.
func (l *loader) keep(parts []*loader) {
	f := &l.fleet
	f.Clusters = joined(f.Clusters, parts, func(part *Fleet) []Cluster { return part.Clusters })
	f.Sources = joined(f.Sources, parts, func(part *Fleet) []Source { return part.Sources })
	f.Services = joined(f.Services, parts, func(part *Fleet) []Service { return part.Services })
	f.Users = joined(f.Users, parts, func(part *Fleet) []User { return part.Users })
	f.Roles = joined(f.Roles, parts, func(part *Fleet) []Role { return part.Roles })
	f.RoleBindings = joined(f.RoleBindings, parts, func(part *Fleet) []RoleBinding { return part.RoleBindings })
	f.Providers = joined(f.Providers, parts, func(part *Fleet) []Provider { return part.Providers })
	f.Federations = joined(f.Federations, parts, func(part *Fleet) []Federation { return part.Federations })
	f.Applications = joined(f.Applications, parts, func(part *Fleet) []Application { return part.Applications })
	f.Sinks = joined(f.Sinks, parts, func(part *Fleet) []Sink { return part.Sinks })
	f.Routes = joined(f.Routes, parts, func(part *Fleet) []Route { return part.Routes })
	for _, part := range parts {
		l.agentKeys = append(l.agentKeys, part.agentKeys...)
		l.faults.Take(&part.faults)
	}
}

// joined has room for all at once: there may be tens of thousands.
func joined[T any](before []T, parts []*loader, of func(*Fleet) []T) []T {
	more := 0
	for _, part := range parts {
		more += len(of(&part.fleet))
	}
	all := slices.Grow(before, more)
	for _, part := range parts {
		all = append(all, of(&part.fleet)...)
	}
	return all
}

// Document says whether a file of an installation repo, by its path, holds the workspace, services or clusters: what is read of it
// are documents of ours, and nothing in it is rendered.
func Document(name string) bool {
	folder, base := path.Split(name)
	switch folder = strings.TrimSuffix(folder, "/"); folder {
	case "":
		return base == workspaceFile
	case "services", "clusters":
		return isYAML(base) && !strings.HasPrefix(base, ".")
	}
	return base == servicesFile && path.Dir(folder) == packagesFolder
}

func isYAML(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// readFile decodes every document of one file.
func (l *loader) readFile(name string, f folder) error {
	data, err := l.readBounded(name)
	if data == nil || err != nil {
		return err
	}
	l.documentsOf(name, data, f)
	return nil
}

// documentsOf decodes every document of a text.
func (l *loader) documentsOf(name string, data []byte, f folder) {
	yamlstrict.Read(name, data, &l.faults, func(d *yamlstrict.Document) bool {
		if l.documents.Add(1) > MaxDocuments {
			l.faults.Add(Position{File: name}, "", "the repository holds more than %d documents", MaxDocuments)
			return false
		}
		if d.Root != nil {
			l.document(&document{d}, f)
		}
		return true
	})
}

// ReadServices reads the text of a file as Load does, and looks at each of its services by itself: whether what they refer to
// is there is not asked. The error is an Errors.
func ReadServices(file string, data []byte) ([]Service, error) {
	l := newLoader(nil)
	l.documentsOf(file, data, folder{kinds: []string{kindService}})
	return l.fleet.Services, l.faults.Err()
}

// ReadSources is ReadServices for sources.
func ReadSources(file string, data []byte) ([]Source, error) {
	l := newLoader(nil)
	l.documentsOf(file, data, folder{kinds: []string{kindSource}})
	return l.fleet.Sources, l.faults.Err()
}

// ReadAccess is ReadServices for what stands in access/.
func ReadAccess(file string, data []byte) (*Fleet, error) {
	l := newLoader(nil)
	l.documentsOf(file, data, folder{kinds: []string{kindUser, kindRole, kindBinding, kindProvider, kindFederated, kindApp}})
	return &l.fleet, l.faults.Err()
}

// document takes one parsed document through decoding and checks.
func (l *loader) document(d *document, f folder) {
	if kind, ok := d.header(f); ok {
		l.add(d, kind)
	}
}

// readBounded is nil without error when the file is over a bound, which it has reported then.
func (l *loader) readBounded(name string) ([]byte, error) {
	data, err := boundread.File(l.fsys, name, MaxFile)
	if err != nil {
		return nil, err
	}
	l.bytes += len(data)
	switch {
	case len(data) > MaxFile:
		l.faults.Add(Position{File: name}, "split it", "file is larger than %d MiB", MaxFile>>20)
		return nil, nil
	case l.bytes > MaxTotal:
		l.faults.Add(Position{File: name}, "", "the repository's documents are larger than %d MiB together", MaxTotal>>20)
		return nil, nil
	}
	return data, nil
}
