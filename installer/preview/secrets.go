package preview

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/sops"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// reader is what a person can read of one snapshot. It is the unseal.Opener in a cluster's place.
type reader struct {
	// vault is the person's; nil where there is no policy.
	vault      *sealer.Vault
	identities func() ([]age.Identity, error)
	// plain says that the files are those of a work tree, which may hold in clear what must be sealed.
	plain bool
}

// newReader is for the files of a snapshot. The identities are loaded when the first sealed file is met.
func newReader(snap *snapshot.Snapshot, identities func() ([]age.Identity, error)) (*reader, error) {
	r := &reader{identities: sync.OnceValues(identities), plain: snap.Commit().ID == ""}
	var err error
	r.vault, err = sealer.Open(sealer.Config{Files: snap.FS(), Identities: r.identities})
	if errors.Is(err, policy.ErrNone) {
		return r, nil
	}
	return r, err
}

// Open implements unseal.Opener. What must be sealed and is in clear in a work tree counts as sealed.
func (r *reader) Open(name string, data []byte) (plaintext []byte, sealed bool, err error) {
	switch {
	case seal.IsSealed(data) && r.vault == nil:
		return nil, true, fmt.Errorf("%s is sealed, and there is no %s that says for whom", name, policy.File)
	case seal.IsSealed(data):
		plaintext, err = r.vault.Open(name, data)
		return plaintext, true, err
	case sops.IsSOPS(name, data):
		plaintext, err = r.openSOPS(name, data)
		return plaintext, true, err
	case r.vault == nil || !r.plain:
		return nil, false, nil
	}
	sealed, err = r.vault.Must(name)
	return data, sealed, err
}

func (r *reader) openSOPS(name string, data []byte) ([]byte, error) {
	ids, err := r.identities()
	if err != nil {
		return nil, err
	}
	ids = slices.Clone(ids)
	if r.vault != nil {
		ring, err := r.vault.Keyring()
		if err != nil {
			return nil, err
		}
		for _, group := range ring.Groups() {
			if id, err := ring.Identity(group, 0); err == nil { // one that the person cannot reach opens nothing
				ids = append(ids, id)
			}
		}
	}
	plaintext, err := sops.Open(name, data, ids...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return plaintext, nil
}

// opened are a deployment's files with nothing sealed left in them.
type opened struct {
	files  fs.FS
	mounts []render.Mount
	named  *unseal.Named
	// sealed says whether anything was, and values are what of it is to be hidden.
	sealed bool
	values []string
}

// open packs and unpacks what a deployment is made of, as on its way to a cluster, and opens what is sealed in it.
func (r *reader) open(d *resolve.Deployment) (*opened, error) {
	files, err := carried(d.Snapshot, d.Inputs)
	if err != nil {
		return nil, err
	}
	plain, err := unseal.Files(files, r, d.OwnRepository)
	if err != nil {
		return nil, err
	}
	out := &opened{files: plain.FS, named: new(unseal.Named), sealed: plain.Sealed, values: plain.Values}
	for _, m := range d.Mounts {
		if files, err = carried(m.Snapshot, m.Inputs); err != nil {
			return nil, err
		}
		if plain, err = unseal.Files(files, r, m.OwnRepository); err != nil {
			return nil, err
		}
		out.mounts = append(out.mounts, render.Mount{At: m.At, Path: m.Inputs[0], Files: plain.FS, ThirdParty: !m.OwnRepository})
		out.sealed, out.values = out.sealed || plain.Sealed, append(out.values, plain.Values...)
	}
	if len(d.Secrets) == 0 {
		return out, nil
	}
	if files, err = carried(d.SecretsSnapshot, d.SecretsInputs); err != nil {
		return nil, err
	}
	var list []*api.Secret
	for _, secret := range d.Secrets {
		list = append(list, &api.Secret{Name: secret.Name, Path: secret.Path, TemplateOnly: secret.TemplateOnly, Type: secret.Type})
	}
	if out.named, err = unseal.Secrets(files, list, r); err != nil {
		return nil, err
	}
	out.sealed, out.values = true, append(out.values, out.named.Values...)
	return out, nil
}

// carried are inputs as a bundle brings them.
func carried(snap *snapshot.Snapshot, inputs []string) (fs.FS, error) {
	var archive bytes.Buffer
	if err := bundle.Pack(&archive, snap.FS(), inputs, bundle.DefaultLimits()); err != nil {
		return nil, err
	}
	return bundle.Unpack(&archive, bundle.DefaultLimits())
}

// silent is an error with nothing in its words that was sealed.
func (o *opened) silent(err error) error {
	if len(o.values) == 0 {
		return err
	}
	var known *render.Error
	if errors.As(err, &known) {
		said := *known
		said.Message, said.Fix = unseal.Redact(known.Message, o.values), unseal.Redact(known.Fix, o.values)
		return &said
	}
	return errors.New(unseal.Redact(err.Error(), o.values))
}

// Mask puts *** in place of what was sealed, and of all values of Secrets where anything was: a chart may have hashed or encrypted
// what it puts there. What says which object it is stays, and so do the keys.
func (r *Rendition) Mask() {
	if len(r.Sealed) == 0 {
		return
	}
	for _, object := range r.Objects {
		if object.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
			hideSecret(object.Object)
		}
		object.Object, _ = r.masked(object.Object, ".").(map[string]any) // a map stays one
	}
}

// hideSecret hides each value of a Secret, also in the copy that kubectl apply keeps of it.
func hideSecret(secret map[string]any) {
	for _, place := range [][]string{{"data"}, {"stringData"}, {"metadata", "annotations", corev1.LastAppliedConfigAnnotation}} {
		switch v, _, _ := unstructured.NestedFieldNoCopy(secret, place...); v := v.(type) {
		case nil:
		case map[string]any:
			for key := range v {
				v[key] = "***"
			}
		default:
			_ = unstructured.SetNestedField(secret, "***", place...) // what holds it is a map
		}
	}
}

func (r *Rendition) masked(value any, at string) any {
	switch v := value.(type) {
	case string:
		return unseal.Redact(v, r.Sealed)
	case []any:
		for i := range v {
			v[i] = r.masked(v[i], path.Join(at, "*"))
		}
	case map[string]any:
		for key := range v {
			if inside := path.Join(at, key); !slices.Contains(identifying(), inside) {
				v[key] = r.masked(v[key], inside)
			}
		}
	}
	return value
}

// identifying are the fields that say which object one is.
func identifying() []string {
	return []string{"apiVersion", "kind", "type", "metadata/name", "metadata/namespace"}
}
