package rendercmd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sops"
	"github.com/pluralsh/plural/crypto/vault"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// standIn is a cluster that exists for one command. What the person can read is sealed again for it, in memory, so that
// the agent's own code opens it, and makes of it what an agent would.
type standIn struct {
	// vault is the person's; nil where there is no policy.
	vault      *vault.Vault
	identities func() ([]age.Identity, error)
	// plain says that the files are those of a work tree, which may hold in clear what must be sealed.
	plain bool

	repository string
	group      *age.X25519Identity
	keys       unseal.Keys
}

// nobody is the repository that files are bound to where there is no policy.
const nobody = "00000000000000000000000000000000"

// policyFolder holds envelopes, which are nobody's to deploy.
const policyFolder = ".plural"

// seat is the one group that the stand-in is in.
const seat = "render"

// newStandIn makes one for the files of a snapshot. The identities are loaded when the first sealed file is met.
func newStandIn(snap *snapshot.Snapshot, identities func() ([]age.Identity, error)) (*standIn, error) {
	s := &standIn{identities: sync.OnceValues(identities), plain: snap.Commit().ID == "", repository: nobody}
	v, err := vault.Open(vault.Config{Files: snap.FS(), Identities: s.identities})
	switch {
	case errors.Is(err, policy.ErrNone):
	case err != nil:
		return nil, err
	default:
		s.vault, s.repository = v, v.Policy().Repository
	}
	return s, s.register()
}

// register makes the stand-in's group and its keys.
func (s *standIn) register() (err error) {
	if s.group, err = age.GenerateX25519Identity(); err != nil {
		return err
	}
	own, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	member := groups.Member{Kind: groups.Cluster, Name: seat}
	set, err := groups.Load(empty{})
	if err != nil {
		return err
	}
	changes, err := set.Create(s.repository, seat, []groups.Member{member}, groups.CreateOptions{
		Identity: s.group, ClusterKey: func(string) (string, error) { return own.Recipient().String(), nil },
	})
	if err != nil {
		return err
	}
	if set, err = set.With(changes); err != nil {
		return err
	}
	list, err := set.Envelopes(member)
	if err != nil {
		return err
	}
	var envelopes []*api.Envelope
	for _, e := range list {
		envelopes = append(envelopes, &api.Envelope{Group: e.Group, Epoch: int32(e.Epoch), Path: e.Path, Sealed: e.Sealed})
	}
	s.keys, err = unseal.Cluster{Name: seat, Repository: s.repository, Identity: own}.Keys(envelopes)
	return err
}

// empty is a file system without files.
type empty struct{}

// Open implements fs.FS.
func (empty) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// opened are a deployment's files with nothing sealed left in them.
type opened struct {
	files fs.FS
	named *unseal.Named
	// values are what was sealed.
	values []string
}

// open packs and unpacks what a deployment is made of, as on its way to a cluster, and opens what is sealed in it.
func (s *standIn) open(d *resolve.Deployment) (*opened, error) {
	files, err := s.bundle(d.Snapshot, d.Inputs)
	if err != nil {
		return nil, err
	}
	plain, err := unseal.Files(files, s.keys, true)
	if err != nil {
		return nil, err
	}
	out := &opened{files: plain.FS, named: new(unseal.Named), values: plain.Values}
	if len(d.Secrets) == 0 {
		return out, nil
	}
	if files, err = s.bundle(d.SecretsSnapshot, d.SecretsInputs); err != nil {
		return nil, err
	}
	var list []*api.Secret
	for _, secret := range d.Secrets {
		list = append(list, &api.Secret{Name: secret.Name, Path: secret.Path, TemplateOnly: secret.TemplateOnly, Type: secret.Type})
	}
	if out.named, err = unseal.Secrets(files, list, s.keys); err != nil {
		return nil, err
	}
	out.values = append(out.values, out.named.Values...)
	return out, nil
}

