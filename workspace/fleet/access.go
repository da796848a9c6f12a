package fleet

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/yamlstrict"
)

// User is somebody who may log in to the hub: access/*.yaml.
type User struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata `yaml:"metadata" json:"metadata"`
	Spec     UserSpec `yaml:"spec,omitempty" json:"spec,omitempty"`
	Position Position `yaml:"-" json:"-"`
	// Fields gives the line and column of fields by dotted path.
	Fields map[string]Position `yaml:"-" json:"-"`
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (u *User) Place(field string) Position { return yamlstrict.Place(u.Fields, field, u.Position) }

// UserSpec is what is known of a person, or of a program that acts like one.
type UserSpec struct {
	// Groups are those that the user belongs to, for role bindings and for sealed files.
	Groups []string `yaml:"groups,omitempty" json:"groups,omitempty"`
	// Tokens are the user's credentials: plural auth token create adds one.
	Tokens []UserToken `yaml:"tokens,omitempty" json:"tokens,omitempty"`
	// Identities are the user's accounts with identity providers. Somebody who logs in with another is known as PROVIDER:SUBJECT.
	Identities []Identity `yaml:"identities,omitempty" json:"identities,omitempty"`
	// SessionsAfter is a time in RFC 3339: logins with an identity that are older have ended. plural auth end sets it.
	SessionsAfter string `yaml:"sessionsAfter,omitempty" json:"sessionsAfter,omitempty"`
}

// UserToken is a credential, of which the repository knows the hash alone.
type UserToken struct {
	// Name is the user's own for it, such as that of a machine.
	Name string `yaml:"name" json:"name"`
	// Hash is "sha256:" and the hash of the token.
	Hash string `yaml:"hash" json:"hash"`
	// Expires is in RFC 3339. Empty: never.
	Expires string `yaml:"expires,omitempty" json:"expires,omitempty"`
}

// Until is when the token expires; zero means never. It was checked when the fleet was read.
func (t *UserToken) Until() time.Time {
	if t.Expires == "" {
		return time.Time{}
	}
	at, _ := time.Parse(time.RFC3339, t.Expires)
	return at
}

// Role is what somebody may do, once a RoleBinding gives it to them: access/*.yaml.
type Role struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata            `yaml:"metadata" json:"metadata"`
	Spec     RoleSpec            `yaml:"spec" json:"spec"`
	Position Position            `yaml:"-" json:"-"`
	Fields   map[string]Position `yaml:"-" json:"-"`
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (r *Role) Place(field string) Position { return yamlstrict.Place(r.Fields, field, r.Position) }

// RoleSpec allows things; what it does not name is not allowed by it.
type RoleSpec struct {
	// Fleet is what may be done by way of the hub: view, sync, edit and admin, each of which stands for those before it too,
	// and apart from these metrics, hint and audit.
	Fleet []string `yaml:"fleet,omitempty" json:"fleet,omitempty" enum:"view,sync,edit,admin,metrics,hint,audit"`
	// Kubernetes are what may be asked of clusters' API servers, where the clusters' own rules still count.
	Kubernetes []KubernetesRule `yaml:"kubernetes,omitempty" json:"kubernetes,omitempty"`
}

// KubernetesRule allows requests to the API servers of some clusters.
type KubernetesRule struct {
	// Clusters are those that the rule is about. Left out: all.
	Clusters        *Selector `yaml:"clusters,omitempty" json:"clusters,omitempty"`
	kubeaccess.Rule `yaml:",inline"`
}

// FleetVerbs are what may be done to the fleet by way of the hub, each of which implies the ones before it.
func FleetVerbs() []string { return []string{"view", "sync", "edit", "admin"} }

// ToolVerbs are for whoever needs one thing of the hub and nothing else: to read its figures, to tell it that somebody pushed, to read
// who did what. None implies another verb.
func ToolVerbs() []string { return []string{"metrics", "hint", "audit"} }

// RoleBinding gives a role to users and groups: access/*.yaml.
type RoleBinding struct {
	TypeMeta `yaml:",inline"`
	Metadata Metadata            `yaml:"metadata" json:"metadata"`
	Spec     RoleBindingSpec     `yaml:"spec" json:"spec"`
	Position Position            `yaml:"-" json:"-"`
	Fields   map[string]Position `yaml:"-" json:"-"`
}

// Place is where a field was written by its dotted path, or else what would hold it.
func (b *RoleBinding) Place(field string) Position {
	return yamlstrict.Place(b.Fields, field, b.Position)
}

// RoleBindingSpec names a Role, and who has it.
type RoleBindingSpec struct {
	// Role is the name of a Role.
	Role string `yaml:"role" json:"role"`
	// Users are names of Users.
	Users []string `yaml:"users,omitempty" json:"users,omitempty"`
	// Groups are those of users, and of whoever signs in through an identity provider.
	Groups []string `yaml:"groups,omitempty" json:"groups,omitempty"`
}

