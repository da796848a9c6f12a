// Package skins owns the files with which a person colours the console.
//
// It refuses to know what a colour looks like in a terminal.
//
// A skin is built in, or lies in the folder skins of the person's own configuration: skins/NAME.yaml. It is read strictly, and with a
// mistake in it the console looks as it does without.
package skins

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
)

const (
	// Folder is where skins are, in a person's configuration folder.
	Folder = "skins"
	// Kind is what a skin's document says of itself.
	Kind = "Skin"

	maxFile = 64 << 10
)

// document is skins/NAME.yaml.
type document struct {
	fleet.TypeMeta `yaml:",inline"`
	Spec           spec `yaml:"spec"`
}

type spec struct {
	// Base is the skin that is built in of which this one is another.
	Base string `yaml:"base,omitempty"`
	// Styles are what roles look like.
	Styles map[string]string `yaml:"styles,omitempty"`
}

// Load is the skin of a name: one that is built in, or one in the person's configuration folder. Mistakes are yamlstrict.Errors.
func Load(dir, name string) (*paint.Skin, error) {
	if name == "" || slices.Contains(paint.Skins(), name) {
		return &paint.Skin{Base: name}, nil
	}
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`).MatchString(name) {
		return nil, fmt.Errorf("skin %q is no name: choose one of %s, or name a file in %s", name, builtIn(), filepath.Join(dir, Folder))
	}
	path := filepath.Join(dir, Folder, name+".yaml")
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no skin %q: choose one of %s, or write %s", name, builtIn(), path)
	}
	if err != nil {
		return nil, fmt.Errorf("open skin: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read skin: %w", err)
	}
	return Parse(path, text)
}

func builtIn() string { return strings.Join(paint.Skins(), ", ") }

// Parse is Load for the text of a file.
func Parse(file string, text []byte) (*paint.Skin, error) {
	faults := &yamlstrict.Faults{}
	skin := &paint.Skin{}
	yamlstrict.Read(file, text, faults, func(d *yamlstrict.Document) bool {
		if d.Root == nil {
			return true
		}
		var doc document
		d.Decode(&doc)
		if doc.APIVersion != "" && doc.APIVersion != fleet.APIVersion {
			d.Fault("apiVersion", "write "+fleet.APIVersion, "unknown apiVersion %s", yamlstrict.Quote(doc.APIVersion))
		}
		if doc.Kind != "" && doc.Kind != Kind {
			d.Fault("kind", "write "+Kind, "%s does not belong here", yamlstrict.Quote(doc.Kind))
		}
		if skin.Base = doc.Spec.Base; skin.Base != "" && !slices.Contains(paint.Skins(), skin.Base) {
			d.Fault("spec.base", "choose one of "+builtIn(), "there is no skin %s", yamlstrict.Quote(skin.Base))
		}
		for _, role := range slices.Sorted(maps.Keys(doc.Spec.Styles)) {
			if err := skin.Set(role, doc.Spec.Styles[role]); err != nil {
				d.Fault("spec.styles."+role, "", "%v", err)
			}
		}
		return true
	})
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return skin, nil
}