func (s *standIn) bundle(snap *snapshot.Snapshot, inputs []string) (fs.FS, error) {
	var archive bytes.Buffer
	if err := bundle.Pack(&archive, snap.FS(), inputs, bundle.DefaultLimits()); err != nil {
		return nil, err
	}
	files, err := bundle.Unpack(&archive, bundle.DefaultLimits())
	if err != nil {
		return nil, err
	}
	return s.reseal(files)
}

// reseal is files with what must not be seen sealed for the stand-in.
func (s *standIn) reseal(files fs.FS) (fs.FS, error) {
	sealed := map[string][]byte{}
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == policyFolder && e.IsDir():
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		plaintext, secret, err := s.read(name, data)
		if err != nil || !secret {
			return err
		}
		b := seal.Binding{Repository: s.repository, Path: name, Groups: []seal.Epoch{{Group: seat, Number: 1}}}
		sealed[name], err = seal.Seal(plaintext, b, s.group.Recipient())
		return err
	})
	return overlay.New(files, sealed), err
}

// read is what the person can read of a file, if it is secret.
func (s *standIn) read(name string, data []byte) (plaintext []byte, secret bool, err error) {
	switch {
	case seal.IsSealed(data) && s.vault == nil:
		return nil, false, fmt.Errorf("%s is sealed, and there is no %s that says for whom", name, policy.File)
	case seal.IsSealed(data):
		plaintext, err = s.vault.Open(name, data)
		return plaintext, true, err
	case sops.IsSOPS(name, data):
		plaintext, err = s.openSOPS(name, data)
		return plaintext, true, err
	case s.vault == nil || !s.plain:
		return nil, false, nil
	}
	secret, err = s.vault.Must(name)
	return data, secret, err
}

func (s *standIn) openSOPS(name string, data []byte) ([]byte, error) {
	ids, err := s.identities()
	if err != nil {
		return nil, err
	}
	ids = slices.Clone(ids)
	if s.vault != nil {
		ring, err := s.vault.Keyring()
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

// beside adds the Secrets that the service named to its objects, but for those that the render makes itself.
func (o *opened) beside(objects []*unstructured.Unstructured, namespace string) []*unstructured.Unstructured {
	for _, secret := range o.named.Objects {
		same := func(other *unstructured.Unstructured) bool {
			return other.GetKind() == "Secret" && other.GetAPIVersion() == "v1" && other.GetName() == secret.GetName() &&
				(other.GetNamespace() == "" || other.GetNamespace() == namespace)
		}
		if len(objects) > 0 && !slices.ContainsFunc(objects, same) {
			objects = append(objects, secret)
		}
	}
	return objects
}

// silent is a render's error with nothing in its words that was sealed.
func (o *opened) silent(err error) error {
	var known *render.Error
	if errors.As(err, &known) {
		said := *known
		said.Message, said.Fix = unseal.Redact(known.Message, o.values), unseal.Redact(known.Fix, o.values)
		return &said
	}
	return err
}

// mask puts *** in place of what was sealed. What says which object it is stays.
func (o *opened) mask(objects []*unstructured.Unstructured) {
	if len(o.values) == 0 {
		return
	}
	for _, object := range objects {
		object.Object, _ = o.masked(object.Object, ".").(map[string]any) // a map stays one
	}
}

func (o *opened) masked(value any, at string) any {
	switch v := value.(type) {
	case string:
		return unseal.Redact(v, o.values)
	case []any:
		for i := range v {
			v[i] = o.masked(v[i], path.Join(at, "*"))
		}
	case map[string]any:
		for key := range v {
			if inside := path.Join(at, key); !slices.Contains(identifying(), inside) {
				v[key] = o.masked(v[key], inside)
			}
		}
	}
	return value
}

// identifying are the fields that say which object one is.
func identifying() []string {
	return []string{"apiVersion", "kind", "type", "metadata/name", "metadata/namespace"}
}
