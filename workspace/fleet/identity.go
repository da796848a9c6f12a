package fleet

import (
	"cmp"
	"io/fs"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/internal/yamlstrict"
)

// Provider is an OpenID Connect provider with which people log in: access/*.yaml.
type Provider struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata            `yaml:"metadata" json:"metadata"`
	Spec     ProviderSpec        `yaml:"spec" json:"spec"`
	Position Position            `yaml:"-" json:"-"`
	Fields   map[string]Position `yaml:"-" json:"-"`
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (p *Provider) Place(field string) Position { return yamlstrict.Place(p.Fields, field, p.Position) }

// ProviderSpec says which provider is believed, and what of its tokens is read. A person is known by the provider and the token's sub
// claim, never by an e-mail address.
type ProviderSpec struct {
	// Issuer is the provider's URL, exactly as its tokens have it.
	Issuer string `yaml:"issuer" json:"issuer"`
	// ClientID is that of a public client, for which the provider lets http://127.0.0.1 with any port be a redirect URI.
	ClientID string `yaml:"clientID" json:"clientID"`
	// ClientSecret is what a provider wants of this client although it is public, such as Google of programs for the desktop. It
	// is no secret: whoever may ask the hub for its providers, which is everybody, reads it.
	ClientSecret string `yaml:"clientSecret,omitempty" json:"clientSecret,omitempty"`
	// Page is the client with which people log in to the hub's page.
	Page ProviderPage `yaml:"page,omitempty" json:"page,omitempty"`
	// Scopes are asked for besides openid. Left out: profile, email and, where the provider has them, groups and offline_access.
	Scopes []string `yaml:"scopes,omitempty" json:"scopes,omitempty"`
	// Groups are those that the provider may say somebody is in. Left out: all that a role binding names.
	Groups []string `yaml:"groups,omitempty" json:"groups,omitempty"`
	// Claims are the names of claims that are read besides sub.
	Claims ProviderClaims `yaml:"claims,omitempty" json:"claims,omitempty"`
	// Session is how long a login lasts, such as 8h; at most 24h.
	Session string `yaml:"session,omitempty" json:"session,omitempty" default:"12h"`
	// Device allows logging in with a code that is typed in on another device (RFC 8628). Whoever is talked into typing in somebody
	// else's code logs them in, so leave it out unless it is needed.
	Device bool `yaml:"device,omitempty" json:"device,omitempty"`
	// SessionsAfter is a time in RFC 3339: sessions of this provider that began before it have ended.
	SessionsAfter string `yaml:"sessionsAfter,omitempty" json:"sessionsAfter,omitempty"`
}

// ProviderPage is a client of a provider for the hub's page.
type ProviderPage struct {
	// ClientID is that of a client whose redirect URI is the hub's URL and /auth/callback. Left out: spec.clientID, where the
	// provider lets one client have both redirect URIs.
	ClientID string `yaml:"clientID,omitempty" json:"clientID,omitempty"`
	// Secret is a file of the installation repo, sealed for the group hub: the client's secret, as clientSecret, where the client is
	// confidential. Left out: it is a public one.
	Secret string `yaml:"secret,omitempty" json:"secret,omitempty"`
}

// ProviderClaims are names of claims.
type ProviderClaims struct {
	// Name is the claim that is shown as the person's name; nothing is decided by it.
	Name string `yaml:"name,omitempty" json:"name,omitempty" default:"preferred_username"`
	// Groups is the claim that lists the person's groups. Those that access/ names count; others are forgotten.
	Groups string `yaml:"groups,omitempty" json:"groups,omitempty" default:"groups"`
}

// PageClientID is the client for the hub's page.
func (p *ProviderSpec) PageClientID() string { return cmp.Or(p.Page.ClientID, p.ClientID) }

// NameClaim and GroupsClaim are the claims with their defaults.
func (p *ProviderSpec) NameClaim() string { return cmp.Or(p.Claims.Name, "preferred_username") }

