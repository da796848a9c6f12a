package hubsvc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/signed"
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/crypto/vault"
	"github.com/pluralsh/plural/hubsvc/gitagent"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/gitsource"
	"github.com/pluralsh/plural/workspace/helmrepo"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/ocirepo"
	"github.com/pluralsh/plural/workspace/outbound"
)

// upstreams says in the git agents' words what the fleet's sources are. It opens what the hub needs to reach them, in
// memory.
type upstreams struct {
	allowFile bool
	// identities are the hub's own; nil when it has none.
	identities func() ([]age.Identity, error)
	// own is the installation repo.
	own gitagent.Want
	// last spares doing the same again: what a fleet's sources are depends on its commit alone.
	last struct {
		commit string
		list   []source
	}
}

// source is one of a fleet's sources with the want that it leads to.
type source struct {
	*fleet.Source
	want gitagent.Want
}

func newUpstreams(o *Options) (*upstreams, error) {
	u := &upstreams{allowFile: o.AllowFile, identities: o.Identities}
	own, err := o.installation()
	u.own = own
	return u, err
}

// installation is the want of the installation repo, whose credentials come from the hub's own settings.
func (o *Options) installation() (gitagent.Want, error) {
	address, credentials := gitsource.Expand(o.Repo), o.RepoCredentials
	if u, err := url.Parse(address); err == nil && u.User != nil && u.Scheme != "ssh" {
		credentials.Username = u.User.Username()
		credentials.Password, _ = u.User.Password()
		u.User = nil
		address = u.String()
	}
	check, err := objectCheck(o.RepoKeys)
	if err != nil {
		return gitagent.Want{}, fmt.Errorf("keys of the installation repo: %w", err)
	}
	return gitagent.Want{
		ID: gitagent.ID("installation", address), Name: outbound.Redact(address), Version: "1", Interval: o.Interval, First: true,
		Open: func() (mirror.Upstream, error) {
			return gitsource.New(gitsource.Options{URL: address, AllowFile: o.AllowFile, Credentials: credentials, Check: check})
		},
	}, nil
}

// of lists the sources of a fleet with the refs that its services read.
func (u *upstreams) of(c *candidate) []source {
	if u.last.commit == c.id() {
		return u.last.list
	}
	var list []source
	for i := range c.fleet.Sources {
		s := &c.fleet.Sources[i]
		want := u.want(s, c)
		want.Refs = refsOf(c.fleet, s)
		list = append(list, source{s, want})
	}
	u.last.commit, u.last.list = c.id(), list
	return list
}

// refsOf are the refs of a source that a fleet's services read, with the source's own.
func refsOf(f *fleet.Fleet, s *fleet.Source) []string {
	refs := map[string]bool{}
	for i := range f.Services {
		for _, ref := range f.Services[i].Reads(s) {
			refs[ref] = true
		}
	}
	if s.Spec.Git != nil {
		refs[s.Spec.Git.Ref] = true
	}
	return sortedKeys(refs)
}

// want describes one source. What keeps it from being asked is told when it is opened.
func (u *upstreams) want(s *fleet.Source, c *candidate) gitagent.Want {
	secret := ""
	if s.Spec.Auth != nil {
		secret = s.Spec.Auth.Secret
	}
	interval, _ := time.ParseDuration(s.Spec.Interval) // checked when the fleet was loaded; empty means the hub's own
	approach, err := u.approach(s, c)
	address := gitsource.Expand(s.URL())
	return gitagent.Want{
		ID: gitagent.ID(s.Kind(), normal(address), secret, submodules(s)), Name: outbound.Redact(address), Interval: interval,
		Version: approach.version(err),
		Open: func() (mirror.Upstream, error) {
			if err != nil {
				return nil, err
			}
			return u.open(s, approach)
		},
	}
}

func submodules(s *fleet.Source) string {
	if s.Spec.Git == nil {
		return ""
	}
	return s.Spec.Git.Submodules
}

