package compose

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/workspace/expr"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
)

// Payload is the folder of an installation's package in the repo.
func Payload(name string) string { return "packages/" + name + "/payload" }

// MaxFiles bounds the files and folders of one installation in the repo: its package's, and those that were made for it.
const MaxFiles = 4 * packages.MaxFiles

// loaded is the package of an installation with its expressions compiled.
type loaded struct {
	name   string
	pkg    *packages.Package
	digest string
	// sums are hashes of the payload's files by path.
	sums map[string]string
	// steps are sorted so that each comes after those that it needs.
	steps   []*part
	outputs map[string]*expr.Tree
	// oidc is the package's Application, if it makes one, and oidcSecret its client secret, if it has one.
	oidc       *part
	oidcSecret *expr.Tree
}

// part is one step.
type part struct {
	step  *packages.Step
	index int
	needs []string
	when  *expr.Tree // nil: always
	// raw is what the step says as a tree, a service's as {name, spec}, and tree is raw compiled.
	raw  map[string]any
	tree *expr.Tree
	// fields lead from paths in raw to those in the package's document, the longest first.
	fields [][2]string
}

// loadAll reads the packages of all installations at once. What is wrong with one is told again when it is composed.
func (w *World) loadAll() {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range w.Fleet.Installations {
		group.Go(func() error {
			_, _ = w.load(w.Fleet.Installations[i].Metadata.Name)
			return nil
		})
	}
	_ = group.Wait() // each returns nil
}

// load reads an installation's package, once.
func (w *World) load(name string) (*loaded, error) {
	w.mu.Lock()
	if w.loaded == nil {
		w.loaded = map[string]func() (*loaded, error){}
	}
	once, ok := w.loaded[name]
	if !ok {
		once = sync.OnceValues(func() (*loaded, error) { return load(w.Repo, name) })
		w.loaded[name] = once
	}
	w.mu.Unlock()
	return once()
}

func load(repo fs.FS, name string) (*loaded, error) {
	if _, err := fs.Stat(repo, Payload(name)); errors.Is(err, fs.ErrNotExist) {
		return nil, fleet.Errors{{
			Position: fleet.Position{File: Payload(name)}, Message: "the package's files are not there",
			Fix: "plural package upgrade " + name + ", or git checkout " + Payload(name),
		}}
	}
	files, err := fs.Sub(repo, Payload(name))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", Payload(name), err)
	}
	l := &loaded{name: name, outputs: map[string]*expr.Tree{}}
	if l.sums, err = sums(files); err != nil {
		return nil, moved(name, err)
	}
	if l.pkg, err = packages.Load(files); err != nil {
		return nil, moved(name, err)
	}
	if l.digest, err = packages.Digest(files); err != nil {
		return nil, moved(name, err)
	}
	return l, l.compile()
}

// sums hashes every file, and refuses one with a merge that nobody finished: a template would pass it on.
func sums(files fs.FS) (map[string]string, error) {
	list, err := packages.Contents(files)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string, len(list))
	for _, one := range list {
		text, err := fs.ReadFile(files, one.Path)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", one.Path, err)
		}
		if line := conflictMarker(text); line > 0 {
			at := fleet.Position{File: one.Path, Line: line}
			return nil, fleet.Errors{{Position: at, Message: "merge conflict in the file", Fix: "finish the merge and remove the markers"}}
		}
		all[one.Path] = hash(text)
	}
	return all, nil
}

// conflictMarker is the line of the first of git's conflict markers, or 0 where not all of them are there.
func conflictMarker(text []byte) int {
	if !bytes.Contains(text, []byte("<<<<<<< ")) || !bytes.Contains(text, []byte("\n>>>>>>> ")) {
		return 0
	}
	line := 0
	for one := range bytes.Lines(text) {
		if line++; bytes.HasPrefix(one, []byte("<<<<<<< ")) {
			return line
		}
	}
	return 0
}

// locked is the lock's entry for an installation, which must be about what lies in its folder.
func (w *World) locked(in *fleet.Installation, l *loaded) (*lockfile.Entry, error) {
	name := in.Metadata.Name
	entry, ok := w.Lock.Entry(name)
	switch {
	case !ok:
		return nil, &LockError{name, "it is not there"}
	case l.pkg.Metadata.Name != in.PackageName():
		return nil, fleet.Errors{{
			Position: in.Place("spec.package"),
			Message:  fmt.Sprintf("the package %q is installed, and that in %s is %q", in.PackageName(), Payload(name), l.pkg.Metadata.Name),
			Fix:      "plural package remove " + name + ", then add what you want",
		}}
	case entry.Version != l.pkg.Spec.Version:
		return nil, &LockError{name, fmt.Sprintf("it has version %s, and what lies in %s is %s", entry.Version, Payload(name), l.pkg.Spec.Version)}
	}
	return entry, nil
}

// compile reads all expressions, and sorts the steps.
func (l *loaded) compile() error {
	parts := make([]*part, len(l.pkg.Spec.Steps))
	for n := range l.pkg.Spec.Steps {
		p, err := l.part(n)
		if err != nil {
			return err
		}
		parts[n] = p
	}
	for name, o := range l.pkg.Spec.Outputs {
		tree, err := expr.Compile(o.Value)
		if err != nil {
			return l.fault("spec.outputs."+name, "", "%v", err)
		}
		l.outputs[name] = tree
	}
	if err := l.compileOIDC(); err != nil {
		return err
	}
	for n, p := range parts {
		p.needs = needs(parts, n)
	}
	done := map[string]bool{}
	for len(l.steps) < len(parts) {
		before := len(l.steps)
		for _, p := range parts {
			if !done[p.step.Name] && !slices.ContainsFunc(p.needs, func(n string) bool { return !done[n] }) {
				l.steps, done[p.step.Name] = append(l.steps, p), true
			}
		}
		if len(l.steps) == before {
			return l.fault("spec.steps", "take one of their needs away", "steps wait for each other")
		}
	}
	return nil
}

