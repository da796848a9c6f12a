// Package sources owns the sources of a fleet as the hub fetches them.
//
// It opens what the hub needs to reach them, in memory. It fetches nothing.
package sources

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/gitsource"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/upstream"
)

// Commit is a commit of the installation repo that reads as a fleet.
type Commit struct {
	Fleet    *fleet.Fleet
	Snapshot *snapshot.Snapshot
}

// ID is the commit's.
func (c *Commit) ID() string { return c.Snapshot.Commit().ID }

// Options are the hub's own settings.
type Options struct {
	// Repo is the address of the installation repo, and Credentials open it.
	Repo        string
	Credentials httpclient.Credentials
	// Keys are the public keys by which commits of the installation repo are believed; none: all are. HubKey is the hub's own among
	// those who sign; it may be nil.
	Keys   [][]byte
	HubKey []byte
	// Check judges what the branch of the installation repo names, where there are keys.
	Check func(context.Context, verify.Object) error
	// DescendsFrom is a commit that the branch has to come out of, empty for none, where there are keys. FollowRewinds lets the branch
	// leave what was verified of it.
	DescendsFrom  string
	FollowRewinds bool
	// Interval is the wait between two fetches of a repository that asks for none of its own; before jitter.
	Interval time.Duration
	// AllowFile lets repositories lie on this machine's own disk, AllowLoopback be served by this machine.
	AllowFile, AllowLoopback bool
	// Identities open what is sealed for the hub: the credentials of sources. Nil means that it has none.
	Identities func() ([]age.Identity, error)
}

// Set tells of the installation repo, and of the sources of a fleet.
type Set struct {
	Options
	own gitpoller.Want
	// last spares doing the same again: what a fleet's sources are depends on its commit alone.
	last struct {
		commit string
		list   []Source
	}
}

// Source is one of a fleet's sources with what is to be fetched of it.
type Source struct {
	*fleet.Source
	Want gitpoller.Want
}

// Verified is the mirror in which pins of a source are looked for whose signatures count; empty where none do.
func (s *Source) Verified() string {
	if s.Spec.Verify == nil {
		return ""
	}
	return s.Want.ID
}

// New makes a Set.
func New(o Options) *Set {
	s := &Set{Options: o}
	s.own = s.installation()
	return s
}

// Own is the installation repo, without refs.
func (s *Set) Own() gitpoller.Want { return s.own }

// Address is where the installation repo lies, and what opens it.
func (o *Options) Address() (address string, credentials httpclient.Credentials) {
	address, credentials = gitsource.Expand(o.Repo), o.Credentials
	if u, err := url.Parse(address); err == nil && u.User != nil && u.Scheme != "ssh" {
		credentials.Username = u.User.Username()
		credentials.Password, _ = u.User.Password()
		u.User = nil
		address = u.String()
	}
	return address, credentials
}

// installation is the want of the installation repo, whose credentials come from the hub's own settings.
func (o *Options) installation() gitpoller.Want {
	address, credentials := o.Address()
	return gitpoller.Want{
		ID: gitpoller.ID("installation", address), Dir: o.dir(address), Name: httpclient.Redact(address), Version: "1",
		Interval: o.Interval, Trust: o.trust(), First: true,
		Open: func() (mirror.Upstream, error) {
			own := gitsource.Options{
				URL: address, AllowFile: o.AllowFile, Credentials: credentials, Check: o.Check, DescendsFrom: o.DescendsFrom,
				Branches: true, // who may make tags need not be who may push to the branch
			}
			if o.FollowRewinds {
				own.Rewinds = gitsource.RewindsFollow
			}
			return gitsource.New(own)
		},
	}
}

// trust is another for everything that decides which commits of the installation repo are believed; empty where all are, as
// replicas of earlier releases say that they do.
func (o *Options) trust() string {
	if len(o.Keys) == 0 {
		return ""
	}
	return gitpoller.ID(append([]string{o.DescendsFrom, strconv.FormatBool(o.FollowRewinds)}, o.believed()...)...)
}

// believed are the keys that commits of the installation repo are believed by. The hub's own is marked, for it lets in less than
// people's do; without one the list is what it was in earlier releases, whose mirrors stay.
func (o *Options) believed() []string {
	var parts []string
	for _, key := range o.Keys {
		parts = append(parts, string(key))
	}
	if o.HubKey != nil {
		parts = append(parts, "signing key", string(o.HubKey))
	}
	return parts
}

