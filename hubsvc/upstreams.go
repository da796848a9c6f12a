package hubsvc

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/signed"
	"github.com/pluralsh/plural/hubsvc/gitagent"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/gitsource"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/outbound"
	"github.com/pluralsh/plural/workspace/upstream"
)

// upstreams says in the git agents' words what the fleet's sources are. It opens what the hub needs to reach them, in
// memory.
type upstreams struct {
	allowFile, noLoopback bool
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

// verified is the mirror in which pins of a source are looked for whose signatures count; empty where none do.
func (s *source) verified() string {
	if s.Spec.Verify == nil {
		return ""
	}
	return s.want.ID
}

func newUpstreams(o *Options, s *signatures) *upstreams {
	u := &upstreams{allowFile: o.AllowFile, noLoopback: !o.AllowLoopback, identities: o.Identities}
	u.own = o.installation(s)
	return u
}

// own is where the installation repo lies, and what opens it.
func (o *Options) own() (address string, credentials outbound.Credentials) {
	address, credentials = gitsource.Expand(o.Repo), o.RepoCredentials
	if u, err := url.Parse(address); err == nil && u.User != nil && u.Scheme != "ssh" {
		credentials.Username = u.User.Username()
		credentials.Password, _ = u.User.Password()
		u.User = nil
		address = u.String()
	}
	return address, credentials
}

// installation is the want of the installation repo, whose credentials come from the hub's own settings.
func (o *Options) installation(s *signatures) gitagent.Want {
	address, credentials := o.own()
	var check func(context.Context, signed.Object) error
	if s != nil && s.people != nil {
		check = s.check
	}
	return gitagent.Want{
		ID: gitagent.ID("installation", address), Dir: o.ownDir(address, s), Name: outbound.Redact(address), Version: "1",
		Interval: o.Interval, Trust: o.trust(s), First: true,
		Open: func() (mirror.Upstream, error) {
			own := gitsource.Options{
				URL: address, AllowFile: o.AllowFile, Credentials: credentials, Check: check, DescendsFrom: o.RepoDescendsFrom,
				Branches: true, // who may make tags need not be who may push to the branch
			}
			if o.RepoFollowRewinds {
				own.Rewinds = gitsource.RewindsFollow
			}
			return gitsource.New(own)
		},
	}
}

// trust is another for everything that decides which commits of the installation repo are believed; empty where all are, as
// replicas of earlier releases say that they do.
func (o *Options) trust(s *signatures) string {
	if len(o.RepoKeys) == 0 {
		return ""
	}
	return gitagent.ID(append([]string{o.RepoDescendsFrom, strconv.FormatBool(o.RepoFollowRewinds)}, o.believed(s)...)...)
}

// believed are the keys that commits of the installation repo are believed by. The hub's own is marked, for it lets in less than
// people's do; without one the list is what it was in earlier releases, whose mirrors stay.
func (o *Options) believed(s *signatures) []string {
	var parts []string
	for _, key := range o.RepoKeys {
		parts = append(parts, string(key))
	}
	if s != nil && s.own != nil {
		parts = append(parts, "signing key", string(s.own.Public()))
	}
	return parts
}

// ownDir is another for other keys: what they let in, or nobody checked, is not served. Another floor or rewinds leave it: what
// is there was signed, and the last verified commit holds the branch, which with a new folder could go back behind it. The ID
// stays, by which replicas know each other's while one after the other is started anew.
func (o *Options) ownDir(address string, s *signatures) string {
	parts := []string{"installation", address}
	if len(o.RepoKeys) > 0 {
		parts = append(parts, o.believed(s)...)
	}
	return gitagent.ID(parts...)
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
	return sortedKeys(refs)
}

// want describes one source. What keeps it from being asked is told when it is opened.
func (u *upstreams) want(s *fleet.Source, c *candidate) gitagent.Want {
	interval, _ := time.ParseDuration(s.Spec.Interval) // checked when the fleet was loaded; empty means the hub's own
	access, err := u.access(s, c)
	address := gitsource.Expand(s.URL())
	return gitagent.Want{
		ID: mirrorOf(s, access), Name: outbound.Redact(address), Interval: interval,
		Version: versionOfAccess(access, err),
		Open: func() (mirror.Upstream, error) {
			if err != nil {
				return nil, err
			}
			return access.Mirror(u.allowFile)
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
	return gitagent.ID(append(parts, access.Trust()...)...)
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

// access opens a source's secret and reads the keys that its signatures are believed by.
func (u *upstreams) access(s *fleet.Source, c *candidate) (*upstream.Access, error) {
	a, err := upstream.Find(s, c.snapshot.FS(), u.mine)
	a.NoLoopback = u.noLoopback
	return a, err
}

// versionOfAccess changes with everything that an upstream is made of.
func versionOfAccess(a *upstream.Access, err error) string {
	parts := a.Parts()
	if err != nil {
		parts = append(parts, err.Error())
	}
	return gitagent.ID(parts...)
}

var errNoIdentity = errors.New("the hub has no identity: start it with --identity FILE, and let the group that the file is sealed for share it with that key")

// mine are the hub's own identities.
func (u *upstreams) mine() ([]age.Identity, error) {
	if u.identities == nil {
		return nil, errNoIdentity
	}
	return u.identities()
}

// unsealed opens a sealed file of flat keys. Only its errors leave: none repeats a value.
func (u *upstreams) unsealed(files fs.FS, name string) (map[string]string, error) {
	_, flat, err := upstream.Unseal(files, name, u.mine)
	return flat, err
}

func sortedKeys(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for key := range set {
		list = append(list, key)
	}
	slices.Sort(list)
	return list
}
