// Package render owns the rendering of a service's files to objects, in a sandboxed child process.
//
// It refuses to know clusters, credentials and disks: no renderer here talks to an API server, reads a file that
// is not in its Input, or sees the environment.
//
// Data passes through in one line: Render sends the Input down the stdin of a child process (the same binary, run
// as "render-child"), the child raises walls around itself before it parses a byte of it, renders in memory, and
// answers on stdout with the objects or with one typed Error. Whatever a stranger's template or YAML does to the
// child, the parent only ever sees a result, an Error, or a child it kills.
//
// What the renderers decide, so that it is written in one place:
//   - raw: every *.yaml, *.yml and *.json below the path, hidden ones aside, in path order. A List is replaced by its items.
//   - kustomize: as kubectl kustomize prints it, order included, with charts as helm template prints them; no plugins. What is
//     remote must be in a mount at the folder that internal/kustomizeurl makes of its address.
//   - helm: crds/ first, then templates in path order. Hooks are objects that keep their annotations, and whoever applies them
//     gives them their turn; those of a rollback alone are left out, since nothing is ever rolled back to. A hook of deletion
//     or of tests that names an object of the chart is left out with a warning. NOTES.txt is rendered, then dropped.
//     Dependencies must lie in charts/. lookup asks Input.Lookup through the parent: the child has no way to a cluster.
//   - a plugin: an executable of whoever runs this program, spoken to as a KRM function (docs/spec/render-plugins.md). It runs
//     in the place of a child, behind walls of its own, and what it prints is read by another child.
//   - A file that does not exist is taken from its name with .tmpl appended, when that exists: a text/template over
//     .parameters, .secrets, .service.name and .namespace with the functions of sprig that always answer the same. A chart's own
//     files are helm's, never ours.
//   - A file that git keeps as a Git LFS pointer is refused wherever it is read: it is not what its author wrote.
//   - A key written twice is refused in manifests and values of the installation repo. In those of others, and in what a chart
//     printed, its last value counts, with a warning, as helm has it; inside a kustomization the word is kustomize's, which
//     refuses most of them.
//   - An object that a chart prints twice with the same content is one object. Of a CustomResourceDefinition that stands twice,
//     the first counts, with a warning: those of crds/ folders come first, a parent's before its subcharts', as helm has it.
//     Hooks of helm's that share a name, but no event, are as many objects. Any other object that stands twice is refused.
package render

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The renderers there are.
const (
	Raw       = "raw"
	Kustomize = "kustomize"
	HelmChart = "helm"
)

// Input is everything a render depends on.
type Input struct {
	// Renderer is Raw, Kustomize, HelmChart or the name of a plugin.
	Renderer string
	// Path is the folder to render, slash-separated and relative to the root of Files; "." is the root.
	Path string
	// Namespace is where the service runs. Objects are not moved into it: that is for who applies them.
	Namespace string
	// Service is the service's name.
	Service string
	// Parameters are what *.tmpl files see as .parameters.
	Parameters map[string]string
	// Secrets are what *.tmpl files see as .secrets: name, key, value. They reach the child on its stdin alone.
	Secrets map[string]map[string]string
	// Helm is read by the helm renderer only; nil means an install named after the service with the chart's own values.
	Helm *Helm
	// Files holds the regular files of the service and of what it refers to.
	Files fs.FS
	// ThirdParty says that Files are no part of the installation repo: those who read the warnings cannot mend them.
	ThirdParty bool
	// Mounts are seen beside Files, where Files has nothing.
	Mounts []Mount
	// Tenant names an authority: whoever writes the files of one of its services could as well write those of another. A child
	// that has seen the files of one tenant renders for that tenant alone. Empty when the input holds what was sealed, or
	// when nobody knows: the child renders nothing else.
	Tenant string
	// KubeVersion is the cluster's version for charts, such as "v1.35.4". Empty means the helm library's default.
	KubeVersion string
	// APIVersions are the cluster's, such as "apps/v1", for charts. Empty means the built-in ones.
	APIVersions []string
	// Lookup answers a chart's lookup; nil means that nothing is ever found, as helm template has it.
	Lookup Lookup `json:"-"`
}