// normal is the same for URLs that differ only in how they are written.
func normal(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	for scheme, port := range map[string]string{"https": ":443", "http": ":80", "ssh": ":22", "oci": ":443"} {
		if u.Scheme == scheme {
			u.Host = strings.TrimSuffix(u.Host, port)
		}
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath, u.Fragment = "", ""
	return u.String()
}

// approach is what a source is reached and believed with.
type approach struct {
	credentials outbound.Credentials
	// secret is the sealed file's content, and keys those of the files that hold public keys: only to tell one from another.
	secret    []byte
	keys      [][]byte
	trustRoot []byte
	verify    *fleet.Verification
}

// version changes with everything that an upstream is made of.
func (a *approach) version(err error) string {
	parts := []string{string(a.secret), string(a.trustRoot), string(a.credentials.KnownHosts)}
	for _, key := range a.keys {
		parts = append(parts, string(key))
	}
	if a.verify != nil && a.verify.Keyless != nil {
		parts = append(parts, a.verify.Keyless.Issuer, a.verify.Keyless.Identity)
	}
	if err != nil {
		parts = append(parts, err.Error())
	}
	return gitagent.ID(parts...)
}

// approach opens a source's secret and reads the keys that its signatures are believed by.
func (u *upstreams) approach(s *fleet.Source, c *candidate) (approach, error) {
	a := approach{verify: s.Spec.Verify}
	files := c.snapshot.FS()
	if auth := s.Spec.Auth; auth != nil {
		var err error
		if auth.Secret != "" {
			if a.secret, a.credentials, err = u.credentials(files, auth.Secret); err != nil {
				return a, fmt.Errorf("credentials of source %s: %w", s.Metadata.Name, err)
			}
		}
		if auth.KnownHosts != "" {
			a.credentials.KnownHosts = append([]byte(auth.KnownHosts+"\n"), a.credentials.KnownHosts...)
		}
	}
	if a.verify == nil {
		return a, nil
	}
	for _, name := range a.verify.Keys {
		key, err := fs.ReadFile(files, name)
		if err != nil {
			return a, fmt.Errorf("keys of source %s: %w", s.Metadata.Name, err)
		}
		a.keys = append(a.keys, key)
	}
	if keyless := a.verify.Keyless; keyless != nil {
		var err error
		if a.trustRoot, err = fs.ReadFile(files, keyless.TrustRoot); err != nil {
			return a, fmt.Errorf("trust root of source %s: %w", s.Metadata.Name, err)
		}
	}
	return a, nil
}

var errNoIdentity = errors.New("the hub has no identity: start it with --identity FILE, and let the group that the file is sealed for share it with that key")

// credentials opens a sealed file with those of an upstream.
func (u *upstreams) credentials(files fs.FS, name string) ([]byte, outbound.Credentials, error) {
	plain, flat, err := u.unsealed(files, name)
	if err != nil {
		return nil, outbound.Credentials{}, err
	}
	credentials, err := outbound.ParseCredentials(flat)
	if err != nil {
		return nil, outbound.Credentials{}, fmt.Errorf("%s: %w", name, err)
	}
	return plain, credentials, nil
}

// unsealed opens a sealed file of flat keys. Only its errors leave: none repeats a value.
func (u *upstreams) unsealed(files fs.FS, name string) (plain []byte, flat map[string]string, err error) {
	if u.identities == nil {
		return nil, nil, errNoIdentity
	}
	sealed, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, nil, err
	}
	v, err := vault.Open(vault.Config{Files: files, Identities: u.identities})
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

// open makes the upstream of a source.
func (u *upstreams) open(s *fleet.Source, a approach) (mirror.Upstream, error) {
	switch {
	case s.Spec.Git != nil:
		check, err := objectCheck(a.keys)
		if err != nil {
			return nil, err
		}
		return gitsource.New(gitsource.Options{
			URL: s.URL(), AllowFile: u.allowFile, Credentials: a.credentials, Submodules: s.Spec.Git.Submodules, Check: check,
		})
	case s.Spec.Helm != nil:
		check, err := chartCheck(a.keys)
		if err != nil {
			return nil, err
		}
		return helmrepo.New(helmrepo.Options{URL: s.URL(), Credentials: a.credentials, Check: check})
	}
	verify, err := a.images()
	if err != nil {
		return nil, err
	}
	address, err := url.Parse(s.URL())
	if err != nil {
		return nil, err
	}
	// A registry on this machine is plain, as everybody's tools take it to be, unless somebody says what it is trusted by.
	plain := isLoopback(address.Hostname()) && len(a.credentials.CA) == 0
	return ocirepo.New(ocirepo.Options{URL: s.URL(), Credentials: a.credentials, PlainHTTP: plain, Verify: verify})
}

// objectCheck believes the commits and tags that one of the keys has signed; nil believes all.
func objectCheck(files [][]byte) (func(signed.Object) error, error) {
	if len(files) == 0 {
		return nil, nil
	}
	keys, err := signed.ParseKeys(files...)
	if err != nil {
		return nil, err
	}
	return func(o signed.Object) error {
		_, err := keys.Git(o)
		return err
	}, nil
}

// chartCheck believes the charts for whose digest one of the keys vouches in a provenance file; nil believes all.
func chartCheck(files [][]byte) (func(context.Context, helmrepo.Chart) error, error) {
	if len(files) == 0 {
		return nil, nil
	}
	keys, err := signed.ParseKeys(files...)
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
func (a *approach) images() (signed.Image, error) {
	switch {
	case len(a.keys) > 0:
		return signed.ParseKeys(a.keys...)
	case a.verify != nil && a.verify.Keyless != nil:
		k := a.verify.Keyless
		return signed.Keyless{Issuer: k.Issuer, Identity: k.Identity, TrustRoot: a.trustRoot}.Image()
	}
	return nil, nil
}

func sortedKeys(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for key := range set {
		list = append(list, key)
	}
	slices.Sort(list)
	return list
}