// dir is another for other keys: what they let in, or nobody checked, is not served. Another floor or rewinds leave it: what
// is there was signed, and the last verified commit holds the branch, which with a new folder could go back behind it. The ID
// stays, by which replicas know each other's while one after the other is started anew.
func (o *Options) dir(address string) string {
	parts := []string{"installation", address}
	if len(o.Keys) > 0 {
		parts = append(parts, o.believed()...)
	}
	return gitpoller.ID(parts...)
}

// Of lists the sources of a fleet with the refs that its services read.
func (s *Set) Of(c *Commit) []Source {
	if s.last.commit == c.ID() {
		return s.last.list
	}
	var list []Source
	for i := range c.Fleet.Sources {
		each := &c.Fleet.Sources[i]
		want := s.Want(each, c)
		want.Refs = refsOf(c.Fleet, each)
		list = append(list, Source{each, want})
	}
	s.last.commit, s.last.list = c.ID(), list
	return list
}

// refsOf are the refs of a source that a fleet's services read, with the one that its kustomizations may.
func refsOf(f *fleet.Fleet, s *fleet.Source) []string {
	refs := map[string]bool{}
	for i := range f.Services {
		for _, ref := range f.Services[i].Reads(s) {
			refs[ref] = true
		}
	}
	catalog := func(c fleet.CatalogRef) bool { return c.Source == s.Metadata.Name }
	packages := s.Spec.OCI != nil && slices.ContainsFunc(f.Workspace.Spec.Catalogs, catalog) // of which each has a repository of its own
	if ref, ok := s.Standing(); ok && !packages {
		refs[ref] = true
	}
	return slices.Sorted(maps.Keys(refs))
}

// Want describes one source. What keeps it from being asked is told when it is opened.
func (s *Set) Want(of *fleet.Source, c *Commit) gitpoller.Want {
	interval, _ := time.ParseDuration(of.Spec.Interval) // checked when the fleet was loaded; empty means the hub's own
	access, err := s.Access(of, c)
	address := gitsource.Expand(of.URL())
	return gitpoller.Want{
		ID: mirrorOf(of, access), Name: httpclient.Redact(address), Interval: interval,
		Version: Version(access, err),
		Open: func() (mirror.Upstream, error) {
			if err != nil {
				return nil, err
			}
			return access.Mirror(s.AllowFile)
		},
	}
}

// mirrorOf names the mirror of a source. What is verified never is in one with what nobody's signature was asked for, or
// another's.
func mirrorOf(s *fleet.Source, access *upstream.Access) string {
	secret := ""
	if s.Spec.Auth != nil {
		secret = s.Spec.Auth.Secret
	}
	parts := []string{s.Kind(), normal(gitsource.Expand(s.URL())), secret, contents(s)}
	return gitpoller.ID(append(parts, access.Trust()...)...)
}

// contents is what else than its address decides what a source's refs lead to.
func contents(s *fleet.Source) string {
	switch {
	case s.Spec.Git != nil:
		return s.Spec.Git.Submodules
	case s.Spec.HTTP != nil:
		return s.Spec.HTTP.Digest
	}
	return ""
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

// Access opens a source's secret and reads the keys that its signatures are believed by.
func (s *Set) Access(of *fleet.Source, c *Commit) (*upstream.Access, error) {
	a, err := upstream.Find(of, c.Snapshot.FS(), s.mine)
	a.NoLoopback = !s.AllowLoopback
	return a, err
}

// Version changes with everything that an upstream is made of.
func Version(a *upstream.Access, err error) string {
	parts := a.Parts()
	if err != nil {
		parts = append(parts, err.Error())
	}
	return gitpoller.ID(parts...)
}

var errNoIdentity = errors.New("the hub has no identity: start it with --identity FILE, and let the group that the file is sealed for share it with that key")

// mine are the hub's own identities.
func (s *Set) mine() ([]age.Identity, error) {
	if s.Identities == nil {
		return nil, errNoIdentity
	}
	return s.Identities()
}

// Unsealed opens a sealed file of flat keys. Only its errors leave: none repeats a value.
func (s *Set) Unsealed(files fs.FS, name string) (map[string]string, error) {
	_, flat, err := upstream.Unseal(files, name, s.mine)
	return flat, err
}
