// Package identity owns the Secret that holds an agent's identity.
//
// Whoever registers a cluster writes it, and the cluster's agent reads it. Neither is known here.
package identity

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/crypto"
)

// Where an agent finds who it is, in its own cluster.
const (
	Namespace  = "plural-system"
	SecretName = "plural-agent"
)

// Registration is what a cluster's agent has to know: who it is, and which hub is its own.
type Registration struct {
	Cluster string
	HubURL  string
	// HubCA holds PEM certificates to trust for the hub; empty means the system's.
	HubCA    []byte
	Identity *crypto.AgentIdentity
	// Repository is the id of the installation repo whose sealed files the agent may open: pinned here, not told by the
	// hub. Empty, in the registrations of older versions: it opens none.
	Repository string
}

// Equal says whether two registrations are the same agent of the same hub.
func (r Registration) Equal(other Registration) bool {
	return r.Cluster == other.Cluster && r.HubURL == other.HubURL && bytes.Equal(r.HubCA, other.HubCA) &&
		r.Repository == other.Repository && r.Identity.Public() == other.Identity.Public()
}

// DigestKey is what the agent alone knows, and whoever may read its Secret: nobody else who reads an inventory can try out
// what a Secret held.
func (r Registration) DigestKey() []byte {
	auth, _ := r.Identity.Private()
	sum := hmac.New(sha256.New, []byte(auth))
	sum.Write([]byte("plural.sh/inventory"))
	return sum.Sum(nil)
}

const fieldManager = "plural-register"

func secrets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
}

func namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

// MakeNamespace makes the namespace that hub and agent run in, where the cluster lets pods do no more than they need.
func MakeNamespace(ctx context.Context, client dynamic.Interface) error {
	namespace := object("v1", "Namespace", Namespace)
	namespace.SetLabels(map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest",
		"pod-security.kubernetes.io/warn": "restricted", "pod-security.kubernetes.io/warn-version": "latest",
	})
	if _, err := client.Resource(namespaces()).Apply(ctx, Namespace, namespace, applyOptions()); err != nil {
		return fmt.Errorf("make namespace %s: %w", Namespace, err)
	}
	return nil
}

// Write puts a registration into its cluster, in place of an older one.
func Write(ctx context.Context, client dynamic.Interface, r Registration) error {
	if err := MakeNamespace(ctx, client); err != nil {
		return err
	}
	return Save(ctx, client, r)
}

// Save is Write into a namespace that is there. It touches nothing but the Secret.
func Save(ctx context.Context, client dynamic.Interface, r Registration) error {
	auth, ageKey := r.Identity.Private()
	secret := object("v1", "Secret", SecretName)
	secret.SetNamespace(Namespace)
	secret.Object["type"] = "Opaque"
	secret.Object["data"] = map[string]any{
		"cluster": encode(r.Cluster), "hub-url": encode(r.HubURL), "hub-ca": encode(string(r.HubCA)),
		"auth-key": encode(auth), "age-key": encode(ageKey), "repository": encode(r.Repository),
	}
	if _, err := client.Resource(secrets()).Namespace(Namespace).Apply(ctx, SecretName, secret, applyOptions()); err != nil {
		return fmt.Errorf("write secret %s/%s: %w", Namespace, SecretName, err)
	}
	return nil
}

// Missing says that a cluster was not registered.
type Missing struct{}

// Error says what to do about it.
func (*Missing) Error() string {
	return fmt.Sprintf("this cluster has no secret %s/%s: run plural cluster register first", Namespace, SecretName)
}

// Read returns what Write wrote; without it the error is a *Missing.
func Read(ctx context.Context, client dynamic.Interface) (Registration, error) {
	secret, err := client.Resource(secrets()).Namespace(Namespace).Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Registration{}, new(Missing)
	}
	if err != nil {
		return Registration{}, fmt.Errorf("read secret %s/%s: %w", Namespace, SecretName, err)
	}
	return parse(secret)
}

func parse(secret *unstructured.Unstructured) (Registration, error) {
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	field := func(name string) string {
		raw, _ := base64.StdEncoding.DecodeString(data[name]) // what is not base64 is refused below, as empty
		return string(raw)
	}
	identity, err := crypto.ParseAgentIdentity(field("auth-key"), field("age-key"))
	if err != nil {
		return Registration{}, fmt.Errorf("secret %s/%s: %w", Namespace, SecretName, err)
	}
	r := Registration{
		Cluster: field("cluster"), HubURL: field("hub-url"), HubCA: []byte(field("hub-ca")), Identity: identity,
		Repository: field("repository"),
	}
	if r.Cluster == "" || r.HubURL == "" {
		return Registration{}, fmt.Errorf("secret %s/%s lacks cluster or hub-url: register the cluster again", Namespace, SecretName)
	}
	return r, nil
}

func object(apiVersion, kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name},
	}}
}

func encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func applyOptions() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
}
