// Package reserved owns the list of objects that belong to the agent and that no service may change.
//
// It refuses to know how objects are written, and what RBAC says: whoever is about to write or delete an object for a service asks
// here first. A service is known by what the plan says of it, its name, its namespace and where its files come from, and never by
// anything that its files say themselves.
package reserved

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/object"
)

const (
	// agentService and hubService are what installations of the packages of the agent and of the hub are called, or begin with when
	// there are several: agent-canary.
	agentService = "agent"
	hubService   = "hub"

	// agentName begins the names of all that the agent's package makes.
	agentName = "plural-agent"
	// joinName is the Secret by which an agent joins.
	joinName = "plural-join"
	// operatorsName is the binding of whoever holds the hub's own token.
	operatorsName = "plural-operators"

	// people begins the names of users and groups that come by the hub.
	people = "plural:"
	// accounts are the agent's service accounts as users, and accountsGroup is a group that they are in with nobody else's.
	accounts      = "system:serviceaccount:" + object.SystemNamespace + ":" + agentName
	accountsGroup = "system:serviceaccounts:" + object.SystemNamespace

	// watchLabel adds a ClusterRole's rules to what the agent may.
	watchLabel = "plural.sh/agent-watches"
	watchName  = agentName + "-watch-"
)

// Service is what the plan says of a service.
type Service struct {
	Name, Namespace string
	// OwnRepository says that its files are those of the installation repo, and of no other source.
	OwnRepository bool
}

// is says whether the service is an installation of one of the fleet's own packages.
func (s Service) is(name string) bool {
	return called(s.Name, name) && s.Namespace == object.SystemNamespace && s.OwnRepository
}

// called says whether a service or an object has a name, or one that goes on with a hyphen.
func called(have, name string) bool { return have == name || strings.HasPrefix(have, name+"-") }

// Refusal says why a service may not write an object, and what to do.
type Refusal struct{ Cause, Fix string }

// Write says why a service may not write an object; nil: it may. The id says where the object goes, whatever it says itself.
func Write(s Service, id object.ID, obj *unstructured.Unstructured) *Refusal {
	const other = "rename it, or leave it to the package agent"
	switch {
	case s.is(agentService):
		return nil
	case agents(id):
		return &Refusal{"it is the agent's own, and only the package agent may write it", other}
	case id.Namespace == object.SystemNamespace && !s.is(hubService):
		return &Refusal{"the namespace " + id.Namespace + " is the agent's and the hub's own", "put it into another namespace"}
	case isBinding(id):
		return refuseBinding(obj)
	case isRole(id) && watches(obj) && !reads(obj):
		return &Refusal{
			"its label " + watchLabel + " adds its rules to the agent's, which may only be " +
				"get, list and watch of resources that it names itself",
			"take the label off, or leave these verbs in it and no aggregationRule",
		}
	}
	return nil
}

// Delete says whether a service may delete an object that it is on record to have written.
func Delete(service string, id object.ID) bool { return called(service, agentService) || !agents(id) }

// agents says whether the object is the agent's by its name. What others are told to add to the agent's role is not.
func agents(id object.ID) bool {
	own := called(id.Name, agentName)
	switch {
	case id.IsNamespace():
		return id.Name == object.SystemNamespace
	case id.Namespace == object.SystemNamespace:
		return own || id.Name == joinName
	case isRole(id) && strings.HasPrefix(id.Name, watchName):
		return id.Name == watchName+"builtin" || id.Name == watchName+"secrets"
	case isRole(id), isBinding(id):
		return own || id.Name == operatorsName
	}
	return false
}

// isRole and isBinding go by the kind alone: there are API servers with groups of their own for them.
func isRole(id object.ID) bool { return id.Kind == "Role" || id.Kind == "ClusterRole" }

func isBinding(id object.ID) bool { return id.Kind == "RoleBinding" || id.Kind == "ClusterRoleBinding" }

// refuseBinding says why nobody but the agent's package may bind this role to these subjects.
func refuseBinding(obj *unstructured.Unstructured) *Refusal {
	const byPackage = "say it in the answer people of the package agent"
	role, _, _ := unstructured.NestedString(obj.Object, "roleRef", "name")
	if agents(object.ID{Kind: "ClusterRole", Name: role}) {
		return &Refusal{fmt.Sprintf("it gives away the role %q, which is the agent's own", role), "bind another role"}
	}
	if slices.Contains([]string{"view", "edit", "admin", "cluster-admin"}, role) {
		if group := everybody(obj.Object); group != "" {
			return &Refusal{
				fmt.Sprintf("it gives the role %q to %s, people from the hub and the agent's accounts among them", role, group),
				"bind it to the users, groups and accounts that need it",
			}
		}
	}
	for field, value := range obj.Object {
		if field == "metadata" {
			continue
		}
		if name := privileged(value); name != "" {
			return &Refusal{fmt.Sprintf("it says what %q may do in the cluster, and only the package agent may say so", name), byPackage}
		}
	}
	return nil
}

// everybody finds, anywhere in a value, a group that is given to whoever is known; "" where there is none.
func everybody(value any) string {
	switch v := value.(type) {
	case string:
		if slices.Contains([]string{"system:authenticated", "system:unauthenticated", "system:serviceaccounts"}, v) {
			return v
		}
	case []any:
		for _, item := range v {
			if group := everybody(item); group != "" {
				return group
			}
		}
	case map[string]any:
		for _, field := range v {
			if group := everybody(field); group != "" {
				return group
			}
		}
	}
	return ""
}

// privileged finds, anywhere in a value, a user or a group whose rights are none of a service's business; "" where there is none.
func privileged(value any) string {
	switch v := value.(type) {
	case string:
		if strings.HasPrefix(v, people) || called(v, accounts) || v == accountsGroup {
			return v
		}
	case []any:
		for _, item := range v {
			if name := privileged(item); name != "" {
				return name
			}
		}
	case map[string]any:
		name, _ := v["name"].(string)
		if v["namespace"] == object.SystemNamespace && called(name, agentName) {
			return "system:serviceaccount:" + object.SystemNamespace + ":" + name
		}
		for _, field := range v {
			if name := privileged(field); name != "" {
				return name
			}
		}
	}
	return ""
}

// watches looks at the labels as they are written: among them may be values that make others of them unreadable.
func watches(obj *unstructured.Unstructured) bool {
	_, is, err := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "labels", watchLabel)
	return is || err != nil
}

// reads says whether all that a role allows is to look at resources that it names: one that is aggregated itself may come to allow
// anything.
func reads(obj *unstructured.Unstructured) bool {
	if _, aggregated := obj.Object["aggregationRule"]; aggregated {
		return false
	}
	rules, _, err := unstructured.NestedSlice(obj.Object, "rules")
	return err == nil && !slices.ContainsFunc(rules, func(r any) bool {
		rule, _ := r.(map[string]any)
		verbs, _, err := unstructured.NestedStringSlice(rule, "verbs")
		return err != nil || len(verbs) == 0 || slices.ContainsFunc(verbs, func(verb string) bool {
			return !slices.Contains([]string{"get", "list", "watch"}, verb)
		})
	})
}
