// Package register owns the registration of a cluster.
//
// A cluster that nobody here reaches is invited instead: Invite makes a token whose hash goes into the file, for its agent to
// register itself.
//
// It commits nothing and starts nothing. Prepare makes the keys and the file's new content, and touches nothing, so that
// the caller can see to it that the commit will work out; Install then writes the Secret. A file that is there keeps its
// comments, its order, all it says beside the keys; only blank lines and indentation may move.
package register

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/schema"
)

// Request says which cluster, and where its hub is.
type Request struct {
	Cluster string
	HubURL  string
	// HubCA holds PEM certificates to trust for the hub; empty means the system's.
	HubCA []byte
	// Tags are given to a cluster that has no file yet.
	Tags map[string]string
	// Parameters are given to a cluster that has had no agent yet, unless it has others of the same names.
	Parameters map[string]string
	// Repository is the id of the installation repo, to which the agent then holds what it opens; empty when nothing is
	// sealed there.
	Repository string
	// Repo is the installation repo, whose schema a new file names; nil: it names none.
	Repo fs.FS
	// Before are keys that the cluster had before, to be used on where its file still names them; nil: there are none.
	Before *crypto.AgentIdentity
}

// Registration is a cluster's keys: fresh ones, which nobody knows yet, unless Kept.
type Registration struct {
	// Keys are both halves. Kept says that they are those of before, and File as it was.
	Keys *crypto.AgentIdentity
	Kept bool
	// First says that the cluster has had no agent yet.
	First bool
	// File is the cluster's file with the public halves.
	File []byte
	// Tags are the cluster's, as its file says.
	Tags map[string]string
	// Age is the recipient for what only this cluster's agent should open.
	Age string

	private identity.Registration
}

// Path is a cluster's file in the installation repo.
func Path(cluster string) string { return "clusters/" + cluster + ".yaml" }

// Prepare makes fresh keys for a cluster, or takes those of before on. File is what stands in the cluster's file now, nil when
// there is none.
func Prepare(r Request, file []byte) (*Registration, error) {
	if problems := validation.IsDNS1123Label(r.Cluster); len(problems) > 0 {
		return nil, fmt.Errorf("cluster name %q: %s", r.Cluster, strings.Join(problems, ", "))
	}
	keys, err := crypto.NewAgentIdentity()
	if err != nil {
		return nil, err
	}
	if file == nil {
		if file, err = newFile(r); err != nil {
			return nil, err
		}
	}
	document, err := own(file, r.Cluster)
	first := err == nil && named(document) == (crypto.AgentPublic{})
	kept := err == nil && r.Before != nil && named(document) == r.Before.Public()
	switch {
	case kept:
		keys = r.Before
	case err == nil:
		if first {
			err = withParameters(document, r.Parameters)
		}
		if err == nil {
			file, err = withKeys(document, keys.Public())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("edit %s: %w", Path(r.Cluster), err)
	}
	return &Registration{
		Keys: keys, Kept: kept, First: first, File: file, Tags: tags(document.Content[0]), Age: keys.Public().Age,
		private: identity.Registration{
			Cluster: r.Cluster, HubURL: r.HubURL, HubCA: r.HubCA, Repository: r.Repository, Identity: keys,
		},
	}, nil
}

// Invitation is a cluster's fresh join token, which nobody knows yet.
type Invitation struct {
	// File is the cluster's file with the token's hash.
	File []byte
	// Tags are the cluster's, as its file says.
	Tags map[string]string
	// Token is what the cluster's agent registers itself with, until Expires.
	Token   string
	Expires time.Time
}

// Invite makes a join token for a cluster, in place of an older one. File is what stands in the cluster's file now, nil when
// there is none. The cluster keeps the keys that it has until the token is used.
func Invite(r Request, file []byte, now time.Time) (*Invitation, error) {
	if problems := validation.IsDNS1123Label(r.Cluster); len(problems) > 0 {
		return nil, fmt.Errorf("cluster name %q: %s", r.Cluster, strings.Join(problems, ", "))
	}
	var err error
	if file == nil {
		if file, err = newFile(r); err != nil {
			return nil, err
		}
	}
	i := &Invitation{Token: fleet.NewJoinToken(), Expires: now.Add(fleet.JoinLifetime).Truncate(time.Second).UTC()}
	document, err := own(file, r.Cluster)
	if err == nil {
		i.Tags = tags(document.Content[0])
		i.File, err = i.in(document, string(r.HubCA))
	}
	if err != nil {
		return nil, fmt.Errorf("edit %s: %w", Path(r.Cluster), err)
	}
	return i, nil
}

// in sets spec.join, leaving the rest of the document as it is.
func (i *Invitation) in(document *yaml.Node, hubCA string) ([]byte, error) {
	spec, err := child(document.Content[0], "spec")
	if err != nil {
		return nil, err
	}
	join, err := child(spec, "join")
	if err != nil {
		return nil, err
	}
	join.Content, join.Style = nil, 0
	set(join, "hash", fleet.HashToken(i.Token))
	set(join, "expires", i.Expires.Format(time.RFC3339))
	if hubCA != "" {
		set(join, "hubCA", hubCA)
	}
	return encode(document)
}

// Revoke takes a cluster's join token out of its file; nil when there is none in it.
func Revoke(cluster string, file []byte) ([]byte, error) {
	document, err := own(file, cluster)
	if err != nil {
		return nil, fmt.Errorf("edit %s: %w", Path(cluster), err)
	}
	spec := lookup(document.Content[0], "spec")
	if spec == nil || lookup(spec, "join") == nil {
		return nil, nil
	}
	for i := 0; i+1 < len(spec.Content); i += 2 {
		if spec.Content[i].Value == "join" {
			spec.Content = slices.Delete(spec.Content, i, i+2)
			break
		}
	}
	return encode(document)
}

// Install puts the private halves into the cluster, in place of older ones.
func (r *Registration) Install(ctx context.Context, kube dynamic.Interface) error {
	if err := identity.Write(ctx, kube, r.private); err != nil {
		return fmt.Errorf("register cluster %s: %w", r.private.Cluster, err)
	}
	return nil
}

// Owns says whether file is that of the cluster, and of nothing else: nil, or what it is instead.
func Owns(cluster string, file []byte) error {
	if _, err := own(file, cluster); err != nil {
		return fmt.Errorf("read %s: %w", Path(cluster), err)
	}
	return nil
}

func newFile(r Request) ([]byte, error) {
	text, err := encode(&fleet.Cluster{
		TypeMeta: fleet.TypeMeta{APIVersion: fleet.APIVersion, Kind: "Cluster"},
		Metadata: fleet.Metadata{Name: r.Cluster},
		Spec:     fleet.ClusterSpec{Tags: r.Tags},
	})
	if r.Repo == nil || err != nil {
		return text, err
	}
	return append(schema.Line(r.Repo, Path(r.Cluster), schema.Cluster), text...), nil
}

// own is the document of a cluster's file.
func own(file []byte, cluster string) (*yaml.Node, error) {
	document, err := single(file)
	if err != nil {
		return nil, err
	}
	root := document.Content[0]
	if kind, name := text(root, "kind"), text(root, "metadata", "name"); kind != "Cluster" || name != cluster {
		return nil, fmt.Errorf("want the Cluster %q, and it holds the %s %q", cluster, cmp.Or(kind, "document"), name)
	}
	return document, nil
}

// withKeys sets spec.agent, leaving the rest of the document as it is.
func withKeys(document *yaml.Node, keys crypto.AgentPublic) ([]byte, error) {
	root := document.Content[0]
	spec, err := child(root, "spec")
	if err != nil {
		return nil, err
	}
	agent, err := child(spec, "agent")
	if err != nil {
		return nil, err
	}
	set(agent, "auth", keys.Auth)
	set(agent, "age", keys.Age)
	return encode(document)
}

// withParameters sets those of spec.parameters that are not there, leaving the rest of the document as it is.
func withParameters(document *yaml.Node, parameters map[string]string) error {
	if len(parameters) == 0 {
		return nil
	}
	spec, err := child(document.Content[0], "spec")
	if err != nil {
		return err
	}
	if there := lookup(spec, "parameters"); there != nil && there.Kind == yaml.AliasNode {
		return nil // they are another's, too
	}
	there, err := child(spec, "parameters")
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if lookup(there, name) == nil {
			set(there, name, parameters[name])
		}
	}
	return nil
}

