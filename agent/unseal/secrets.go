package unseal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/crypto/values"
)

// Bounds of one named secret: what a Kubernetes Secret can hold, in bytes, and more keys than anybody reads.
const (
	maxSecret = corev1.MaxSecretSize
	maxKeys   = 1000
)

// Named are the secrets that a service asked for by name.
type Named struct {
	// ByName is what templates see: name, key, value.
	ByName map[string]map[string]string
	// Objects are the Kubernetes Secrets to make, without a namespace.
	Objects []*unstructured.Unstructured
	// Values are what must not be repeated to anybody.
	Values []string
}

// Secrets opens the files that list names, out of the installation repo's files. A file in clear is refused: what a service
// calls a secret has to be sealed.
//
// A file becomes keys and values: those of a whole Secret manifest, of a YAML or JSON mapping of scalars, or of an env
// file; any other content is the one value of a key named like the file.
func Secrets(files fs.FS, list []*api.Secret, keys Opener) (*Named, error) {
	named := &Named{ByName: make(map[string]map[string]string, len(list))}
	for _, s := range list {
		if named.ByName[s.GetName()] != nil {
			return nil, fmt.Errorf("secret %q is named twice", s.GetName())
		}
		content, err := open(files, s.GetPath(), keys)
		if err != nil {
			return nil, fmt.Errorf("secret %q: %w", s.GetName(), err)
		}
		named.ByName[s.GetName()] = content.data
		named.Values = slices.AppendSeq(named.Values, maps.Values(content.data))
		if s.GetTemplateOnly() {
			continue
		}
		object, err := content.object(s)
		if err != nil {
			return nil, fmt.Errorf("secret %q: %s: %w", s.GetName(), s.GetPath(), err)
		}
		named.Objects = append(named.Objects, object)
	}
	return named, nil
}

// Beside adds the Secrets to a render's objects, except those that the render makes itself in the service's namespace. An
// empty render stays empty, so that nothing is deleted for it.
func (n *Named) Beside(objects []*unstructured.Unstructured, namespace string) []*unstructured.Unstructured {
	if len(objects) == 0 {
		return nil
	}
	own := map[string]bool{}
	for _, o := range objects {
		if o.GetKind() == "Secret" && o.GetAPIVersion() == "v1" && (o.GetNamespace() == "" || o.GetNamespace() == namespace) {
			own[o.GetName()] = true
		}
	}
	for _, secret := range n.Objects {
		if !own[secret.GetName()] {
			objects = append(objects, secret)
		}
	}
	return objects
}

// content is what a named file says.
type content struct {
	data map[string]string
	kind string // the type that a Secret manifest asks for
}

func open(files fs.FS, name string, keys Opener) (*content, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	plain, sealed, err := keys.Open(name, data)
	switch {
	case err != nil:
		return nil, err
	case !sealed:
		return nil, fmt.Errorf("%s is not sealed: add its path to .plural/seal.yaml and seal it with plural crypto encrypt", name)
	}
	if len(plain) > maxSecret {
		return nil, fmt.Errorf("%s: it holds more than %d KiB, the most that a Secret can", name, maxSecret>>10)
	}
	return read(name, plain)
}

// read makes keys and values of a plaintext. Its errors hold none of them.
func read(name string, plain []byte) (*content, error) {
	whole := &content{data: map[string]string{path.Base(name): string(plain)}}
	if !slices.Contains([]string{".yaml", ".yml", ".json", ".env"}, strings.ToLower(path.Ext(name))) && !strings.HasPrefix(path.Base(name), ".env.") {
		return whole, nil
	}
	keys, err := values.List(name, plain)
	if errors.Is(err, values.ErrFormat) {
		return whole, nil
	}
	if err != nil {
		return nil, err
	}
	switch {
	case len(keys) == 0 || strings.HasPrefix(keys[0], "["): // nothing, a list, or several documents
		return whole, nil
	case isSecret(name, plain):
		return manifest(name, plain)
	case slices.ContainsFunc(keys, nested):
		return whole, nil
	}
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("%s: it has more than %d keys", name, maxKeys)
	}
	flat := &content{data: make(map[string]string, len(keys))}
	for _, key := range keys {
		value, err := values.Get(name, plain, key)
		if err != nil {
			return nil, nameless(err, keys)
		}
		label, _ := values.Label(key)
		flat.data[label] = string(value)
	}
	return flat, nil
}

// nameless is what values says of a file, without the file's keys: they were sealed as well.
func nameless(err error, keys []string) error {
	var told *values.Error
	if !errors.As(err, &told) {
		return err
	}
	said := *told
	for _, key := range keys {
		label, _ := values.Label(key)
		said.Message = Redact(said.Message, []string{label})
	}
	return &said
}

func isSecret(name string, plain []byte) bool {
	kind, err := values.Get(name, plain, "kind")
	version, err2 := values.Get(name, plain, "apiVersion")
	return err == nil && err2 == nil && string(kind) == "Secret" && string(version) == "v1"
}

func nested(key string) bool {
	_, single := values.Label(key)
	return !single
}

// manifest takes data, stringData and type; the rest of the manifest is the service's to say.
func manifest(name string, plain []byte) (*content, error) {
	var secret corev1.Secret
	if err := yaml.UnmarshalStrict(plain, &secret); err != nil {
		return nil, fmt.Errorf("%s: it is no valid manifest of a Secret", name) // the reason may quote a value
	}
	found := &content{data: make(map[string]string, len(secret.Data)+len(secret.StringData)), kind: string(secret.Type)}
	for key, value := range secret.Data {
		found.data[key] = string(value)
	}
	maps.Copy(found.data, secret.StringData)
	return found, nil
}

// object is the Kubernetes Secret. It has data alone: stringData could not be compared with what is live.
func (c *content) object(s *api.Secret) (*unstructured.Unstructured, error) {
	data := make(map[string]any, len(c.data))
	for key, value := range c.data {
		if problems := validation.IsConfigMapKey(key); len(problems) > 0 {
			return nil, errors.New("a key of it cannot be one of a Secret: set templateOnly, or name it in letters, digits, '-', '_' and '.'") // which may be telling
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	kind := string(corev1.SecretTypeOpaque)
	for _, asked := range []string{c.kind, s.GetType()} {
		if asked != "" {
			kind = asked
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": kind,
		"metadata": map[string]any{"name": s.GetName()}, "data": data,
	}}, nil
}