// fault is a mistake in the package's document.
func (l *loaded) fault(field, fix, format string, args ...any) error {
	at := l.pkg.Place(field)
	at.File = Payload(l.name) + "/" + packages.File
	return fleet.Errors{{Position: at, Message: fmt.Sprintf(format, args...), Fix: fix}}
}

// part compiles one step.
func (l *loaded) part(n int) (*part, error) {
	s := &l.pkg.Spec.Steps[n]
	p := &part{step: s, index: n}
	at := fmt.Sprintf("spec.steps[%d]", n)
	var err error
	if s.When != "" {
		if p.when, err = expr.Compile(s.When); err != nil {
			return nil, l.fault(at+".when", "", "%v", err)
		}
	}
	switch {
	case s.Terraform != nil:
		p.raw = tree(*s.Terraform, map[string]map[string]any{"inputs": s.Terraform.Inputs, "backend": s.Terraform.Backend})
		p.fields = [][2]string{{"", at + ".terraform"}}
	case s.Wait != nil:
		p.raw, p.fields = tree(*s.Wait, nil), [][2]string{{"", at + ".wait"}}
	case s.Helm != nil:
		p.raw, p.fields = helmService(s.Helm, at+".helm")
	case s.Manifests != nil:
		p.raw, p.fields = manifestsService(s.Manifests, at+".manifests")
	case s.Service != nil:
		p.raw = map[string]any{"name": s.Service.Name, "spec": s.Service.Spec}
		p.fields = [][2]string{{"spec", at + ".service.spec"}, {"name", at + ".service.name"}, {"", at + ".service"}}
	}
	if p.tree, err = expr.Compile(p.raw); err != nil {
		return nil, l.evaluation(p, err)
	}
	return p, nil
}

// evaluation is an error of expressions, placed.
func (l *loaded) evaluation(p *part, err error) error {
	var e *expr.Error
	if errors.As(err, &e) {
		return l.fault(p.field(e.At), "", "expression %q: %s", e.Text, e.Cause())
	}
	return l.fault(p.field(""), "", "%v", err)
}

// field is a path of raw as one of the package's document.
func (p *part) field(path string) string {
	for _, f := range p.fields {
		rest, ok := strings.CutPrefix(path, f[0])
		if ok && (rest == "" || f[0] == "" || rest[0] == '.' || rest[0] == '[') {
			if f[0] == "" && rest != "" {
				rest = "." + rest
			}
			return f[1] + rest
		}
	}
	return "spec.steps"
}

// tree is a struct as a tree, with its maps of free shape as they were read.
func tree(from any, free map[string]map[string]any) map[string]any {
	text, err := json.Marshal(from)
	var out map[string]any
	if err != nil || json.Unmarshal(text, &out) != nil {
		panic(fmt.Sprintf("compose: %T is no tree", from)) // what was read strictly is one
	}
	for name, m := range free {
		if m != nil {
			out[name] = m
		}
	}
	return out
}

// helmService is a helm step as a Service would be written.
func helmService(h *packages.Helm, at string) (map[string]any, [][2]string) {
	source, helm := map[string]any{}, map[string]any{}
	put(source, "path", h.Path)
	put(source, "ref", h.Version)
	if h.Source != nil {
		put(source, "name", h.Source.Name)
	}
	put(helm, "chart", h.Chart)
	put(helm, "release", h.Release)
	if h.Values != nil {
		helm["values"] = h.Values
	}
	if h.Record {
		helm["record"] = true
	}
	if h.SkipCRDs {
		helm["skipCRDs"] = true
	}
	spec := map[string]any{"source": source, "renderer": "helm", "helm": helm}
	put(spec, "namespace", h.Namespace)
	return map[string]any{"name": h.Name, "spec": spec}, [][2]string{
		{"spec.source.ref", at + ".version"},
		{"spec.source.name", at + ".source.name"},
		{"spec.source.path", at + ".path"},
		{"spec.helm", at},
		{"spec.namespace", at + ".namespace"},
		{"name", at + ".name"},
		{"", at},
	}
}

// manifestsService is a manifests step as a Service would be written.
func manifestsService(m *packages.Manifests, at string) (map[string]any, [][2]string) {
	spec := map[string]any{"source": map[string]any{"path": m.Path}}
	put(spec, "namespace", m.Namespace)
	if m.Parameters != nil {
		spec["parameters"] = m.Parameters
	}
	return map[string]any{"name": m.Name, "spec": spec}, [][2]string{
		{"spec.source.path", at + ".path"},
		{"spec.parameters", at + ".parameters"},
		{"spec.namespace", at + ".namespace"},
		{"name", at + ".name"},
		{"", at},
	}
}

func put(m map[string]any, key, text string) {
	if text != "" {
		m[key] = text
	}
}

// needs are the steps that a step comes after, in the package's order: those that it names, reads, or waits for.
func needs(parts []*part, n int) []string {
	p := parts[n]
	var list []string
	for _, other := range parts {
		name := other.step.Name
		reads := func(t *expr.Tree) bool {
			return t != nil && slices.ContainsFunc(t.Refs(), func(r expr.Ref) bool { return len(r.Path) > 1 && r.Touches("steps", name) })
		}
		waits := p.step.Wait != nil && slices.Contains(p.step.Wait.Services, name)
		if other != p && (slices.Contains(p.step.Needs, name) || waits || reads(p.tree) || reads(p.when)) {
			list = append(list, name)
		}
	}
	return list
}
