// Package kubeschema owns the schemas of Kubernetes kinds.
//
// It refuses to know files and clusters: an object is judged alone, against a version that somebody names.
//
// Definitions come from Kubernetes' own description of its API, as JSON Schema, in which tools/kubeschemas has written them for all
// versions into one file. Structural schemas are JSON Schema but for a few words, which custom.go replaces. A library judges; faults.go
// puts what it found into words, which hold no text of the object. What only an API server computes (CEL rules, admission,
// formats) is not judged.
package kubeschema

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/pluralsh/plural/internal/removedapi"
)

//go:generate go run ../../tools/kubeschemas kubernetes.json.gz

//go:embed kubernetes.json.gz
var packed []byte

// Builtin is what all built-in versions of Kubernetes define.
type Builtin struct {
	// First and Last are the minor versions that are built in, and those between.
	First, Last int
	definitions map[string][]run
	kinds       map[schema.GroupVersionKind]string

	mu       sync.Mutex // guards versions
	versions map[int]*Version
}

// run is a definition since a minor version; gone where it has no schema.
type run struct {
	Since  int             `json:"since"`
	Schema json.RawMessage `json:"schema"`
}

// Load reads them.
func Load() (*Builtin, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read built-in schemas: %w", err)
	}
	var file struct {
		First       int               `json:"first"`
		Last        int               `json:"last"`
		Definitions map[string][]run  `json:"definitions"`
		Kinds       map[string]string `json:"kinds"`
	}
	if err := json.NewDecoder(unpacked).Decode(&file); err != nil {
		return nil, fmt.Errorf("read built-in schemas: %w", err)
	}
	b := &Builtin{
		First: file.First, Last: file.Last, definitions: file.Definitions,
		kinds: make(map[schema.GroupVersionKind]string, len(file.Kinds)), versions: map[int]*Version{},
	}
	for kind, definition := range file.Kinds {
		parts := strings.SplitN(kind, "/", 3)
		b.kinds[schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]}] = definition
	}
	return b, nil
}

// at is the schema of a definition in a minor version; nil: that one has none.
func (b *Builtin) at(definition string, minor int) json.RawMessage {
	var schema json.RawMessage
	for _, r := range b.definitions[definition] {
		if r.Since <= minor {
			schema = r.text()
		}
	}
	return schema
}

// text is nil where the definition is gone.
func (r run) text() json.RawMessage {
	if string(r.Schema) == "null" {
		return nil
	}
	return r.Schema
}

// Version is what one minor version of Kubernetes defines. It is safe for concurrent use.
type Version struct {
	Minor int
	all   *Builtin

	mu       sync.Mutex // guards what follows
	compiler *jsonschema.Compiler
	forms    map[schema.GroupVersionKind]*Form
}

var minorVersion = regexp.MustCompile(`^v?1\.(\d{1,4})\b`)

// Minor is the minor version that a version of Kubernetes such as "v1.35.4+k3s1" is of.
func Minor(version string) (minor int, ok bool) {
	found := minorVersion.FindStringSubmatch(version)
	if found == nil {
		return 0, false
	}
	minor, err := strconv.Atoi(found[1])
	return minor, err == nil
}

// Version is that minor version, or the built-in one that is nearest to it.
func (b *Builtin) Version(minor int) *Version {
	minor = min(max(minor, b.First), b.Last)
	b.mu.Lock()
	defer b.mu.Unlock()
	v, known := b.versions[minor]
	if !known {
		v = &Version{Minor: minor, all: b, forms: map[schema.GroupVersionKind]*Form{}}
		b.versions[minor] = v
	}
	return v
}

// Has says whether the version serves a kind, if it is switched on.
func (v *Version) Has(kind schema.GroupVersionKind) bool {
	definition, known := v.all.kinds[kind]
	return known && v.all.at(definition, v.Minor) != nil
}

// OwnsGroup says whether an API group is one of Kubernetes' own, in any version.
func (b *Builtin) OwnsGroup(group string) bool {
	if removedapi.Group(group) {
		return true
	}
	for kind := range b.kinds {
		if kind.Group == group {
			return true
		}
	}
	return false
}

// Since is the first minor version that serves a kind; zero: none that is built in does.
func (b *Builtin) Since(kind schema.GroupVersionKind) int {
	if runs := b.definitions[b.kinds[kind]]; len(runs) > 0 {
		return runs[0].Since
	}
	return 0
}

// Nearest is the kind of the group that was probably meant; empty: none is near. A kind that is right in another version of the
// group is that one.
func (v *Version) Nearest(kind schema.GroupVersionKind) schema.GroupVersionKind {
	var served []schema.GroupVersionKind
	for other := range v.all.kinds {
		if v.Has(other) {
			served = append(served, other)
		}
	}
	slices.SortFunc(served, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(version.CompareKubeAwareVersionStrings(b.Version, a.Version), cmp.Compare(a.String(), b.String()))
	})
	for _, same := range []func(schema.GroupVersionKind) bool{
		func(k schema.GroupVersionKind) bool { return k.Group == kind.Group && k.Kind == kind.Kind },
		func(k schema.GroupVersionKind) bool {
			return k.GroupVersion() == kind.GroupVersion() && near(kind.Kind, k.Kind)
		},
		func(k schema.GroupVersionKind) bool { return k.Group == kind.Group && near(kind.Kind, k.Kind) },
		func(k schema.GroupVersionKind) bool { return k.Kind == kind.Kind },
	} {
		if i := slices.IndexFunc(served, same); i >= 0 {
			return served[i]
		}
	}
	return schema.GroupVersionKind{}
}

// Form is what objects of a kind look like; nil: the version does not serve it.
func (v *Version) Form(kind schema.GroupVersionKind) (*Form, error) {
	if !v.Has(kind) {
		return nil, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if form, known := v.forms[kind]; known {
		return form, nil
	}
	if v.compiler == nil {
		v.compiler = newCompiler(v)
	}
	compiled, err := v.compiler.Compile(place + v.all.kinds[kind])
	if err != nil {
		return nil, fmt.Errorf("read built-in schema of %s: %w", kind, err)
	}
	form := &Form{compile: func() *jsonschema.Schema { return compiled }, builtin: true}
	v.forms[kind] = form
	return form, nil
}

// Load implements jsonschema.URLLoader: each definition is a document, which those refer to that use it.
func (v *Version) Load(url string) (any, error) {
	text := v.all.at(strings.TrimPrefix(url, place), v.Minor)
	if text == nil {
		return nil, fmt.Errorf("Kubernetes 1.%d has no definition %s", v.Minor, url)
	}
	definition, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	ask(definition, asked()[strings.TrimPrefix(url, place+"io.k8s.")])
	return definition, nil
}

// Gone are the kinds that a built-in version has no more, with the first of those.
func (b *Builtin) Gone() map[schema.GroupVersionKind]int {
	gone := map[schema.GroupVersionKind]int{}
	for kind, definition := range b.kinds {
		if last := b.definitions[definition][len(b.definitions[definition])-1]; last.text() == nil {
			gone[kind] = last.Since
		}
	}
	return gone
}