// GroupsClaim is the claim that lists groups.
func (p *ProviderSpec) GroupsClaim() string { return cmp.Or(p.Claims.Groups, "groups") }

// Lifetime is how long a login lasts.
func (p *ProviderSpec) Lifetime() time.Duration { return sessionOf(p.Session, defaultSession) }

// files are the files that a provider names, by field. Paths that are none were reported.
func (p *Provider) files() map[string]string {
	if name := p.Spec.Page.Secret; name != "." && fs.ValidPath(name) {
		return map[string]string{"spec.page.secret": name}
	}
	return nil
}

// Federation lets a program log in with a token that it has from elsewhere, and so needs no secret: access/*.yaml.
type Federation struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata            `yaml:"metadata" json:"metadata"`
	Spec     FederationSpec      `yaml:"spec" json:"spec"`
	Position Position            `yaml:"-" json:"-"`
	Fields   map[string]Position `yaml:"-" json:"-"`
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (f *Federation) Place(field string) Position {
	return yamlstrict.Place(f.Fields, field, f.Position)
}

// FederationSpec says which tokens are taken, and for whom. A token has to be made for this hub: its audience is the hub's URL alone.
type FederationSpec struct {
	// User is the name of the User that the program acts as.
	User string `yaml:"user" json:"user"`
	// Issuer is the URL of whoever makes the tokens, exactly as they have it: https://token.actions.githubusercontent.com or
	// https://gitlab.com. Of pods on a cluster of the fleet it is cluster/NAME: that cluster's agent reports the keys.
	Issuer string `yaml:"issuer" json:"issuer"`
	// Claims are what a token must say, each exactly. An ID that is never given to another has to be among them: repository_id
	// with ref, environment or job_workflow_ref of GitHub, project_id with ref_protected of GitLab, or else sub.
	Claims map[string]string `yaml:"claims" json:"claims"`
	// Session is how long a login lasts, such as 15m; at most 1h.
	Session string `yaml:"session,omitempty" json:"session,omitempty" default:"15m"`
}

// Cluster is the name of the cluster whose service accounts the tokens are of; false: the issuer is a URL.
func (f *FederationSpec) Cluster() (name string, ok bool) {
	if name, ok = strings.CutPrefix(f.Issuer, "cluster/"); !ok {
		return "", false
	}
	return name, true
}

// Lifetime is how long a login lasts.
func (f *FederationSpec) Lifetime() time.Duration { return sessionOf(f.Session, defaultFederated) }

// Identity is a person's account with a Provider.
type Identity struct {
	// Provider is the name of a Provider.
	Provider string `yaml:"provider" json:"provider"`
	// Subject is the sub claim of the provider's tokens: plural auth status shows it after a login.
	Subject string `yaml:"subject" json:"subject"`
}

// Bounds of what one document about identities may hold.
const (
	defaultSession   = 12 * time.Hour
	maxSession       = 24 * time.Hour
	defaultFederated = 15 * time.Minute
	maxFederated     = time.Hour
	minSession       = time.Minute
	maxClaims        = 32
	maxScopes        = 32
	maxIdentities    = 16
	// MaxSubject bounds a sub claim, in bytes, as OpenID Connect does.
	MaxSubject = 255
)

// gitHubIssuer and gitLabIssuer make the tokens of jobs on github.com and gitlab.com.
const (
	gitHubIssuer = "https://token.actions.githubusercontent.com"
	gitLabIssuer = "https://gitlab.com"
)