// named are the keys that a cluster's document names.
func named(document *yaml.Node) crypto.AgentPublic {
	root := document.Content[0]
	return crypto.AgentPublic{Auth: text(root, "spec", "agent", "auth"), Age: text(root, "spec", "agent", "age")}
}

// single is the only document of a file. A second one would be lost on the way out.
func single(file []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(file))
	var document, more yaml.Node
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if document.Kind != yaml.DocumentNode || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("want one YAML document that is a mapping")
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: a second document begins: give the cluster a file of its own", more.Line)
	}
	return &document, nil
}

// text is the string at a path of keys, or empty.
func text(m *yaml.Node, path ...string) string {
	for _, key := range path {
		if m = lookup(m, key); m == nil {
			return ""
		}
	}
	return m.Value
}

// tags are those of a cluster's document; what is no text there is none.
func tags(root *yaml.Node) map[string]string {
	spec := lookup(root, "spec")
	if spec == nil {
		return nil
	}
	all := lookup(spec, "tags")
	if all == nil {
		return nil
	}
	if all.Kind == yaml.AliasNode {
		all = all.Alias
	}
	found := make(map[string]string, len(all.Content)/2)
	for i := 0; i+1 < len(all.Content); i += 2 {
		found[all.Content[i].Value] = all.Content[i+1].Value
	}
	return found
}

// child is the mapping at key, made when it is not there.
func child(m *yaml.Node, key string) (*yaml.Node, error) {
	value := lookup(m, key)
	switch {
	case value == nil:
		value = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
	case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
		value.Kind, value.Tag, value.Value = yaml.MappingNode, "!!map", ""
	case value.Kind != yaml.MappingNode:
		return nil, fmt.Errorf("line %d: %s is no mapping", value.Line, key)
	}
	if len(value.Content) == 0 {
		value.Style &^= yaml.FlowStyle // {} becomes a block; whoever wrote more in one line wants it so
	}
	return value, nil
}

// set writes a string, in place of an older value, whose comments stay.
func set(m *yaml.Node, key, text string) {
	value := lookup(m, key)
	if value == nil {
		value = &yaml.Node{}
		m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
	}
	value.Kind, value.Tag, value.Value, value.Style = yaml.ScalarNode, "!!str", text, 0
	value.Content, value.Alias = nil, nil
}

func lookup(m *yaml.Node, key string) *yaml.Node {
	if m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
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
