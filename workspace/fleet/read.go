package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pluralsh/plural/internal/boundread"
	"github.com/pluralsh/plural/internal/yamlstrict"
)

// Bounds of one load, besides those of single documents (internal/yamlstrict). They are far above what fleets need, and keep hostile input cheap.
const (
	MaxFile      = 1 << 20  // bytes in one file
	MaxTotal     = 64 << 20 // bytes in all files
	MaxDocuments = 200_000  // documents in all files, empty ones too
)

// workspaceFile is the one file every installation repo has.
const workspaceFile = "plural.yaml"

// loader reads one repository. A value is used once.
type loader struct {
	fsys      fs.FS
	fleet     Fleet
	faults    yamlstrict.Faults
	documents int
	bytes     int
	// agentKeys holds where each agent's key was seen first.
	agentKeys map[string]Position
}

func newLoader(fsys fs.FS) *loader {
	return &loader{fsys: fsys, faults: yamlstrict.Faults{Redact: redact}, agentKeys: map[string]Position{}}
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
			if err := l.readFile(name, f); err != nil {
				return err
			}
		}
	}
	return nil
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
		if l.documents == MaxDocuments {
			l.faults.Add(Position{File: name}, "", "the repository holds more than %d documents", MaxDocuments)
			return false
		}
		l.documents++
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
