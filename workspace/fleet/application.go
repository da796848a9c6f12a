package fleet

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/internal/yamlstrict"
)

// Application is a program in which people log in by way of the hub, such as Grafana: access/*.yaml. Its name is its client ID.
type Application struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata            `yaml:"metadata" json:"metadata"`
	Spec     ApplicationSpec     `yaml:"spec" json:"spec"`
	Position Position            `yaml:"-" json:"-"`
	Fields   map[string]Position `yaml:"-" json:"-"`
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (a *Application) Place(field string) Position {
	return yamlstrict.Place(a.Fields, field, a.Position)
}

// ApplicationSpec says where people come back to who have logged in, and who may.
type ApplicationSpec struct {
	// RedirectURIs are where the application has people come back to. They are compared as they are written: https://HOST/PATH, or
	// http://127.0.0.1/PATH of a program on the person's own machine, on any port.
	RedirectURIs []string `yaml:"redirectURIs" json:"redirectURIs"`
	// LogoutURIs are where people may be sent once they have logged out.
	LogoutURIs []string `yaml:"logoutURIs,omitempty" json:"logoutURIs,omitempty"`
	// SecretHash is "sha256:" and the hash of the client secret. Left out: a public client, such as a program on a person's machine,
	// which can keep no secret.
	SecretHash string `yaml:"secretHash,omitempty" json:"secretHash,omitempty"`
	// WithoutPKCE lets an application log people in that cannot do PKCE. It needs a secret, and has to send a nonce.
	WithoutPKCE bool `yaml:"withoutPKCE,omitempty" json:"withoutPKCE,omitempty"`
	// Allow says who may log in. Nobody else can.
	Allow Members `yaml:"allow" json:"allow"`
	// Roles are told to the application in the claim roles: each name to those who are members of it.
	Roles map[string]Members `yaml:"roles,omitempty" json:"roles,omitempty"`
}

// IssuerPath is behind the hub's URL in its name as an identity provider.
const IssuerPath = "/oidc"

// Issuer is the hub's name as an identity provider; empty where it has no URL.
func (w *Workspace) Issuer() string {
	if w.Spec.Hub.URL == "" {
		return ""
	}
	return strings.TrimSuffix(w.Spec.Hub.URL, "/") + IssuerPath
}

// Members are users and groups.
type Members struct {
	// Users are names of Users.
	Users []string `yaml:"users,omitempty" json:"users,omitempty"`
	// Groups are those of users, and of whoever signs in through an identity provider.
	Groups []string `yaml:"groups,omitempty" json:"groups,omitempty"`
}

// AllGroups are those that the application asks about.
func (a *ApplicationSpec) AllGroups() []string {
	all := slices.Clone(a.Allow.Groups)
	for _, members := range a.Roles {
		all = append(all, members.Groups...)
	}
	return all
}

// Allows says whether somebody may log in.
func (a *ApplicationSpec) Allows(user string, groups []string) bool { return a.Allow.has(user, groups) }

// RolesOf are the roles that the application is told somebody has, sorted.
func (a *ApplicationSpec) RolesOf(user string, groups []string) []string {
	var all []string
	for name, members := range a.Roles {
		if members.has(user, groups) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

func (m *Members) has(user string, groups []string) bool {
	return slices.Contains(m.Users, user) || slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(m.Groups, g) })
}

// MatchesRedirect says whether people may be sent to an address after they logged in.
func (a *ApplicationSpec) MatchesRedirect(uri string) bool {
	return slices.ContainsFunc(a.RedirectURIs, func(allowed string) bool { return uri == allowed || sameOnLoopback(allowed, uri) })
}

// sameOnLoopback says whether an address on the person's own machine differs from an allowed one, which has no port, by its port alone:
// a program there takes the one that is free (RFC 8252, section 7.3).
func sameOnLoopback(allowed, uri string) bool {
	rest, ok := strings.CutPrefix(uri, "http://")
	if !ok {
		return false
	}
	host, path, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(host, ':')
	if at < 0 || !loopbackIP(host[:at]) || len(host)-at < 2 || len(host)-at > 6 || strings.Trim(host[at+1:], "0123456789") != "" {
		return false
	}
	return allowed == "http://"+host[:at]+"/"+path
}

func loopbackIP(host string) bool { return host == "127.0.0.1" || host == "[::1]" }

