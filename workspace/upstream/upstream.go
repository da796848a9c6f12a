// Package upstream owns the client for each kind of Source.
//
// It refuses to know when a source is asked and where what it gives is kept. [Find] opens the credentials that a source names
// and reads the keys by which its signatures count, all of them files of the installation repo; the [Access] that comes of it
// makes what speaks with the server: a [mirror.Upstream], or the options of an OCI repository. Secrets stay in memory, and no
// error repeats one.
package upstream

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"unicode"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/gitsource"
	"github.com/pluralsh/plural/workspace/helmrepo"
	"github.com/pluralsh/plural/workspace/httpfile"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/ocirepo"
)

// Access is what a source is reached and believed with.
type Access struct {
	source      *fleet.Source
	credentials httpclient.Credentials
	// secret is the sealed file's content, and keys those of the files that hold public keys.
	secret    []byte
	keys      [][]byte
	trustRoot []byte
	// NoLoopback refuses servers of this machine: what a source says is somebody else's word to a hub.
	NoLoopback bool
}

// Find reads what a source names in the installation repo. The identities open its credentials; they are asked for only when
// it has some.
func Find(s *fleet.Source, files fs.FS, identities func() ([]age.Identity, error)) (*Access, error) {
	a := &Access{source: s}
	if verify := s.Spec.Verify; verify != nil { // before the credentials: whom to believe does not hang on them
		if err := a.trust(files, verify); err != nil {
			return a, err
		}
	}
	if auth := s.Spec.Auth; auth != nil {
		if err := a.open(files, auth, identities); err != nil {
			return a, fmt.Errorf("credentials of source %s: %w", s.Metadata.Name, err)
		}
	}
	return a, nil
}

func (a *Access) trust(files fs.FS, verify *fleet.Verification) error {
	for _, name := range verify.Keys {
		key, err := fs.ReadFile(files, name)
		if err != nil {
			return fmt.Errorf("keys of source %s: %w", a.source.Metadata.Name, err)
		}
		a.keys = append(a.keys, key)
	}
	if verify.Keyless != nil {
		var err error
		if a.trustRoot, err = fs.ReadFile(files, verify.Keyless.TrustRoot); err != nil {
			return fmt.Errorf("trust root of source %s: %w", a.source.Metadata.Name, err)
		}
	}
	return nil
}

func (a *Access) open(files fs.FS, auth *fleet.SourceAuth, identities func() ([]age.Identity, error)) error {
	if auth.Secret != "" {
		plain, flat, err := Unseal(files, auth.Secret, identities)
		if err != nil {
			return err
		}
		if err := bound(flat, a.source.URL()); err != nil {
			return fmt.Errorf("%s: %w", auth.Secret, err)
		}
		a.secret = plain
		if a.credentials, err = httpclient.ParseCredentials(flat); err != nil {
			return fmt.Errorf("%s: %w", auth.Secret, err)
		}
	}
	if auth.KnownHosts != "" {
		a.credentials.KnownHosts = append([]byte(auth.KnownHosts+"\n"), a.credentials.KnownHosts...)
	}
	return nil
}

// hostsKey is the key of a sealed file that says which hosts its credentials are for. The file says it and not the source: who
// may write the one need not be who sealed the other.
const hostsKey = "hosts"

// bound takes the hosts out of a sealed file's values. The error is that they are there, and the URL's is none of them.
func bound(flat map[string]string, address string) error {
	text, ok := flat[hostsKey]
	if !ok {
		return nil
	}
	delete(flat, hostsKey)
	u, err := url.Parse(gitsource.Expand(address))
	if err != nil {
		return err
	}
	standard := map[string]string{"https": "443", "http": "80", "oci": "443", "ssh": "22"}[u.Scheme]
	host, port := strings.ToLower(u.Hostname()), cmp.Or(u.Port(), standard)
	for _, entry := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		if entry == net.JoinHostPort(host, port) || entry == host && port == standard {
			return nil
		}
	}
	return fmt.Errorf("it is not for %s: its key %s does not name it, so whoever may seal the file has to add it there", u.Host, hostsKey)
}

// Unseal opens a sealed file of flat keys. Only its errors may leave: none repeats a value.
func Unseal(files fs.FS, name string, identities func() ([]age.Identity, error)) (plain []byte, flat map[string]string, err error) {
	sealed, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, nil, err
	}
	v, err := sealer.Open(sealer.Config{Files: files, Identities: identities})
	if err != nil {
		return nil, nil, err
	}
	if plain, err = v.Open(name, sealed); err != nil {
		return nil, nil, err
	}
	keys, err := values.List(name, plain)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: not a mapping of keys to values", name)
	}
	flat = make(map[string]string, len(keys))
	for _, key := range keys {
		label, single := values.Label(key)
		value, err := values.Get(name, plain, key)
		if err != nil || !single {
			return nil, nil, fmt.Errorf("%s: %s is not a plain value: write the credentials as a mapping of keys to values", name, label)
		}
		flat[label] = string(value)
	}
	return plain, flat, nil
}

