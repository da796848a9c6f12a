package kubeapi

import (
	"fmt"
	"slices"
	"time"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/principal"
)

// Whom a cluster sees when the hub's own token was shown; before the prefix. Nobody else may have these names.
const (
	operatorName  = "operator"
	operatorGroup = "operators"
)

// Extras of an identity, as a cluster's audit log shows them.
const (
	extraCredential = "plural.sh/credential" // #nosec G101 -- the key of a credential's name
)

// identityLifetime is how long an agent may take to look at an identity.
const identityLifetime = 5 * time.Minute

// reserved refuses people whom a cluster would take for the operator, or for nobody.
func reserved(p principal.Person) error {
	switch {
	case p.Operator:
		return nil
	case p.Name == "":
		return fmt.Errorf("a person without a name has no access to clusters")
	case p.Name == operatorName:
		return fmt.Errorf("the name %q is the hub's own: give the user another one", operatorName)
	case slices.Contains(p.Groups, operatorGroup):
		return fmt.Errorf("the group %q is the hub's own: give it another name", operatorGroup)
	}
	return nil
}

// identity is the person as the cluster is to see them.
func (x *exchange) identity() *tunnelapi.Identity {
	name, groups := x.who.Name, x.who.Groups
	if x.who.Operator {
		name, groups = operatorName, []string{operatorGroup}
	}
	id := &tunnelapi.Identity{
		User: tunnelapi.Prefix + name, Cluster: x.cluster, ExpiresUnixMs: x.p.Now().Add(identityLifetime).UnixMilli(),
	}
	for _, g := range groups {
		id.Groups = append(id.Groups, tunnelapi.Prefix+g)
	}
	if x.who.Credential != "" {
		id.Extra = append(id.Extra, &tunnelapi.Extra{Key: extraCredential, Values: []string{x.who.Credential}})
	}
	return id
}

// shrunk says whether somebody is not all that they were: what they began as that must end.
func shrunk(was, is principal.Person) bool {
	return was.Name != is.Name || was.Operator && !is.Operator ||
		slices.ContainsFunc(was.Groups, func(g string) bool { return !slices.Contains(is.Groups, g) })
}
