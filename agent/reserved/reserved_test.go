package reserved_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/reserved"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// web is any service of a fleet, agent and hub the fleet's own packages.
func web() reserved.Service { return reserved.Service{Name: "web", Namespace: "web"} }

func own(name string) reserved.Service {
	return reserved.Service{Name: name, Namespace: "plural-system", OwnRepository: true}
}

// objects that only the agent's package may write.
func agents() map[string]string {
	const rbac = "apiVersion: rbac.authorization.k8s.io/v1, "
	binding := func(kind, subjects string) string {
		return `
apiVersion: rbac.authorization.k8s.io/v1
kind: ` + kind + `
metadata: {name: mine, namespace: web}
roleRef: {kind: ClusterRole, name: view}
subjects: [` + subjects + `]
`
	}
	out := map[string]string{
		"the policy":                    `{apiVersion: v1, kind: ConfigMap, metadata: {name: plural-agent-reach, namespace: plural-system}}`,
		"the keys":                      `{apiVersion: v1, kind: Secret, metadata: {name: plural-agent, namespace: plural-system}}`,
		"the join token":                `{apiVersion: v1, kind: Secret, metadata: {name: plural-join, namespace: plural-system}}`,
		"the account":                   `{apiVersion: v1, kind: ServiceAccount, metadata: {name: plural-agent, namespace: plural-system}}`,
		"the Deployment":                `{apiVersion: apps/v1, kind: Deployment, metadata: {name: plural-agent, namespace: plural-system}}`,
		"another version of it":         `{apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: plural-agent, namespace: plural-system}}`,
		"a pod of it":                   `{apiVersion: v1, kind: Pod, metadata: {name: plural-agent-6d5f-x, namespace: plural-system}}`,
		"its namespace":                 `{apiVersion: v1, kind: Namespace, metadata: {name: plural-system}}`,
		"its role":                      "{" + rbac + "kind: ClusterRole, metadata: {name: plural-agent-watch}}",
		"its role's part":               "{" + rbac + "kind: ClusterRole, metadata: {name: plural-agent-watch-secrets}}",
		"its role in another namespace": "{" + rbac + "kind: Role, metadata: {name: plural-agent-as-deployer, namespace: web}}",
		"its binding":                   "{" + rbac + "kind: ClusterRoleBinding, metadata: {name: plural-agent-admin}}",
		"the operators' binding":        "{" + rbac + "kind: ClusterRoleBinding, metadata: {name: plural-operators}}",
		"verbs added to its role": "{" + rbac + `kind: ClusterRole, metadata: {name: more, labels: {plural.sh/agent-watches: "true"}},
			rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, create]}]}`,
		"verbs behind a label that is none": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: more, labels: {a: null, plural.sh/agent-watches: "true"}}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
`,
		"a rule added without verbs": "{" + rbac + `kind: ClusterRole, metadata: {name: more, labels: {plural.sh/agent-watches: "true"}},
			rules: [{apiGroups: [""], resources: [pods], verbs: [get]}, {apiGroups: [""], resources: [pods]}]}`,
		"a role added that is aggregated": "{" + rbac + `kind: ClusterRole, metadata: {name: more, labels: {plural.sh/agent-watches: "true"}},
			rules: [], aggregationRule: {clusterRoleSelectors: [{}]}}`,
		"its role for somebody else": "{" + rbac + `kind: RoleBinding, metadata: {name: mine, namespace: web},
			roleRef: {kind: ClusterRole, name: plural-agent-reach}, subjects: [{kind: ServiceAccount, name: web, namespace: web}]}`,
		"a role for everybody": "{" + rbac + `kind: ClusterRoleBinding, metadata: {name: mine}, roleRef: {kind: ClusterRole, name: admin},
			subjects: [{kind: Group, name: "system:authenticated"}]}`,
		"people by another API": `