// TokenPrefix begins every user's token, so that one is known when it turns up where it should not.
const TokenPrefix = "plural_"

// rawToken finds tokens in text that repeats what a person wrote.
var rawToken = lazily(TokenPrefix + `[A-Za-z0-9_-]{16,}`)

// redact takes tokens out of it.
func redact(text string) string { return rawToken().ReplaceAllString(text, TokenPrefix+"[redacted]") }

// NewToken makes a user's token of 256 random bits.
func NewToken() string {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
}

// HashToken is what is written of a token into the repository. A token is long and random, so nothing can be guessed from
// its hash.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}

const hashPrefix = "sha256:"

// Bounds of what one document of access/ may hold.
const (
	maxGroups     = 256
	maxUserTokens = 64
	maxRules      = 256
	maxPerRule    = 256
	maxSubjects   = 10_000
)

var (
	// resourceName is KIND or KIND/SUBRESOURCE, with * for any.
	resourceName = lazily(`^(\*|[a-z0-9]([-.a-z0-9]{0,250}[a-z0-9])?)(/(\*|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?))?$`)
	apiGroup     = lazily(`^(\*|[a-z0-9]([-.a-z0-9]{0,250}[a-z0-9])?)?$`)
)

// isGroup says whether a text can name a group. It leaves room for the names that other systems give to groups.
func isGroup(name string) bool {
	return len(name) <= 128 && framed(name, alphanumeric, func(c byte) bool { return alphanumeric(c) || strings.IndexByte("-._@:/", c) >= 0 })
}

// isTokenHash says whether a text is what HashToken writes.
func isTokenHash(text string) bool {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	return ok && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}

// ReservedUser and ReservedGroup are whoever holds the hub's own token, in clusters' eyes. Nobody else may look like them.
const (
	ReservedUser  = "operator"
	ReservedGroup = "operators"
)

func (d *document) checkUser(u *User) {
	d.checkName("metadata.name", u.Metadata.Name)
	if u.Metadata.Name == ReservedUser {
		d.Fault("metadata.name", "choose another name", "user %s is whoever holds the hub's own token", yamlstrict.Quote(ReservedUser))
	}
	d.checkGroups("spec.groups", u.Spec.Groups, maxGroups)
	d.checkCount("spec.tokens", "tokens", len(u.Spec.Tokens), maxUserTokens)
	d.checkIdentities(u.Spec.Identities)
	d.checkMoment("spec.sessionsAfter", u.Spec.SessionsAfter)
	first := map[string]int{}
	for i := range u.Spec.Tokens {
		t, at := &u.Spec.Tokens[i], index("spec.tokens", i)
		d.checkName(at+".name", t.Name)
		if n, taken := first[t.Name]; taken && t.Name != "" {
			d.Fault(at+".name", "rename one of them", "a second token named %s; the other is spec.tokens[%d]", yamlstrict.Quote(t.Name), n)
		}
		first[t.Name] = i
		if t.Hash != "" && !isTokenHash(t.Hash) {
			d.Fault(at+".hash", `make a token with "plural auth token create"; if a token itself stands here, it is known to whoever reads the repository`,
				"%s.hash is not a hash of the form sha256:HEX", at)
		}
		d.checkMoment(at+".expires", t.Expires)
	}
}

func (d *document) checkGroups(field string, groups []string, most int) {
	d.checkCount(field, "groups", len(groups), most)
	for i, name := range groups {
		switch {
		case strings.HasPrefix(strings.ToLower(name), "system:"):
			d.Fault(index(field, i), "choose a name of your own", "group %s: system: belongs to Kubernetes", yamlstrict.Quote(name))
		case name == ReservedGroup:
			d.Fault(index(field, i), "choose another name", "group %s is of whoever holds the hub's own token", yamlstrict.Quote(name))
		case !isGroup(name):
			d.Fault(index(field, i), "use letters, digits and any of - . _ @ : / between them, at most 128", "bad group %s", yamlstrict.Quote(name))
		}
	}
}

func (d *document) checkRole(r *Role) {
	d.checkName("metadata.name", r.Metadata.Name)
	if len(r.Spec.Fleet)+len(r.Spec.Kubernetes) == 0 {
		d.Fault("spec", "add fleet: [view] or kubernetes: [...]", "role that allows nothing")
	}
	d.checkCount("spec.kubernetes", "rules", len(r.Spec.Kubernetes), maxRules)
	for i := range r.Spec.Kubernetes {
		d.checkKubernetesRule(index("spec.kubernetes", i), &r.Spec.Kubernetes[i])
	}
}

