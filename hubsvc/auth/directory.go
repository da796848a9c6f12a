package auth

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Directory is who a fleet knows, and by what: its users, their tokens and accounts, and whom it believes about others. It does not
// change once it is made.
type Directory struct {
	// unread says that nothing is known yet, which is no reason to turn anybody away for good.
	unread bool
	// tokens are users by the hashes of their tokens.
	tokens     map[string]principal.Person
	users      map[string]user
	identities map[fleet.Identity]string
	// groups are those that a role binding or an application names: others are no concern of the fleet's.
	groups      map[string]bool
	providers   map[string]provider
	federations map[string]federation
	// applications are those in which people log in by way of the hub.
	applications map[string]*fleet.ApplicationSpec
}

// user is somebody of the fleet.
type user struct {
	groups        []string
	sessionsAfter time.Time
	tokens        []fleet.UserToken
}

type provider struct {
	*fleet.ProviderSpec
	name, trust   string
	sessionsAfter time.Time
}

type federation struct {
	*fleet.FederationSpec
	name, trust string
}

// Unread is the directory of a fleet that was not read yet.
func Unread() *Directory {
	d := NewDirectory(&fleet.Fleet{})
	d.unread = true
	return d
}

// notYet is what people are told who may be known once the fleet was read.
func (d *Directory) notYet() error {
	if !d.unread {
		return nil
	}
	return &principal.Rejected{
		Message: "this hub has read no good commit of the installation repo yet, and so knows nobody",
		Fix:     "try again in some seconds; its log says what it waits for",
		Later:   true,
	}
}

// NewDirectory reads a fleet, which has no mistakes.
func NewDirectory(f *fleet.Fleet) *Directory {
	d := &Directory{
		tokens: make(map[string]principal.Person, len(f.Users)), users: make(map[string]user, len(f.Users)), identities: map[fleet.Identity]string{},
		groups: map[string]bool{}, providers: map[string]provider{}, federations: map[string]federation{},
		applications: make(map[string]*fleet.ApplicationSpec, len(f.Applications)),
	}
	for i := range f.Users {
		u := &f.Users[i]
		name, groups := u.Metadata.Name, sorted(u.Spec.Groups)
		d.users[name] = user{groups, moment(u.Spec.SessionsAfter), u.Spec.Tokens}
		for j := range u.Spec.Tokens {
			t := &u.Spec.Tokens[j]
			d.tokens[t.Hash] = principal.Person{Name: name, Groups: groups, Credential: t.Hash, Expires: t.Until()}
		}
		for _, id := range u.Spec.Identities {
			d.identities[id] = name
		}
	}
	for i := range f.RoleBindings {
		for _, group := range f.RoleBindings[i].Spec.Groups {
			d.groups[group] = true
		}
	}
	for i := range f.Applications {
		a := &f.Applications[i]
		d.applications[a.Metadata.Name] = &a.Spec
		for _, group := range a.Spec.AllGroups() {
			d.groups[group] = true
		}
	}
	for i := range f.Providers {
		p := &f.Providers[i]
		d.providers[p.Metadata.Name] = provider{
			&p.Spec, p.Metadata.Name, digestOf(p.Spec.Issuer, p.Spec.ClientID, p.Spec.PageClientID(), p.Spec.GroupsClaim(), p.Spec.Groups), moment(p.Spec.SessionsAfter),
		}
	}
	for i := range f.Federations {
		m := &f.Federations[i]
		trusted := []any{m.Spec.Issuer, m.Spec.User, m.Spec.Claims}
		if name, ok := m.Spec.Cluster(); ok { // another cluster may get its name
			if c, known := f.Cluster(name); known {
				trusted = append(trusted, c.Spec.Agent.Auth)
			}
		}
		d.federations[m.Metadata.Name] = federation{&m.Spec, m.Metadata.Name, digestOf(trusted...)}
	}
	return d
}

// sorted are groups as a person has them.
func sorted(groups []string) []string { return slices.Compact(slices.Sorted(slices.Values(groups))) }

// moment is a time that was checked when the fleet was read; zero for none.
func moment(written string) time.Time {
	if written == "" {
		return time.Time{}
	}
	at, _ := time.Parse(time.RFC3339, written)
	return at
}

// digestOf tells whether what the fleet says of a provider is still what it was.
func digestOf(parts ...any) string {
	text, err := json.Marshal(parts) // of strings and maps of them, in whose order the keys are sorted
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// issuers are those whose keys may be asked for.
func (d *Directory) issuers() []string {
	var all []string
	for _, p := range d.providers {
		all = append(all, p.Issuer)
	}
	for _, m := range d.federations {
		if _, ofCluster := m.Cluster(); !ofCluster {
			all = append(all, m.Issuer)
		}
	}
	return all
}

// gives are the groups of a token that the provider may give.
func (p *provider) gives(groups []string) []string {
	if len(p.Groups) == 0 {
		return groups
	}
	return slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return !slices.Contains(p.Groups, g) })
}

// known are the groups of a token that the fleet has a role for, sorted.
func (d *Directory) known(groups []string) []string {
	return sorted(slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return !d.groups[g] }))
}

// User is a user of the fleet as the fleet alone knows them: a token of theirs makes them this person, and what a provider says of
// their groups comes on top.
func (d *Directory) User(name string) (principal.Person, bool) {
	u, ok := d.users[name]
	return principal.Person{Name: name, Groups: u.groups}, ok
}

// Tokens are those that a user of the fleet has; false: there is no such user. They may not be changed.
func (d *Directory) Tokens(name string) ([]fleet.UserToken, bool) {
	u, ok := d.users[name]
	return u.tokens, ok
}

// Identified is the name of the user whose account with a provider this is.
func (d *Directory) Identified(id fleet.Identity) (string, bool) {
	name, ok := d.identities[id]
	return name, ok
}

// Application is one in which people log in by way of the hub, by its client ID.
func (d *Directory) Application(name string) (*fleet.ApplicationSpec, bool) {
	a, ok := d.applications[name]
	return a, ok
}

// Providers are what somebody has to know who wants to log in, by name.
func (d *Directory) Providers() map[string]fleet.ProviderSpec {
	all := make(map[string]fleet.ProviderSpec, len(d.providers))
	for name, p := range d.providers {
		all[name] = *p.ProviderSpec
	}
	return all
}
