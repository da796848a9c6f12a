// Package preview owns what a service renders to on a person's machine.
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
	"sync/atomic"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Renderer renders deployments whose files are those of one snapshot. It is safe for concurrent use, and bounds nothing:
// each render has a child of its own.
type Renderer struct {
	// KubeVersion is what charts are told, such as "v1.35.0"; empty means the helm library's default.
	KubeVersion string
	// APIVersions are what charts are told of a cluster's, such as "apps/v1"; empty means the built-in ones.
	APIVersions []string

	opens    *reader
	children *render.Renderer
}

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
	return &Renderer{opens: opens, children: &render.Renderer{Command: []string{self, "render-child"}}}, nil
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
	in := render.Input{
		Renderer: d.Renderer, Path: d.Path, Namespace: d.Namespace, Service: d.Service, Parameters: d.Parameters,
		Secrets: opened.named.ByName, Files: opened.files, Mounts: opened.mounts, KubeVersion: r.KubeVersion, APIVersions: r.APIVersions,
	}
	if d.Helm != nil {
		in.Helm = &render.Helm{Release: d.Helm.Release, ValuesJSON: d.Helm.ValuesJSON, ValuesFiles: d.Helm.ValuesFiles, SkipCRDs: d.Helm.SkipCRDs}
	}
	var looked atomic.Bool
	if d.Helm != nil && d.Helm.Lookup {
		in.Lookup = func(context.Context, string, string, string, string) (map[string]any, error) {
			looked.Store(true)
			return map[string]any{}, nil
		}
	}
	out, err := r.children.Render(ctx, in)
	if err != nil && looked.Load() {
		err = unfound(err)
	}
	if err != nil {
		return nil, opened.silent(err)
	}
	made := &Rendition{Objects: opened.named.Beside(out.Objects, d.Namespace), Origins: out.Origins, Sealed: opened.values}
	for _, secret := range made.Objects[len(out.Objects):] { // those that the service asks for come last
		made.Origins = append(made.Origins, render.Origin{File: fileOf(d.Secrets, secret.GetName())})
	}
	return made, nil
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