func (d *document) checkKubernetesRule(at string, r *KubernetesRule) {
	if r.Clusters != nil {
		d.checkSelector(at+".clusters", r.Clusters, "clusters")
	}
	for _, list := range [][]string{r.Verbs, r.APIGroups, r.Resources, r.Namespaces, r.NonResourceURLs} {
		d.checkCount(at, "entries in one list", len(list), maxPerRule)
	}
	switch resources, paths := len(r.Resources) > 0, len(r.NonResourceURLs) > 0; {
	case resources == paths:
		d.Fault(at, "add resources: [...] or nonResourceURLs: [...]", "rule with neither, or both, of resources and nonResourceURLs")
	case paths && len(r.APIGroups)+len(r.Namespaces) > 0:
		d.Fault(at, "remove them, or name resources", "apiGroups or namespaces of nonResourceURLs")
	}
	if r.Verbs != nil && len(r.Verbs) == 0 {
		d.Fault(at+".verbs", "add verbs, such as [get, list, watch]", "rule without a verb")
	}
	d.checkVerbs(at+".verbs", r.Verbs)
	d.checkResources(at, r)
}

// verbs are those of resources, then those of paths that are of none.
func verbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "head", "post", "put", "options"}
}

func (d *document) checkVerbs(field string, list []string) {
	for i, verb := range list {
		switch known := verbs(); {
		case verb == "*" || slices.Contains(known, verb):
		case slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, verb):
			d.Fault(index(field, i), "write verbs: [create] and resources: [pods/"+verb+"]", "%s is not a verb but a subresource", yamlstrict.Quote(verb))
		default:
			d.Fault(index(field, i), yamlstrict.DidYouMean(verb, known, "verbs"), "unknown verb %s", yamlstrict.Quote(verb))
		}
	}
}

func (d *document) checkResources(at string, r *KubernetesRule) {
	for i, group := range r.APIGroups {
		if !apiGroup().MatchString(group) {
			d.Fault(index(at+".apiGroups", i), `write the group alone, such as apps, and "" for that of pods`, "bad API group %s", yamlstrict.Quote(group))
		}
	}
	for i, name := range r.Resources {
		if !resourceName().MatchString(name) {
			d.Fault(index(at+".resources", i), "write the plural in lower case, such as pods or pods/log", "bad resource %s", yamlstrict.Quote(name))
		}
	}
	for i, name := range r.Namespaces {
		if name == "" {
			d.Fault(index(at+".namespaces", i), "remove it", "empty namespace")
		} else if name != "*" {
			d.checkName(index(at+".namespaces", i), name)
		}
	}
	for i, url := range r.NonResourceURLs {
		star := strings.IndexByte(url, '*')
		if url != "*" && (!strings.HasPrefix(url, "/") || star >= 0 && !(star == len(url)-1 && strings.HasSuffix(url, "/*"))) {
			d.Fault(index(at+".nonResourceURLs", i), "write a path such as /metrics, or /metrics/*", "bad path %s", yamlstrict.Quote(url))
		}
	}
}

// checkSelector wants one that can pick something.
func (d *document) checkSelector(at string, s *Selector, what string) {
	if len(s.Names)+len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		d.Fault(at, "remove it to pick all "+what, "empty selector picks no %s", what)
	}
	for i, r := range s.MatchExpressions {
		d.checkRequirement(index(at+".matchExpressions", i), r)
	}
}

func (d *document) checkRoleBinding(b *RoleBinding) {
	d.checkName("metadata.name", b.Metadata.Name)
	if len(b.Spec.Users)+len(b.Spec.Groups) == 0 {
		d.Fault("spec", "add users: [...] or groups: [...]", "role binding that gives the role to nobody")
	}
	d.checkCount("spec.users", "users", len(b.Spec.Users), maxSubjects)
	d.checkGroups("spec.groups", b.Spec.Groups, maxSubjects)
}

// checkAccess reports names in access/ that nothing in the fleet has, and one token of two users.
func checkAccess(f *Fleet, known *known, out *yamlstrict.Faults) {
	type owner struct{ token, user string }
	tokens := make(map[string]owner, len(f.Users))
	for i := range f.Users {
		u := &f.Users[i]
		for j, t := range u.Spec.Tokens {
			if first, taken := tokens[t.Hash]; taken && t.Hash != "" {
				fix := "make a token for each of them"
				out.Add(u.Place(index("spec.tokens", j)+".hash"), fix, "the token is already %s of user %s", first.token, first.user)
			}
			tokens[t.Hash] = owner{t.Name, u.Metadata.Name}
		}
	}
	for i := range f.Roles {
		r := &f.Roles[i]
		for j := range r.Spec.Kubernetes {
			if s := r.Spec.Kubernetes[j].Clusters; s != nil {
				referAll(r, index("spec.kubernetes", j)+".clusters.names", "cluster", s.Names, known.clusters, out)
			}
		}
	}
	for i := range f.RoleBindings {
		b := &f.RoleBindings[i]
		refer(b, "spec.role", "role", b.Spec.Role, known.roles, out)
		referAll(b, "spec.users", "user", b.Spec.Users, known.users, out)
	}
}
