// Package preview owns the render of a service on a person's machine.
//
// It refuses to know how deployments are found, and how their objects are shown.
//
// A deployment goes the way that it goes in the fleet: its inputs are packed and unpacked as a bundle, what is sealed is
// opened with the person's identities in a cluster's place, and a child process renders the result. The objects come back
// as the cluster would get them, with the values beside them that nobody is to see.
package preview

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Renderer renders deployments whose files are those of one snapshot. It is safe for concurrent use, and bounds nothing:
// a render has a child to itself while it lasts.
type Renderer struct {
	// KubeVersion is what charts are told, such as "v1.35.0"; empty means the helm library's default.
	KubeVersion string
	// APIVersions are what charts are told of a cluster's, such as "apps/v1"; empty means the built-in ones.
	APIVersions []string
	// Lookup reads objects of the cluster for charts that may look them up, as a service account, NAMESPACE/NAME; nil: no
	// cluster is asked, and they find none.
	Lookup func(account string) (render.Lookup, error)

	opens    *reader
	children *render.Renderer
}

// warm is how long a child waits for more to render. All of them end with the program.
const warm = 10 * time.Second

// New renders out of snap. The identities are loaded when the first sealed file is met.
func New(snap *snapshot.Snapshot, identities func() ([]age.Identity, error)) (*Renderer, error) {
	opens, err := newReader(snap, identities)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return &Renderer{opens: opens, children: &render.Renderer{Command: []string{self, "render-child"}, Warm: warm}}, nil
}

// On is the same Renderer for a cluster of that version, which serves these API versions.
func (r *Renderer) On(kubeVersion string, apiVersions []string) *Renderer {
	on := *r
	on.KubeVersion, on.APIVersions = kubeVersion, apiVersions
	return &on
}

// Rendition is what a deployment renders to.
type Rendition struct {
	// Objects are in the order in which the renderer gave them, with the Secrets that the service asks for.
	Objects []*unstructured.Unstructured
	// Origins say for each of Objects where it was written; nothing where nobody knows.
	Origins []render.Origin
	// Sealed are the values that were opened for it: nobody is to see them.
	Sealed []string
	// Record is the Secret by which helm list knows the release; nil when the service asks for none.
	Record *unstructured.Unstructured
	// Capabilities says that the objects may be others on a cluster that can do something else.
	Capabilities bool
	// Warnings are what renders, and may surprise.
	Warnings []string
}

// All are the objects that a cluster gets.
func (r *Rendition) All() []*unstructured.Unstructured {
	if r.Record == nil || len(r.Objects) == 0 { // a record alone is no render
		return r.Objects
	}
	return append(slices.Clip(r.Objects), r.Record)
}

// Render renders one deployment, which has no Hold. Nothing that was sealed is in the words of its error, which is a
// *render.Error when the files are to blame.
func (r *Renderer) Render(ctx context.Context, d *resolve.Deployment) (*Rendition, error) {
	if !builtIn(d.Renderer) {
		return nil, &PluginError{d.Renderer}
	}
	opened, err := r.opens.open(d)
	if err != nil {
		return nil, err
	}
	in, looked, err := r.input(d, opened)
	if err != nil {
		return nil, err
	}
	out, err := r.children.Render(ctx, in)
	if err != nil && looked() {
		err = unfound(err)
	}
	if err != nil {
		return nil, opened.silent(err)
	}
	made := &Rendition{
		Objects: opened.named.Beside(out.Objects, d.Namespace), Origins: out.Origins, Sealed: opened.values,
		Record: out.Record, Capabilities: out.Capabilities, Warnings: slices.Clone(d.Warnings),
	}
	for _, warning := range out.Warnings {
		made.Warnings = append(made.Warnings, unseal.Redact(warning, opened.values))
	}
	for _, secret := range made.Objects[len(out.Objects):] { // those that the service asks for come last
		made.Origins = append(made.Origins, render.Origin{File: fileOf(d.Secrets, secret.GetName())})
	}
	return made, nil
}

// input is what a render of a deployment depends on. Looked says whether its chart looked for objects where no cluster is asked.
func (r *Renderer) input(d *resolve.Deployment, opened *opened) (in render.Input, looked func() bool, err error) {
	in = render.Input{
		Renderer: d.Renderer, Path: d.Path, Namespace: d.Namespace, Service: d.Service, Parameters: d.Parameters,
		Secrets: opened.named.ByName, Files: opened.files, Mounts: opened.mounts, ThirdParty: !d.OwnRepository,
		KubeVersion: r.KubeVersion, APIVersions: r.APIVersions,
	}
	if !opened.sealed {
		in.Tenant = render.Tenant(d.Cluster, d.ServiceAccount, d.AllowedNamespaces)
	}
	var seen atomic.Bool
	if d.Helm == nil {
		return in, seen.Load, nil
	}
	in.Helm = &render.Helm{
		Release: d.Helm.Release, ValuesJSON: d.Helm.ValuesJSON, ValuesFiles: d.Helm.ValuesFiles,
		SkipCRDs: d.Helm.SkipCRDs, Record: d.Helm.Record,
	}
	switch {
	case !d.Helm.Lookup:
	case r.Lookup == nil:
		in.Lookup = func(context.Context, string, string, string, string) (map[string]any, error) {
			seen.Store(true)
			return map[string]any{}, nil
		}
	case d.ServiceAccount == "": // what the person can see is nobody's to render
		return in, seen.Load, errors.New("its chart may look objects up, and as nobody: set spec.serviceAccount")
	default:
		in.Lookup, err = r.Lookup(d.ServiceAccount)
	}
	return in, seen.Load, err
}

// unfound says of a chart that does not render what may be all that is wrong: it was told that the cluster has nothing.
func unfound(err error) error {
	var known *render.Error
	if !errors.As(err, &known) {
		return err
	}
	said := *known
	said.Message = "the chart looks objects up, for which no cluster is asked here: " + known.Message
	return &said
}

// fileOf is the sealed file of a secret.
func fileOf(secrets []resolve.Secret, name string) string {
	for _, s := range secrets {
		if s.Name == name {
			return s.Path
		}
	}
	return ""
}

// PluginError says that a renderer is a plugin, which only agents have.
type PluginError struct{ Name string }

func (e *PluginError) Error() string {
	return fmt.Sprintf("the renderer %q is a plugin, which only agents have", e.Name)
}