// Parts are all that the access is made of, secrets among them: for a hash that changes when any of them does.
func (a *Access) Parts() []string {
	parts := append([]string{string(a.secret), string(a.credentials.KnownHosts)}, a.Trust()...)
	if verify := a.source.Spec.Verify; verify != nil {
		parts = append(parts, verify.DescendsFrom, verify.Rewinds)
	}
	return parts
}

// Trust is all that decides whose signature counts, and for what; nil where everything is believed. Keys that could not be
// read are not in it.
func (a *Access) Trust() []string {
	verify := a.source.Spec.Verify
	if verify == nil {
		return nil
	}
	parts := []string{"verified"}
	if a.source.Spec.OCI != nil {
		parts[0] = "verified and named" // mirrors of before may hold charts whose name and version nobody compared
	}
	for _, key := range a.keys {
		parts = append(parts, string(key))
	}
	if verify.Keyless != nil {
		parts = append(parts, "keyless", verify.Keyless.Issuer, verify.Keyless.Identity, string(a.trustRoot))
	}
	return parts
}

// Mirror speaks with the source's server for a mirror. File URLs are for those who say so.
func (a *Access) Mirror(allowFile bool) (mirror.Upstream, error) {
	s := a.source
	switch {
	case s.Spec.Git != nil:
		check, err := Objects(a.keys)
		if err != nil {
			return nil, err
		}
		o := gitsource.Options{
			URL: s.URL(), AllowFile: allowFile, Credentials: a.credentials, Submodules: s.Spec.Git.Submodules, Check: check,
			NoLoopback: a.NoLoopback,
		}
		if verify := s.Spec.Verify; verify != nil {
			o.DescendsFrom, o.Rewinds = verify.DescendsFrom, verify.Rewinds
		}
		return gitsource.New(o)
	case s.Spec.Helm != nil:
		check, err := charts(a.keys)
		if err != nil {
			return nil, err
		}
		return helmrepo.New(helmrepo.Options{URL: s.URL(), Credentials: a.credentials, Check: check, NoLoopback: a.NoLoopback})
	case s.Spec.HTTP != nil:
		return httpfile.New(httpfile.Options{
			URL: s.URL(), Digest: s.Spec.HTTP.Digest, Credentials: a.credentials, NoLoopback: a.NoLoopback,
		})
	}
	o, err := a.Repository()
	if err != nil {
		return nil, err
	}
	return ocirepo.New(o)
}

// Repository is how the source's OCI repository is spoken with.
func (a *Access) Repository() (ocirepo.Options, error) {
	verify, err := a.images()
	if err != nil {
		return ocirepo.Options{}, err
	}
	address, err := url.Parse(a.source.URL())
	if err != nil {
		return ocirepo.Options{}, err
	}
	// A registry on this machine is plain, as everybody's tools take it to be, unless somebody says what it is trusted by.
	plain := httpclient.Loopback(address.Hostname()) && len(a.credentials.CA) == 0
	return ocirepo.Options{
		URL: a.source.URL(), Credentials: a.credentials, PlainHTTP: plain, Verify: verify, NoLoopback: a.NoLoopback,
	}, nil
}

// Objects believes the commits and tags that one of the keys has signed; nil believes all.
func Objects(files [][]byte) (func(context.Context, verify.Object) error, error) {
	if len(files) == 0 {
		return nil, nil
	}
	keys, err := verify.ParseKeys(files...)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, o verify.Object) error {
		_, err := keys.Git(o)
		return err
	}, nil
}

// charts believes the charts for whose digest one of the keys vouches in a provenance file; nil believes all.
func charts(files [][]byte) (func(context.Context, helmrepo.Chart) error, error) {
	if len(files) == 0 {
		return nil, nil
	}
	keys, err := verify.ParseKeys(files...)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, c helmrepo.Chart) error {
		digest, _, err := keys.Chart(c.Provenance, c.Name, c.Version)
		if err == nil && digest != c.Digest {
			err = fmt.Errorf("its provenance vouches for the digest %s, and the archive has %s", digest, c.Digest)
		}
		return err
	}, nil
}

// images is the verdict on what an OCI repository holds; nil believes all.
func (a *Access) images() (verify.Image, error) {
	policy := a.source.Spec.Verify
	switch {
	case len(a.keys) > 0:
		return verify.ParseKeys(a.keys...)
	case policy != nil && policy.Keyless != nil:
		k := policy.Keyless
		return verify.Keyless{Issuer: k.Issuer, Identity: k.Identity, TrustRoot: a.trustRoot}.Image()
	}
	return nil, nil
}
