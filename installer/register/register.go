// Package register owns how a cluster joins the fleet: keys are made, their public halves go into the cluster's file in
// git, their private halves into a Secret in the cluster.
//
// It commits nothing and starts nothing: the caller gets the file's new content, and decides when it is committed. A
// file that is there keeps its comments, its order, all it says beside the keys.
package register

import (
	"bytes"
	"context"
	"fmt"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Request says which cluster, and where its hub is.
type Request struct {
	Cluster string
	HubURL  string
	// HubCA holds PEM certificates to trust for the hub; empty means the system's.
	HubCA []byte
	// Tags are given to a cluster that has no file yet.
	Tags map[string]string
}

// Path is a cluster's file in the installation repo.
func Path(cluster string) string { return "clusters/" + cluster + ".yaml" }

// Cluster gives a cluster fresh keys. It writes the private halves through kube, and returns the cluster's file with
// the public ones: file is what stands there now, nil when there is none.
func Cluster(ctx context.Context, kube dynamic.Interface, r Request, file []byte) ([]byte, error) {
	keys, err := crypto.NewAgentIdentity()
	if err != nil {
		return nil, err
	}
	if file == nil {
		if file, err = newFile(r); err != nil {
			return nil, err
		}
	}
	file, err = withKeys(file, keys.Public())
	if err != nil {
		return nil, fmt.Errorf("edit %s: %w", Path(r.Cluster), err)
	}
	registration := identity.Registration{Cluster: r.Cluster, HubURL: r.HubURL, HubCA: r.HubCA, Identity: keys}
	if err := identity.Write(ctx, kube, registration); err != nil {
		return nil, fmt.Errorf("register cluster %s: %w", r.Cluster, err)
	}
	return file, nil
}

func newFile(r Request) ([]byte, error) {
	return encode(&fleet.Cluster{
		TypeMeta: fleet.TypeMeta{APIVersion: fleet.APIVersion, Kind: "Cluster"},
		Metadata: fleet.Metadata{Name: r.Cluster},
		Spec:     fleet.ClusterSpec{Tags: r.Tags},
	})
}

// withKeys sets spec.agent, leaving the rest of the document as it is.
func withKeys(file []byte, keys crypto.AgentPublic) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(file, &document); err != nil {
		return nil, err
	}
	if document.Kind != yaml.DocumentNode || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("want one YAML document that is a mapping")
	}
	agent := child(child(document.Content[0], "spec"), "agent")
	set(agent, "auth", keys.Auth)
	set(agent, "age", keys.Age)
	return encode(&document)
}

// child is the mapping at key, made when it is not there.
func child(m *yaml.Node, key string) *yaml.Node {
	if value := lookup(m, key); value != nil && value.Kind == yaml.MappingNode {
		return value
	}
	value := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	put(m, key, value)
	return value
}

func set(m *yaml.Node, key, text string) {
	put(m, key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text})
}

func lookup(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

func put(m *yaml.Node, key string, value *yaml.Node) {
	m.Style &^= yaml.FlowStyle
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content[i+1] = value
			return
		}
	}
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return out.Bytes(), encoder.Close()
}
