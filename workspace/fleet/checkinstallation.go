package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/versions"
)

// Where installations lie. Of each folder these two files are read, and nothing else.
const (
	packagesFolder   = "packages"
	installationFile = "package.yaml"
	servicesFile     = "services.yaml"
)

// Bounds of what an installation says.
const (
	maxCatalogs  = 100
	maxWindows   = 50
	maxAfter     = 100
	maxVersions  = 200 // that are approved, or skipped
	maxPolicyAge = 30 * 24 * time.Hour
)

// readPackages reads what packages/ says of installations, and the services that were made of them.
func (l *loader) readPackages() error {
	entries, err := fs.ReadDir(l.fsys, packagesFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", packagesFolder, err)
	}
	for _, e := range entries {
		name := path.Join(packagesFolder, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			if err := l.readInstallation(name); err != nil {
				return err
			}
		case isYAML(e.Name()):
			fix := "move it to " + strings.TrimSuffix(name, path.Ext(name)) + "/" + installationFile
			l.faults.Add(Position{File: name}, fix, "files of %s/ itself are not read", packagesFolder)
		}
	}
	return nil
}

// readInstallation reads the two files of one folder.
func (l *loader) readInstallation(name string) error {
	at := path.Join(name, installationFile)
	before, known := l.documents.Load(), len(l.fleet.Installations)
	ok, err := l.readNamed(at, folder{kinds: []string{kindInstalled}})
	if err != nil {
		return err
	}
	switch {
	case !ok:
		l.faults.Add(Position{File: at}, fmt.Sprintf(`create it with "plural package add %s", or remove the folder`, path.Base(name)), "file not found")
	case l.documents.Load() == before || len(l.fleet.Installations) == known && !l.faults.In(at):
		l.faults.Add(Position{File: at}, "write an Installation document", "file is empty")
	}
	_, err = l.readNamed(path.Join(name, servicesFile), folder{kinds: []string{kindService}})
	return err
}

// readNamed reads one file, if it is there.
func (l *loader) readNamed(name string, f folder) (found bool, err error) {
	info, err := fs.Stat(l.fsys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("stat %s: %w", yamlstrict.Quote(name), err)
	case !info.Mode().IsRegular():
		l.faults.Add(Position{File: name}, "put the file itself here", "not a regular file")
		return true, nil
	}
	return true, l.readFile(name, f)
}

// addInstallation keeps one; its folder has its name, and no second one.
func (l *loader) addInstallation(d *document) {
	i := Installation{Position: d.Position(), Fields: d.Fields}
	d.Decode(&i)
	d.checkInstallation(&i)
	folder := path.Base(path.Dir(d.File))
	if name := i.Metadata.Name; name != "" && name != folder {
		d.Fault("metadata.name", "rename the folder, or write "+yamlstrict.Quote(folder), "installation %s in the folder %s", yamlstrict.Quote(name), yamlstrict.Quote(folder))
	}
	if n := len(l.fleet.Installations); n > 0 && l.fleet.Installations[n-1].Position.File == d.File {
		d.Fault("", "give it a folder of its own", "a second installation in one file; the first is at %s", l.fleet.Installations[n-1].Position)
		return
	}
	l.fleet.Installations = append(l.fleet.Installations, i)
}

func (d *document) checkInstallation(i *Installation) {
	d.checkName("metadata.name", i.Metadata.Name)
	d.checkName("spec.package", i.Spec.Package)
	d.checkName("spec.catalog", i.Spec.Catalog)
	if v := i.Spec.Version; v != "" && !isRange(v) {
		d.Fault("spec.version", `write a version, or a range of versions such as "^1.2"`, "bad version %s", yamlstrict.Quote(v))
	}
	for n, r := range i.Spec.Clusters.MatchExpressions {
		d.checkRequirement(index("spec.clusters.matchExpressions", n), r)
	}
	d.checkVersions("spec.approved", i.Spec.Approved)
	d.checkUpgrade(&i.Spec.Upgrade)
}

// checkVersions wants versions, not ranges.
func (d *document) checkVersions(field string, list []string) {
	d.checkCount(field, "versions", len(list), maxVersions)
	for n, v := range list {
		if !versions.Is(v) {
			d.Fault(index(field, n), "write a version in full, such as 2.0.0", "bad version %s", yamlstrict.Quote(v))
		}
	}
}

