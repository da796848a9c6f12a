// Package packages owns the format of packages.
//
// It refuses to know where packages are found, which versions fit together, and what is done with them. A folder is read
// strictly by Load, which collects every mistake with its place, checks that what the document names is there, and that its
// expressions refer to something; Lint says besides what would make the package better. Digest names what the folder holds.
// Answers judges what somebody answered to the package's questions.
package packages

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"github.com/Masterminds/semver/v3"

	"github.com/pluralsh/plural/internal/boundread"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
)

// MaxFile is the longest package.yaml, in bytes.
const MaxFile = 1 << 20

// Load reads the package in a folder. When its author is to blame the error is a fleet.Errors; anything else comes from
// files.
func Load(files fs.FS) (*Package, error) {
	p, faults, err := read(files)
	if err != nil {
		return nil, err
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// read is Load with the mistakes apart. The package is there, as far as it could be read, when the document could.
func read(files fs.FS) (*Package, *yamlstrict.Faults, error) {
	data, err := boundread.File(files, File, MaxFile)
	faults := &yamlstrict.Faults{}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		faults.Add(fleet.Position{File: File}, `a package's folder holds it: begin with "plural package new"`, "file not found")
		return nil, faults, nil
	case errors.Is(err, boundread.ErrNotRegular):
		faults.Add(fleet.Position{File: File}, "put the file itself here", "not a regular file")
		return nil, faults, nil
	case err != nil:
		return nil, nil, err
	case len(data) > MaxFile:
		faults.Add(fleet.Position{File: File}, "shorten it", "file is larger than %d MiB", MaxFile>>20)
		return nil, faults, nil
	}
	p := parse(data, faults)
	if p == nil {
		return nil, faults, nil
	}
	if err := p.checkFiles(files, faults); err != nil {
		return nil, nil, err
	}
	return p, faults, nil
}

// Parse reads package.yaml alone, without the files beside it: for catalogs, which have no more of most versions. Errors
// are those of Load.
func Parse(data []byte) (*Package, error) {
	faults := &yamlstrict.Faults{}
	if len(data) > MaxFile {
		faults.Add(fleet.Position{File: File}, "shorten it", "file is larger than %d MiB", MaxFile>>20)
		return nil, faults.Err()
	}
	p := parse(data, faults)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

func parse(data []byte, faults *yamlstrict.Faults) *Package {
	var p *Package
	yamlstrict.Read(File, data, faults, func(d *yamlstrict.Document) bool {
		switch {
		case d.Root == nil:
		case p != nil:
			d.Fault("", "keep one", "a second document")
			return false
		case isPackage(d):
			p = &Package{Position: d.Position(), Fields: d.Fields}
			d.Decode(p)
			p.check(&checker{d, p, stepRefs{}})
		}
		return true
	})
	if p == nil && faults.Len() == 0 {
		faults.Add(fleet.Position{File: File}, "write a Package document", "file is empty")
	}
	return p
}

// isPackage checks apiVersion and kind. It is false when that is another kind altogether, so that complaints about its
// fields would only mislead.
func isPackage(d *yamlstrict.Document) bool {
	for _, want := range []struct{ field, value string }{{"apiVersion", fleet.APIVersion}, {"kind", Kind}} {
		if n := d.Scalar(want.field); n != nil && n.Value != want.value {
			d.Faults.Add(d.At(n), "write "+want.value, "unknown %s %s", want.field, yamlstrict.Quote(n.Value))
			return false
		}
	}
	return true
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (p *Package) Place(field string) fleet.Position {
	return yamlstrict.Place(p.Fields, field, p.Position)
}

// Step finds a step by name. The result is shared: do not change it.
func (p *Package) Step(name string) (*Step, bool) {
	for i := range p.Spec.Steps {
		if p.Spec.Steps[i].Name == name {
			return &p.Spec.Steps[i], true
		}
	}
	return nil, false
}

// BreakingFrom lists what somebody has to agree to before an upgrade from a version to this package's, oldest first. It is
// empty when from is not below.
func (p *Package) BreakingFrom(from string) []Breaking {
	old, err := semver.StrictNewVersion(from)
	if err != nil {
		return nil // not one that a package could have
	}
	to, err := semver.StrictNewVersion(p.Spec.Version)
	if err != nil {
		return nil
	}
	var crossed []Breaking
	for _, b := range p.Spec.Breaking {
		since, err := semver.StrictNewVersion(b.Since)
		if err == nil && old.LessThan(since) && !to.LessThan(since) {
			crossed = append(crossed, b)
		}
	}
	slices.SortStableFunc(crossed, func(a, b Breaking) int {
		return cmp.Or(semver.MustParse(a.Since).Compare(semver.MustParse(b.Since)))
	})
	return crossed
}