apiVersion: authorization.openshift.io/v1
kind: RoleBinding
metadata: {name: mine}
groupNames: ["plural:devs"]
`,
	}
	for what, subject := range map[string]string{
		"a group of people":           `{kind: Group, name: "plural:operators"}`,
		"one of the people":           `{kind: User, name: "plural:ana"}`,
		"the agent's account":         `{kind: ServiceAccount, name: plural-agent, namespace: plural-system}`,
		"the account for people":      `{kind: ServiceAccount, name: plural-agent-reach, namespace: plural-system}`,
		"the account as a user":       `{kind: User, name: "system:serviceaccount:plural-system:plural-agent"}`,
		"the accounts of a namespace": `{kind: Group, name: "system:serviceaccounts:plural-system"}`,
		"one behind another":          `{kind: User, name: eve}, {kind: Group, name: "plural:devs"}`,
	} {
		out[what+" bound"] = binding("RoleBinding", subject)
		out[what+" bound in the cluster"] = binding("ClusterRoleBinding", subject)
	}
	return out
}

func TestOnlyTheAgentsPackageWritesWhatIsTheAgents(t *testing.T) {
	for what, text := range agents() {
		obj := parse(t, text)
		for _, s := range []reserved.Service{
			web(), own("hub"),
			{Name: "agent", Namespace: "plural-system"},              // of a stranger's repository
			{Name: "agent", Namespace: "agent", OwnRepository: true}, // of some other product
			own("web"), own("agents"),
		} {
			if r := reserved.Write(s, object.Of(obj), obj); r == nil || r.Cause == "" || r.Fix == "" {
				t.Errorf("%s is written by %+v: %v", what, s, r)
			}
		}
		for _, name := range []string{"agent", "agent-canary"} {
			if r := reserved.Write(own(name), object.Of(obj), obj); r != nil {
				t.Errorf("%s is not written by the agent's package, as %s: %v", what, name, r)
			}
		}
	}
}

func TestTheNamespaceOfTheAgentIsClosedToOtherServices(t *testing.T) {
	for _, kind := range []string{
		"apiVersion: v1, kind: Pod", "apiVersion: batch/v1, kind: Job", "apiVersion: v1, kind: Secret",
		"apiVersion: argoproj.io/v1alpha1, kind: Workflow",
	} {
		obj := parse(t, "{"+kind+", metadata: {name: innocent, namespace: plural-system}}")
		if reserved.Write(web(), object.Of(obj), obj) == nil {
			t.Errorf("%s in plural-system is written by any service", kind)
		}
		if r := reserved.Write(own("hub"), object.Of(obj), obj); r != nil {
			t.Errorf("%s in plural-system is not written by the hub's package: %v", kind, r)
		}
	}
}

func TestWhatIsNotTheAgentsIsLeftToTheService(t *testing.T) {
	const rbac = "apiVersion: rbac.authorization.k8s.io/v1, "
	for what, text := range map[string]string{
		"a name like the agent's": `{apiVersion: v1, kind: ConfigMap, metadata: {name: plural-agent-reach, namespace: web}}`,
		"an account like its own": `{apiVersion: v1, kind: ServiceAccount, metadata: {name: plural-agent, namespace: web}}`,
		"a namespace":             `{apiVersion: v1, kind: Namespace, metadata: {name: web}}`,
		"a role": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: web}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
`,
		"a kind to watch": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: plural-agent-watch-certificates, labels: {plural.sh/agent-watches: "true"}}
rules: [{apiGroups: [cert-manager.io], resources: [certificates], verbs: [get, list, watch]}]
`,
		"a binding of its account": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: web}
roleRef: {kind: ClusterRole, name: admin}
subjects: [{kind: ServiceAccount, name: web, namespace: web}]
`,
		"a binding of an account that is called like its own": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: web}
roleRef: {kind: ClusterRole, name: web}
subjects: [{kind: ServiceAccount, name: plural-agent, namespace: web}]
`,
		"a binding of another account of its namespace": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: web}
roleRef: {kind: ClusterRole, name: web}
subjects: [{kind: ServiceAccount, name: plural-hub, namespace: plural-system}]
`,
		"a role of its own for everybody": "{" + rbac + `kind: ClusterRoleBinding, metadata: {name: web}, roleRef: {kind: ClusterRole, name: web},
			subjects: [{kind: Group, name: "system:authenticated"}]}`,
		"a binding of other groups": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: web, annotations: {about: "plural:devs"}}
roleRef: {kind: ClusterRole, name: view}
subjects: [{kind: Group, name: "oidc:plural:devs"}]
`,
	} {
		obj := parse(t, text)
		if r := reserved.Write(web(), object.Of(obj), obj); r != nil {
			t.Errorf("%s is refused: %+v", what, r)
		}
	}
}

func TestNobodyButTheAgentsPackageDeletesWhatIsTheAgents(t *testing.T) {
	policy := object.ID{Kind: "ConfigMap", Namespace: "plural-system", Name: "plural-agent-reach"}
	moved := object.ID{Kind: "ConfigMap", Namespace: "plural-system", Name: "settings"} // from before the namespace was closed
	if reserved.Delete("web", policy) || !reserved.Delete("agent", policy) || !reserved.Delete("web", moved) {
		t.Error("the agent's objects are not the agent's alone to delete")
	}
}
