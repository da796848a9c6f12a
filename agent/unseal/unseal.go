// Package unseal owns the decryption of a deployment's sealed files, in memory.
//
// It knows neither where bundles come from nor what is rendered of them, and writes nothing: no disk, no log. Its errors name
// paths, groups and recipients, never a value; for the errors of others there is Redact.
//
// A poll's envelopes and the cluster's own identity become Keys, which open files one by one. Files lays the plaintext of a
// bundle's sealed files over the bundle; Secrets turns the files that a service asked for by name into values for its
// templates and into Kubernetes Secrets. To Keys a file counts as opened only when it was sealed for this very path of the
// repository that the cluster was registered for, and for the epoch that its group is at.
package unseal

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"filippo.io/age"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sops"
	"github.com/pluralsh/plural/internal/overlay"
)

// Cluster is what a cluster brings to open what is sealed for it.
type Cluster struct {
	Name string
	// Repository is the id of the installation repo that the cluster was registered for. Empty: nothing sealed is opened.
	Repository string
	// Identity is the cluster's own.
	Identity age.Identity
}

// String hides the identity.
func (c Cluster) String() string { return "[redacted]" }

// GoString hides the identity.
func (c Cluster) GoString() string { return "[redacted]" }

// LogValue hides the identity.
func (c Cluster) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalJSON hides the identity.
func (c Cluster) MarshalJSON() ([]byte, error) { return []byte(`"[redacted]"`), nil }

// Keys are a cluster's, with those of its groups. They are safe for concurrent use.
type Keys struct {
	Cluster
	ring *groups.Keyring
}

// Keys opens the envelopes that the hub forwarded. An envelope that does not open is an error beside keys without its group.
func (c Cluster) Keys(envelopes []*api.Envelope) (Keys, error) {
	list := make([]groups.Envelope, len(envelopes))
	for i, e := range envelopes {
		list[i] = groups.Envelope{Group: e.GetGroup(), Epoch: int(e.GetEpoch()), Path: e.GetPath(), Sealed: e.GetSealed()}
	}
	var own []age.Identity
	if c.Identity != nil {
		own = append(own, c.Identity)
	}
	ring, err := groups.OpenEnvelopes(c.Repository, list, own...)
	return Keys{c, ring}, err
}

// Opener opens files, with the keys of whoever it belongs to.
type Opener interface {
	// Open returns a file's plaintext, and says whether it was sealed at all. Its errors begin with the path, and hold nothing
	// of the content.
	Open(path string, data []byte) (plain []byte, sealed bool, err error)
}

// Opened is a bundle with nothing sealed left in it.
type Opened struct {
	// FS is the bundle with the plaintext laid over it.
	FS fs.FS
	// Values are what must not be repeated to anybody.
	Values []string
	// Sealed says whether anything was opened, also where no value of it is worth hiding.
	Sealed bool
}

// policyFolder holds envelopes, which are nobody's to deploy.
const policyFolder = ".plural"

// Files opens the sealed files, and those of sops, in a bundle. own says that the bundle comes from the installation repo;
// what is sealed in another one is refused, since its binding says that it does not belong there. A file of sops is bound
// to nothing, and belongs wherever it lies. The files are an unpacked bundle's, which has bounds.
func Files(files fs.FS, keys Opener, own bool) (*Opened, error) {
	plain, opened := map[string][]byte{}, &Opened{FS: files}
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == policyFolder && entry.IsDir():
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if !own && seal.IsSealed(data) {
			return fmt.Errorf("%s is sealed, and comes from another repository than the fleet's own: move it there, and name it under the service's secrets", path)
		}
		content, sealed, err := keys.Open(path, data)
		if err != nil || !sealed {
			return err
		}
		plain[path] = notNil(content)
		opened.Values = append(opened.Values, scalars(content)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(plain) > 0 {
		opened.Sealed = true
		opened.FS = overlay.New(files, plain)
	}
	return opened, nil
}

// Open implements Opener for files of the installation repo.
func (k Keys) Open(path string, data []byte) (plain []byte, sealed bool, err error) {
	switch {
	case seal.IsSealed(data):
		plain, err = k.openSealed(path, data)
	case sops.IsSOPS(path, data):
		plain, err = sops.Open(path, data, k.all()...)
	default:
		return nil, false, nil
	}
	var elsewhere *seal.BindingError
	if err != nil && !errors.As(err, &elsewhere) { // which names the path itself
		err = fmt.Errorf("%s: %w", path, err)
	}
	return plain, true, err
}

// notNil makes an empty file out of none: the overlay takes nil for a file that is gone.
func notNil(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// openSealed opens one of our own files with the groups that it claims to be for, then holds it to its binding.
func (k Keys) openSealed(path string, data []byte) ([]byte, error) {
	if k.Repository == "" {
		return nil, errors.New("it is sealed, and this cluster does not know which repository's files it may open: " +
			"register the cluster again: plural cluster register")
	}
	claim, err := seal.Inspect(data)
	if err != nil {
		return nil, err
	}
	if err := claim.Check(k.Repository, path); err != nil { // a better reason than that nobody fits
		return nil, err
	}
	ids, reasons := k.of(claim.Groups)
	if len(ids) == 0 {
		return nil, k.outside(claim.Groups, reasons)
	}
	plain, binding, err := seal.Open(data, ids...)
	if errors.Is(err, seal.ErrNoMatch) {
		return nil, fmt.Errorf("it says that it is for %s, and does not open with their identity: seal it again with plural crypto encrypt", names(claim.Groups))
	}
	if err != nil {
		return nil, err
	}
	if err := binding.Check(k.Repository, path); err != nil {
		return nil, err
	}
	return plain, nil
}

// of are the identities of those groups that the cluster is in and that are at the given epoch, and why the others are not.
func (k Keys) of(epochs []seal.Epoch) (ids []age.Identity, reasons []string) {
	for _, e := range epochs {
		id, err := k.ring.Identity(e.Group, e.Number)
		var outside *groups.NotMemberError
		if err == nil {
			ids = append(ids, id)
		} else if !errors.As(err, &outside) {
			reasons = append(reasons, err.Error())
		}
	}
	return ids, reasons
}

// outside says who could open a file that this cluster can not.
func (k Keys) outside(epochs []seal.Epoch, reasons []string) error {
	if len(reasons) > 0 {
		return fmt.Errorf("sealed for %s: %s", names(epochs), strings.Join(reasons, "; "))
	}
	mine := "no group"
	if in := k.ring.Groups(); len(in) > 0 {
		mine = strings.Join(in, ", ")
	}
	return fmt.Errorf("sealed for %s, and this cluster is in %s: plural crypto share cluster/%s --group %s", names(epochs), mine, k.Name, epochs[0].Group)
}

func names(epochs []seal.Epoch) string {
	list := make([]string, len(epochs))
	for i, e := range epochs {
		list[i] = e.Group
	}
	return strings.Join(list, ", ")
}

// all are the identities that a file of sops may have been sealed to: the cluster's, and its groups' current ones.
func (k Keys) all() []age.Identity {
	var ids []age.Identity
	if k.Identity != nil {
		ids = append(ids, k.Identity)
	}
	for _, name := range k.ring.Groups() {
		if id, err := k.ring.Identity(name, 0); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
