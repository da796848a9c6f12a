// Package views owns views.yaml, the shared views of the console.
//
// It refuses to know how a list is shown and where its rows come from.
//
// Load reads the file at the root of an installation repo strictly, and gives its views with the keys that they are reached by: lists
// of the console, each with a filter. They are data and nothing else, since whoever may commit decides on them: nothing in the file
// is ever run. Filters are checked for their form; whether a value is one that rows can have is seen when the view is looked at.
package views

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"github.com/pluralsh/plural/internal/boundread"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
)

// The structs below are the format: a field without omitempty must be written, and not empty; any other field is unknown. The strict
// decoder reads both from the yaml tags, and the schema has the comments besides.

// File is where the views are, in an installation repo.
const File = "views.yaml"

// Kind is what that document says of itself.
const Kind = "Views"

// Bounds of the file and of what is in it.
const (
	maxFile = 64 << 10
	maxName = 64
	// MaxKey is the last key.
	MaxKey = 9
)

// Views is views.yaml: what people of this fleet look at, each reached by one key of the console.
type Views struct {
	fleet.TypeMeta `yaml:",inline"`
	Spec           Spec `yaml:"spec" json:"spec"`
}

// Spec is everything that the file says.
type Spec struct {
	// Views are the views, at most nine.
	Views []View `yaml:"views" json:"views"`
}

// View is one list as somebody likes it.
type View struct {
	// Key is the digit that goes there: 1 to 9.
	Key int `yaml:"key" json:"key"`
	// Name says what is seen there, on one line.
	Name string `yaml:"name" json:"name"`
	// List is what is listed.
	List string `yaml:"list" json:"list" enum:"fleet,clusters,services,sources,packages,events"`
	// Filter picks rows, as after / in the console, and as --filter does.
	Filter string `yaml:"filter,omitempty" json:"filter,omitempty"`
}

// Lists are all that can be listed.
func Lists() []string {
	return []string{"fleet", "clusters", "services", "sources", "packages", "events"}
}

// Load reads the views at the root of files, by their keys; there are none without the file. When people's input is to blame the error
// is a fleet.Errors; anything else comes from files.
func Load(files fs.FS) ([]View, error) {
	text, err := boundread.File(files, File, maxFile)
	switch {
	case errors.Is(err, boundread.ErrNotRegular):
		faults := &yamlstrict.Faults{}
		faults.Add(fleet.Position{File: File}, "put the file itself here", "not a regular file")
		return nil, faults.Err()
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return Parse(text)
}

// Parse is Load for the text of the file.
func Parse(text []byte) ([]View, error) {
	faults := &yamlstrict.Faults{}
	if len(text) > maxFile {
		faults.Add(fleet.Position{File: File}, "keep the views that are looked at", "file is larger than %d KiB", maxFile>>10)
		return nil, faults.Err()
	}
	var list []View
	documents := 0
	yamlstrict.Read(File, text, faults, func(d *yamlstrict.Document) bool {
		if d.Root == nil {
			return true
		}
		if documents++; documents > 1 {
			faults.Add(d.Position(), "write all views into the first", "there is a second document")
			return false
		}
		var v Views
		d.Decode(&v)
		check(d, &v)
		list = v.Spec.Views
		return true
	})
	if err := faults.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b View) int { return a.Key - b.Key })
	return list, nil
}

func check(d *yamlstrict.Document, v *Views) {
	if v.APIVersion != "" && v.APIVersion != fleet.APIVersion {
		d.Fault("apiVersion", "write "+fleet.APIVersion, "unknown apiVersion %s", yamlstrict.Quote(v.APIVersion))
	}
	if v.Kind != "" && v.Kind != Kind {
		d.Fault("kind", "write "+Kind, "%s does not belong here", yamlstrict.Quote(v.Kind))
	}
	taken := map[int]string{}
	for i := range v.Spec.Views {
		view, at := &v.Spec.Views[i], "spec.views["+strconv.Itoa(i)+"]"
		switch other, is := taken[view.Key]; {
		case view.Key == 0: // missing, and told as such, or written as it
			if _, written := d.Fields[at+".key"]; written {
				d.Fault(at+".key", "choose one from 1 to 9", "there is no key 0")
			}
		case view.Key < 0 || view.Key > MaxKey:
			d.Fault(at+".key", "choose one from 1 to 9", "there is no key %d", view.Key)
		case is:
			d.Fault(at+".key", "choose another", "key %d goes to %s already", view.Key, yamlstrict.Quote(other))
		default:
			taken[view.Key] = view.Name
		}
		if len(view.Name) > maxName {
			d.Fault(at+".name", "say it in fewer words", "name is longer than %d bytes", maxName)
		}
		checkFilter(d, at+".filter", view.Filter)
	}
}

// checkFilter judges a filter by its form: any key may be one.
func checkFilter(d *yamlstrict.Document, at, text string) {
	form := filter.Schema[struct{}]{
		Fields: map[string]filter.Field[struct{}]{"cluster": {Get: func(struct{}) string { return "" }}}, At: "cluster",
		Tag: func(struct{}, string) string { return "" },
	}
	_, err := filter.Parse(text, form)
	if wrong := (*filter.Error)(nil); errors.As(err, &wrong) {
		d.Fault(at, wrong.Fix, "%v", err)
	}
}