// Bounds of what an Application may hold.
const (
	maxRedirects = 32
	maxRedirect  = 512
	maxAppRoles  = 64
)

var applicationRole = lazily(`^[A-Za-z0-9]([-._:/A-Za-z0-9]{0,62}[A-Za-z0-9])?$`)

func (d *document) checkApplication(a *Application) {
	d.checkName("metadata.name", a.Metadata.Name)
	if a.Spec.RedirectURIs != nil && len(a.Spec.RedirectURIs) == 0 { // nil is reported as missing
		d.Fault("spec.redirectURIs", "name the address that its documentation calls redirect or callback URL",
			"application without redirect URIs: nobody could come back to it")
	}
	d.checkRedirects("spec.redirectURIs", a.Spec.RedirectURIs)
	d.checkRedirects("spec.logoutURIs", a.Spec.LogoutURIs)
	if hash := a.Spec.SecretHash; hash != "" && !isTokenHash(hash) {
		d.Fault("spec.secretHash",
			"make a secret with plural application rotate; if a secret itself stands here, it is known to whoever reads the repository",
			"spec.secretHash is not a hash of the form sha256:HEX")
	}
	if a.Spec.WithoutPKCE && a.Spec.SecretHash == "" {
		d.Fault("spec.withoutPKCE", "remove it, or give the application a secret",
			"application without PKCE and without a secret: whoever sees its code could log in with it")
	}
	d.checkMembers("spec.allow", &a.Spec.Allow)
	d.checkCount("spec.roles", "roles", len(a.Spec.Roles), maxAppRoles)
	for _, name := range slices.Sorted(maps.Keys(a.Spec.Roles)) {
		members := a.Spec.Roles[name]
		d.checkPattern("spec.roles."+name, "name of a role", name, applicationRole(),
			"use letters, digits and any of - . _ : / between them, at most 64")
		d.checkMembers("spec.roles."+name, &members)
	}
}

func (d *document) checkMembers(field string, m *Members) {
	d.checkCount(field+".users", "users", len(m.Users), maxSubjects)
	d.checkGroups(field+".groups", m.Groups, maxSubjects)
}

// checkRedirects wants addresses that are one place, however a browser reads them.
func (d *document) checkRedirects(field string, uris []string) {
	d.checkCount(field, "addresses", len(uris), maxRedirects)
	for i, uri := range uris {
		if cause := redirectFault(uri); cause != "" {
			d.Fault(index(field, i),
				"write it as the application sends it: https://HOST/PATH, or http://127.0.0.1/PATH for a program on a person's machine",
				"bad address %s: %s", yamlstrict.Quote(httpclient.Redact(uri)), cause)
		}
	}
}

// redirectFault says why nobody may be sent to an address; empty when they may.
func redirectFault(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return "it is no URL of a page"
	case len(uri) > maxRedirect:
		return "it is too long"
	case strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`\"<>^{|}*`+"`", r) }):
		return "it has characters that not all read alike"
	case u.User != nil:
		return "it names a user"
	case strings.Contains(uri, "#"):
		return "it has a fragment"
	case u.Hostname() == "" || u.Host != strings.ToLower(u.Host):
		return "its host is not written in lower case"
	case strings.Contains(u.EscapedPath(), "//") || strings.Contains(u.Path+"/", "/../") || strings.Contains(u.Path+"/", "/./"):
		return "its path is not written out"
	case u.Scheme == "http" && !httpclient.Loopback(u.Hostname()):
		return "it has no TLS, and is not on the person's own machine"
	}
	return ""
}

// checkApplications reports names that the fleet does not have, and applications where the hub signs nothing.
func checkApplications(f *Fleet, known *known, out *yamlstrict.Faults) {
	for i := range f.Applications {
		a := &f.Applications[i]
		if f.Workspace.Spec.Hub.SigningKeys == "" {
			out.Add(a.Position, "plural application rotate-keys makes keys, and names them as spec.hub.signingKeys in plural.yaml",
				"application %s, and the hub has no keys to sign logins with", yamlstrict.Quote(a.Metadata.Name))
		}
		referAll(a, "spec.allow.users", "user", a.Spec.Allow.Users, known.users, out)
		for _, name := range slices.Sorted(maps.Keys(a.Spec.Roles)) {
			referAll(a, "spec.roles."+name+".users", "user", a.Spec.Roles[name].Users, known.users, out)
		}
	}
}