func (d *document) checkUpgrade(u *Upgrade) {
	const at = "spec.upgrade"
	d.checkCount(at+".windows", "windows", len(u.Windows), maxWindows)
	for n := range u.Windows {
		d.checkWindow(index(at+".windows", n), &u.Windows[n])
	}
	d.checkCount(at+".after", "installations", len(u.After), maxAfter)
	d.checkVersions(at+".skip", u.Skip)
	d.checkSpan(at+".soak", u.Soak, 0)
	d.checkSpan(at+".deadline", u.Deadline, time.Minute)
}

func (d *document) checkWindow(at string, w *Window) {
	from, fromOK := clock(w.From)
	to, toOK := clock(w.To)
	switch {
	case w.From == "" || w.To == "": // missing, and reported as such
	case !fromOK || from == 24*time.Hour:
		d.Fault(at+".from", clockFix, "bad time %s", yamlstrict.Quote(w.From))
	case !toOK:
		d.Fault(at+".to", clockFix, "bad time %s", yamlstrict.Quote(w.To))
	case from == to:
		d.Fault(at+".to", `for the whole day write from: "00:00", to: "24:00"`, "window that ends when it begins")
	}
	if _, err := time.LoadLocation(w.Zone); err != nil || w.Zone == "Local" {
		d.Fault(at+".zone", "write a name such as Europe/Berlin, or nothing for UTC", "unknown time zone %s", yamlstrict.Quote(w.Zone))
	}
}

const clockFix = `write hours and minutes in quotes, such as "22:00"`

// checkSpan wants a time of at least so much.
func (d *document) checkSpan(field, text string, least time.Duration) {
	if text == "" {
		return
	}
	if span, err := time.ParseDuration(text); err != nil || span < least || span > maxPolicyAge {
		d.Fault(field, fmt.Sprintf(`write a time between %s and 720h, such as "1h"`, least), "bad time %s", yamlstrict.Quote(text))
	}
}

func (d *document) checkCatalogs(catalogs []CatalogRef) {
	d.checkCount("spec.catalogs", "catalogs", len(catalogs), maxCatalogs)
	first := map[string]int{}
	for n, c := range catalogs {
		at := index("spec.catalogs", n)
		d.checkName(at+".name", c.Name)
		d.checkPath(at+".path", c.Path)
		switch other, taken := first[c.Name]; {
		case c.Name == "": // missing, and reported as such
		case c.Name == BuiltinCatalog:
			d.Fault(at+".name", "choose another name", "catalog %s is the one that the program brings along", yamlstrict.Quote(c.Name))
		case taken:
			d.Fault(at+".name", "rename one of them", "a second catalog named %s; the other is spec.catalogs[%d]", yamlstrict.Quote(c.Name), other)
		default:
			first[c.Name] = n
		}
	}
}

// checkPackages reports names in the catalogs' list and below packages/ that nothing in the fleet has.
func checkPackages(f *Fleet, known *known, out *yamlstrict.Faults) {
	catalogs := []string{BuiltinCatalog}
	w := &f.Workspace
	for n, c := range w.Spec.Catalogs {
		at := index("spec.catalogs", n)
		refer(w, at+".source", "source", c.Source, known.sources, out)
		if source, ok := f.Source(c.Source); ok {
			switch kind := source.Kind(); {
			case kind == "helm":
				out.Add(w.Place(at+".source"), "name a source of git or oci", "source %s is a Helm repository, which holds no packages", yamlstrict.Quote(c.Source))
			case kind == "http":
				out.Add(w.Place(at+".source"), "name a source of git or oci",
					"source %s is a single file, which holds no packages", yamlstrict.Quote(c.Source))
			case kind == "oci" && c.Path != "":
				out.Add(w.Place(at+".path"), "remove it", "path in the source %s, which is of oci", yamlstrict.Quote(c.Source))
			}
		}
		catalogs = append(catalogs, c.Name)
	}
	refer(w, "spec.management", "cluster", w.Spec.Management, known.clusters, out)
	slices.Sort(catalogs)
	for n := range f.Installations {
		i := &f.Installations[n]
		refer(i, "spec.catalog", "catalog", i.Spec.Catalog, catalogs, out)
		referAll(i, "spec.clusters.names", "cluster", i.Spec.Clusters.Names, known.clusters, out)
		referAll(i, "spec.upgrade.after", "installation", i.Spec.Upgrade.After, known.installations, out)
	}
}