var (
	claimName  = lazily(`^[A-Za-z][-._:/A-Za-z0-9]{0,127}$`)
	claimValue = lazily(`^[!-~]([ -~]{0,510}[!-~])?$`)
	scopeName  = lazily(`^[!#-\[\]-~]{1,128}$`)
	// serviceAccount is the sub claim of a service account's tokens.
	serviceAccount = lazily(`^system:serviceaccount:[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?:[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
)

// sessionOf is a duration that was checked when the fleet was read.
func sessionOf(written string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(written); err == nil {
		return d
	}
	return otherwise
}

func (d *document) checkProvider(p *Provider) {
	d.checkName("metadata.name", p.Metadata.Name)
	if p.Metadata.Name == "system" { // people of it would be called as Kubernetes' own users are
		d.Fault("metadata.name", "choose another name", "provider named system: names of its people would begin with system:, which belongs to Kubernetes")
	}
	d.checkIssuer(p.Spec.Issuer)
	if isGitHub(p.Spec.Issuer) {
		d.Fault("spec.issuer", "write a Federation for the jobs", "the issuer of jobs at GitHub, with which no person logs in")
	}
	d.checkGroups("spec.groups", p.Spec.Groups, maxSubjects)
	d.checkPattern("spec.clientID", "client ID", p.Spec.ClientID, claimValue(), visible)
	d.checkPattern("spec.page.clientID", "client ID", p.Spec.Page.ClientID, claimValue(), visible)
	d.checkPattern("spec.clientSecret", "client secret", p.Spec.ClientSecret, claimValue(), visible)
	d.checkFilePath("spec.page.secret", p.Spec.Page.Secret)
	if page := p.Spec.Page; page.Secret != "" && (page.ClientID == "" || page.ClientID == p.Spec.ClientID) {
		d.Fault("spec.page.secret", "register a client for the page, and name it as page.clientID",
			"secret of a client that programs have, too: it would be none")
	}
	d.checkCount("spec.scopes", "scopes", len(p.Spec.Scopes), maxScopes)
	for i, scope := range p.Spec.Scopes {
		if at := index("spec.scopes", i); scope == "" && !d.Faults.Has(yamlstrict.Place(d.Fields, at, d.Position())) {
			d.Fault(at, "remove it", "empty scope")
		}
		d.checkPattern(index("spec.scopes", i), "scope", scope, scopeName(), "write each scope as an entry of its own")
	}
	for field, name := range map[string]string{"name": p.Spec.Claims.Name, "groups": p.Spec.Claims.Groups} {
		d.checkPattern("spec.claims."+field, "name of a claim", name, claimName(), claimLetters)
	}
	if strings.EqualFold(p.Spec.Claims.Groups, "email") {
		d.Fault("spec.claims.groups", "name the claim that lists groups", "claim email lists no groups")
	}
	d.checkSession(p.Spec.Session, maxSession)
	d.checkMoment("spec.sessionsAfter", p.Spec.SessionsAfter)
}

func (d *document) checkFederation(f *Federation) {
	d.checkName("metadata.name", f.Metadata.Name)
	if _, ofCluster := f.Spec.Cluster(); !ofCluster {
		d.checkIssuer(f.Spec.Issuer)
	}
	d.checkSession(f.Spec.Session, maxFederated)
	d.checkCount("spec.claims", "claims", len(f.Spec.Claims), maxClaims)
	for _, name := range slices.Sorted(maps.Keys(f.Spec.Claims)) {
		value := f.Spec.Claims[name]
		d.checkPattern("spec.claims."+name, "name of a claim", name, claimName(), claimLetters)
		d.checkPattern("spec.claims."+name, "value of claim "+name, value, claimValue(), visible)
		switch {
		case value == "" && !d.Faults.Has(yamlstrict.Place(d.Fields, "spec.claims."+name, d.Position())):
			d.Fault("spec.claims."+name, "write the value that tokens have, or remove the claim", "empty value of claim %s", name)
		case strings.ContainsAny(value, "*?"):
			d.Fault("spec.claims."+name, "write the value out; make one Federation for each value", "wildcard in claim %s: %s: values are compared as they are",
				name, yamlstrict.Quote(value))
		}
	}
	if name := firstOf(f.Spec.Claims, "aud", "iss", "exp", "nbf", "iat"); name != "" {
		d.Fault("spec.claims."+name, "remove it: the hub checks issuer, audience and times of every token", "claim %s cannot be set in a Federation", name)
	}
	if what, fix := unpinned(&f.Spec); what != "" {
		d.Fault("spec.claims", fix, "%s", what)
	}
}

// isGitHub says whether an issuer makes the tokens of jobs at GitHub: of an enterprise it has a path, of a server of one's own another host.
func isGitHub(issuer string) bool {
	return issuer == gitHubIssuer || strings.HasPrefix(issuer, gitHubIssuer+"/") || strings.HasSuffix(issuer, "/_services/token")
}

// firstOf is the first of some names that is a claim; empty: none is.
func firstOf(claims map[string]string, list ...string) string {
	for _, name := range list {
		if _, ok := claims[name]; ok {
			return name
		}
	}
	return ""
}

// unpinned says what claims leave open that they must not; what is empty when they are good. Names of repositories and projects can be
// taken over by others, so that numbers count.
func unpinned(f *FederationSpec) (what, fix string) {
	has := func(names ...string) bool { return firstOf(f.Claims, names...) != "" }
	sub := f.Claims["sub"]
	if _, ofCluster := f.Cluster(); ofCluster {
		switch {
		case !serviceAccount().MatchString(sub):
			return "claims lack the sub of a service account: every pod of the cluster could log in", "add sub: system:serviceaccount:NAMESPACE:NAME"
		case len(f.Claims) > 1:
			return "claims besides sub, which no token of a service account has as text", "remove all but sub"
		}
		return "", ""
	}
	gitLab := has("project_id", "project_path", "namespace_path") || f.Issuer == gitLabIssuer || strings.HasPrefix(sub, "project_path:")
	switch github := isGitHub(f.Issuer) || strings.HasPrefix(sub, "repo:"); {
	case f.Issuer == "":
		return "", ""
	case github && !has("repository_id"):
		return "claims lack repository_id: somebody else can take over the name of a repository",
			"add repository_id, a number that gh api repos/OWNER/NAME --jq .id prints"
	case github && !has("ref", "environment", "job_workflow_ref"):
		return "claims lack ref, environment and job_workflow_ref: every branch of the repository could log in",
			"add ref: refs/heads/main, or environment: NAME of one that is protected"
	case github:
		return "", ""
	case gitLab: // whose sub has the project's path
		if !has("project_id") {
			return "claims lack project_id: somebody else can take over the path of a project", "add project_id, a number that the project's page shows"
		}
		if f.Claims["ref_protected"] != "true" {
			return `claims lack ref_protected: "true": every branch of the project could log in`, `add ref_protected: "true"`
		}
		return "", ""
	case !has("sub"):
		return "claims lack sub: every account that the issuer has could log in", "add sub, such as system:serviceaccount:NAMESPACE:NAME"
	}
	return "", ""
}

// checkPattern holds a text to a pattern; empty ones are reported as missing where they must not be.
func (d *document) checkPattern(field, what, text string, pattern *regexp.Regexp, fix string) {
	if text != "" && !pattern.MatchString(text) {
		d.Fault(field, fix, "bad %s %s", what, yamlstrict.Quote(text))
	}
}

// What to do about texts that do not match their pattern.
const (
	visible      = "use at most 512 visible ASCII characters, with spaces only between them"
	claimLetters = "begin with a letter; use letters, digits and any of - . _ : /, at most 128"
)

// checkIssuer wants a URL that nobody on the way can change the keys of.
func (d *document) checkIssuer(issuer string) {
	if issuer == "" {
		return // reported as missing
	}
	cause := ""
	switch u, err := url.Parse(issuer); {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		cause = "it is no URL"
	case u.User != nil:
		cause = "it names a user"
	case u.RawQuery != "" || u.Fragment != "":
		cause = "it has a query or a fragment"
	case u.Scheme == "http" && !httpclient.Loopback(u.Hostname()):
		cause = "it has no TLS, and is not on the hub's own machine"
	default:
		return
	}
	d.Fault("spec.issuer", "write it as its tokens have it: https://HOST or https://HOST/PATH", "bad issuer %s: %s",
		yamlstrict.Quote(httpclient.Redact(issuer)), cause)
}

func (d *document) checkSession(written string, most time.Duration) {
	if written == "" {
		return
	}
	if session, err := time.ParseDuration(written); err != nil || session < minSession || session > most {
		d.Fault("spec.session", "write a duration from 1m to "+strings.TrimSuffix(most.String(), "0m0s")+", such as 15m", "bad session %s", yamlstrict.Quote(written))
	}
}

func (d *document) checkMoment(field, written string) {
	if written == "" {
		return
	}
	if _, err := time.Parse(time.RFC3339, written); err != nil {
		d.Fault(field, `write a time such as "2027-01-31T00:00:00Z"`, "bad time %s", yamlstrict.Quote(written))
	}
}

func (d *document) checkIdentities(identities []Identity) {
	d.checkCount("spec.identities", "identities", len(identities), maxIdentities)
	for i, id := range identities {
		if !SubjectFits(id.Subject) && id.Subject != "" {
			d.Fault(index("spec.identities", i)+".subject", "write the sub claim as plural auth status shows it", "bad subject %s", yamlstrict.Quote(id.Subject))
		}
	}
}

// SubjectFits says whether text can be a sub claim: at most [MaxSubject] visible ASCII characters.
func SubjectFits(text string) bool {
	return text != "" && len(text) <= MaxSubject && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// checkIdentity reports accounts of two users, providers that share their tokens, and tokens that would be two users.
func checkIdentity(f *Fleet, known *known, out *yamlstrict.Faults) {
	owners := map[Identity]string{}
	for i := range f.Users {
		u := &f.Users[i]
		for j, id := range u.Spec.Identities {
			field := index("spec.identities", j)
			refer(u, field+".provider", "provider", id.Provider, known.providers, out)
			if id.Provider == "" || id.Subject == "" {
				continue // reported as missing
			}
			switch first, taken := owners[id]; {
			case taken && first == u.Metadata.Name:
				out.Add(u.Place(field), "remove one of them", "the identity is listed twice")
			case taken:
				out.Add(u.Place(field), "leave it with one of them", "the identity is already that of user %s", first)
			}
			owners[id] = u.Metadata.Name
		}
	}
	issuers := map[string]string{}
	for i := range f.Providers {
		p := &f.Providers[i]
		if first, taken := issuers[p.Spec.Issuer]; taken && p.Spec.Issuer != "" {
			out.Add(p.Place("spec.issuer"), "keep one of them", "the issuer is already that of provider %s", first)
		}
		issuers[p.Spec.Issuer] = p.Metadata.Name
	}
	for i := range f.Federations {
		one := &f.Federations[i]
		refer(one, "spec.user", "user", one.Spec.User, known.users, out)
		switch cluster, ofCluster := one.Spec.Cluster(); {
		case ofCluster && cluster == "":
			out.Add(one.Place("spec.issuer"), "write cluster/NAME", "issuer that names no cluster")
		case ofCluster:
			refer(one, "spec.issuer", "cluster", cluster, known.clusters, out)
		}
		for j := range i {
			other := &f.Federations[j]
			if one.Spec.Issuer == other.Spec.Issuer && one.Spec.User != other.Spec.User && compatible(one.Spec.Claims, other.Spec.Claims) {
				out.Add(one.Place("spec.claims"), "name one claim in both, with different values", "one token could satisfy federation %s too, which is for user %s",
					other.Metadata.Name, other.Spec.User)
			}
		}
	}
}

// compatible says whether one token can satisfy both.
func compatible(a, b map[string]string) bool {
	for name, value := range a {
		if other, ok := b[name]; ok && other != value {
			return false
		}
	}
	return true
}
