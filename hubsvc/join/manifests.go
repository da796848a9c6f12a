package join

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Start is what an agent is started with in a cluster that is to join.
type Start struct {
	Cluster, Token, HubURL string
	// HubCA and Repository may be empty.
	HubCA, Repository string
	// Image is the agent's.
	Image string
}

// What the manifests are called by. The agent's package calls its own the same, and takes them over when the fleet has it.
const (
	namespace  = "plural-system"
	account    = "plural-agent"
	secretName = "plural-join"
	joinRole   = "plural-agent-join"
	reachName  = "plural-agent-reach"
)

type object = map[string]any

// Manifests are what an administrator of a cluster applies so that it joins: the agent with its roles, and the Secret that holds
// the token.
func Manifests(s Start) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	first := []object{
		named("v1", "Namespace", "", namespace, object{"labels": restricted()}, nil),
		named("v1", "Secret", namespace, secretName, nil, object{"type": "Opaque", "data": s.data()}),
	}
	if err := encode(encoder, first...); err != nil {
		return nil, err
	}
	for _, scaffold := range []string{templates.AgentRole, templates.AgentDeploy, templates.AgentSecrets, templates.AgentReach} {
		files, err := templates.Render(scaffold, nil)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if f.Path == "policy.yaml" { // an example of what only the cluster itself may change
				continue
			}
			out.WriteString("---\n")
			out.Write(f.Content)
		}
	}
	out.WriteString("---\n")
	encoder = yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	role, binding := s.joinRole()
	if err := encode(encoder, role, binding, s.deployment()); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

func encode(to *yaml.Encoder, objects ...object) error {
	for _, o := range objects {
		if err := to.Encode(o); err != nil {
			return fmt.Errorf("encode %v: %w", o["kind"], err)
		}
	}
	return nil
}

func named(apiVersion, kind, namespace, name string, metadata, rest object) object {
	meta := object{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	for key, value := range metadata {
		meta[key] = value
	}
	o := object{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	for key, value := range rest {
		o[key] = value
	}
	return o
}

func restricted() object {
	return object{"pod-security.kubernetes.io/enforce": "restricted"}
}

func (s Start) data() object {
	data := object{}
	for key, value := range map[string]string{
		"cluster": s.Cluster, "token": s.Token, "hub-url": s.HubURL, "hub-ca": s.HubCA, "repository": s.Repository,
	} {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	return data
}

// joinRole lets the agent write its registration, and clear away what it joined by. Its binding is among that.
func (Start) joinRole() (role, binding object) {
	rule := func(group, resource, name string, verbs ...string) object {
		return object{"apiGroups": []string{group}, "resources": []string{resource}, "resourceNames": []string{name}, "verbs": verbs}
	}
	const rbac = "rbac.authorization.k8s.io"
	role = named(rbac+"/v1", "Role", namespace, joinRole, nil, object{"rules": []object{
		rule("", "secrets", account, "get", "create", "patch"),
		rule("", "secrets", secretName, "get", "update", "delete"),
		rule(rbac, "rolebindings", joinRole, "get", "delete"),
		rule(rbac, "roles", joinRole, "patch"), // to have it go with its binding
	}})
	binding = named(rbac+"/v1", "RoleBinding", namespace, joinRole, nil, object{
		"roleRef":  object{"apiGroup": rbac, "kind": "Role", "name": joinRole},
		"subjects": []object{{"kind": "ServiceAccount", "name": account, "namespace": namespace}},
	})
	return role, binding
}

// dataDir is where the agent's pod has its folder.
const dataDir = "/var/lib/plural-agent"

// deployment is the agent as the chart of its package deploys it unless somebody says otherwise. A token that is new starts it
// again, so that it joins anew.
func (s Start) deployment() object {
	_, version, _ := strings.Cut(path.Base(s.Image), ":")
	version = version[:min(len(version), 63)] // a digest is longer than a label's value may be
	own := object{"app.kubernetes.io/name": account}
	labels := object{"app.kubernetes.io/name": account, "app.kubernetes.io/part-of": "plural", "app.kubernetes.io/version": version}
	pod := object{
		"serviceAccountName": account, "terminationGracePeriodSeconds": 30,
		"securityContext": object{
			"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "fsGroupChangePolicy": "OnRootMismatch",
			"seccompProfile": object{"type": "RuntimeDefault"},
		},
		"containers": []object{s.container()},
		"volumes": []object{
			{"name": "data", "emptyDir": object{}},
			{"name": "tmp", "emptyDir": object{}},
		},
	}
	return named("apps/v1", "Deployment", namespace, account, object{"labels": labels}, object{"spec": object{
		"replicas": 1, "revisionHistoryLimit": 3, "minReadySeconds": 10, "progressDeadlineSeconds": 120,
		"strategy": object{"type": "RollingUpdate", "rollingUpdate": object{"maxSurge": 1, "maxUnavailable": 0}},
		"selector": object{"matchLabels": own},
		"template": object{
			"metadata": object{"labels": labels, "annotations": object{"plural.sh/join": fleet.HashToken(s.Token)}},
			"spec":     pod,
		},
	}})
}

func (s Start) container() object {
	probe := func(path string, more object) object {
		more["httpGet"] = object{"path": path, "port": "health"}
		return more
	}
	return object{
		"name": "agent", "image": s.Image, "imagePullPolicy": "IfNotPresent",
		"args":           []string{"run", "--data=" + dataDir, "--listen=:8081", "--people-account=" + reachName},
		"ports":          []object{{"name": "health", "containerPort": 8081}},
		"startupProbe":   probe("/healthz", object{"periodSeconds": 2, "failureThreshold": 30}),
		"livenessProbe":  probe("/healthz", object{"periodSeconds": 20, "timeoutSeconds": 5}),
		"readinessProbe": probe("/readyz", object{"periodSeconds": 5, "timeoutSeconds": 5}),
		"resources":      object{"requests": object{"cpu": "50m", "memory": "128Mi"}, "limits": object{"memory": "512Mi"}},
		"securityContext": object{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": object{"drop": []string{"ALL"}},
		},
		"volumeMounts": []object{
			{"name": "data", "mountPath": dataDir},
			{"name": "tmp", "mountPath": "/tmp"},
		},
	}
}