// Lookup returns the object of that name as the cluster has it, or with an empty name the list of them: in the namespace, or
// in all of them when it is empty. What does not exist is an empty map. It is called from one goroutine, and its ctx is the
// render's.
type Lookup func(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error)

// Mount is a folder or a file out of other Files.
type Mount struct {
	// At is the folder in which it is seen: a folder as At itself, a file in it.
	At string
	// Path is the folder or file in Files.
	Path  string
	Files fs.FS
	// ThirdParty is Input.ThirdParty of these Files.
	ThirdParty bool
}

// Helm is how a chart is rendered. The chart is the folder at Input.Path.
type Helm struct {
	// Release is the release's name; empty means the service's.
	Release string
	// ValuesJSON is a JSON object that wins over every values file.
	ValuesJSON []byte
	// ValuesFiles are relative to the root of Files; later ones win.
	ValuesFiles []string
	// SkipCRDs leaves out what lies in crds/ folders.
	SkipCRDs bool
	// Record asks for Output.Record.
	Record bool
}

// Output is a complete render.
type Output struct {
	// Objects are in the order the renderer gave them.
	Objects []*unstructured.Unstructured
	// Warnings are sentences about what renders but will surprise.
	Warnings []string
	// Origins say for each of Objects where it was written.
	Origins []Origin
	// Capabilities means that the output may depend on Input.APIVersions: a chart's templates mention them, or a plugin saw them.
	Capabilities bool
	// Lookup means that the chart looked something up, so the output may depend on what lives in the cluster.
	Lookup bool
	// Record is the Secret by which helm list knows the release; nil when nobody asked, or when it would be too large for one.
	Record *unstructured.Unstructured
}

// Origin is where an object was written. The zero Origin means that nobody knows.
type Origin struct {
	// File is relative to the root of Input.Files: the manifest, the chart's template, the kustomization that generates it.
	File string `json:"file,omitempty"`
	// Line counts from 1; 0 means unknown, as it is in a chart's template, and wherever a document does not spell out what it is.
	Line int `json:"line,omitempty"`
}

// String is "file:line", "file" or "".
func (o Origin) String() string { return place{o.File, o.Line}.String() }

// Renderer renders in child processes. Any number of renders may run at once, each with a child of its own, and bounding
// their number is for the caller.
type Renderer struct {
	// Command starts a child: a program whose main calls ChildMain, and its arguments.
	Command []string
	// Limits bound each render; zero fields take the defaults.
	Limits Limits
	// Plugins is the folder whose executables are renderers by their names; empty means that there are none.
	Plugins string
	// PluginDigests are the SHA-256 of plugins' files, in hex, by name. With any, a plugin that is not among them, or is another file,
	// renders nothing.
	PluginDigests map[string]string
	// Warm is how long a child that has rendered waits for more of the same tenant; none does when it is zero. No output
	// depends on it.
	Warm time.Duration

	warm warmChildren
}

// Render returns in's objects. Bad input, an exceeded limit and a dead child are an *Error; when ctx ends the child
// is killed and the error is ctx's. No child outlives the call but one that waits for more, as Warm says.
func (r *Renderer) Render(ctx context.Context, in Input) (*Output, error) {
	out, err := r.render(ctx, in, r.Limits.orDefaults())
	var rendering *Error
	switch {
	case err == nil:
		return out, nil
	case errors.As(err, &rendering):
		return nil, rendering
	}
	return nil, fmt.Errorf("render %q: %w", in.Service, err)
}

func (r *Renderer) render(ctx context.Context, in Input, limits Limits) (*Output, error) {
	request, err := newRequest(in)
	if err != nil {
		return nil, err
	}
	if !isBuiltIn(in.Renderer) {
		return r.renderByPlugin(ctx, in, limits)
	}
	q := question{limits: limits, lookup: in.Lookup}
	if in.Lookup == nil && len(in.Secrets) == 0 && r.Warm > 0 {
		q.tenant, request.Again = in.Tenant, in.Tenant != ""
	}
	q.send = func(w io.Writer, first bool) error { return send(w, first, limits, request, in) }
	answer, err := r.converse(ctx, q)
	if err != nil {
		return nil, err
	}
	return answer.output()
}

func isBuiltIn(renderer string) bool {
	return slices.Contains([]string{Raw, Kustomize, HelmChart}, renderer)
}
