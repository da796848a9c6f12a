// Package join owns an agent's exchange of a join token for its registration.
//
// It refuses to know how the token came into the cluster, and what a registered agent does.
//
// Whoever has a cluster join applies a Secret with the token. [Registration] makes the agent's keys, writes them beside the
// token, and only then shows their public halves to the hub: an agent that is killed at any point goes on with the same keys,
// which the hub knows again. Then it writes the registration that every agent starts from, and clears away what it joined by.
package join

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/agent/link"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/crypto"
)

// SecretName is the Secret, in identity.Namespace, in which a cluster that is to join has its token.
const SecretName = "plural-join"

// bindingName is the RoleBinding by which an agent may join, and nothing else.
const bindingName = "plural-agent-join"

// Options are what joining needs.
type Options struct {
	// Client is for the agent's own cluster.
	Client    dynamic.Interface
	UserAgent string
	Now       func() time.Time
	Log       *slog.Logger
}

// Registration is who this agent is: what it was registered as or, where a token waits in its cluster, what it joins as. A
// cluster with neither is an *identity.Missing. It is to be asked again after an error.
func Registration(ctx context.Context, o Options) (identity.Registration, error) {
	now, err := identity.Read(ctx, o.Client)
	missing := new(identity.Missing)
	if err != nil && !errors.As(err, &missing) {
		return now, err
	}
	registered := err == nil
	invitation, ok, inviteErr := o.read(ctx)
	switch {
	case inviteErr != nil && registered:
		o.Log.Warn("the join token cannot be read; the registration before stays", "error", inviteErr)
		return now, nil
	case inviteErr != nil || !ok:
		return now, errors.Join(inviteErr, err)
	case registered && invitation.keys != nil && invitation.keys.Public() == now.Identity.Public():
		o.clear(ctx)
		return now, nil
	}
	joined, joinErr := o.join(ctx, invitation)
	if joinErr != nil && registered {
		o.Log.Warn("the cluster cannot join anew; the registration before stays", "cluster", now.Cluster, "error", joinErr)
		return now, nil
	}
	return joined, joinErr
}

// invitation is what the Secret holds.
type invitation struct {
	secret *unstructured.Unstructured
	registration
	token string
	// keys are nil until they are made.
	keys *crypto.AgentIdentity
}

type registration = identity.Registration

func secrets(o Options) dynamic.ResourceInterface {
	return o.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(identity.Namespace)
}

// The keys of the Secret: what it comes with, and what is added here.
const (
	keyCluster, keyToken, keyHubURL, keyHubCA, keyRepository = "cluster", "token", "hub-url", "hub-ca", "repository"

	keyAuth, keyAge = "pending-auth-key", "pending-age-key"
)

// read finds the invitation. An account that may not read it has joined before.
func (o Options) read(ctx context.Context) (*invitation, bool, error) {
	secret, err := secrets(o).Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read secret %s/%s: %w", identity.Namespace, SecretName, err)
	}
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	field := func(name string) string {
		raw, _ := base64.StdEncoding.DecodeString(data[name]) // what is not base64 is refused below, as empty
		return string(raw)
	}
	i := &invitation{secret: secret, token: field(keyToken)}
	i.Cluster, i.HubURL, i.HubCA, i.Repository = field(keyCluster), field(keyHubURL), []byte(field(keyHubCA)), field(keyRepository)
	if i.Cluster == "" || i.HubURL == "" || i.token == "" {
		return nil, false, fmt.Errorf("secret %s/%s lacks cluster, hub-url or token: run plural cluster register --print again",
			identity.Namespace, SecretName)
	}
	if field(keyAuth) == "" {
		return i, true, nil
	}
	if i.keys, err = crypto.ParseAgentIdentity(field(keyAuth), field(keyAge)); err != nil {
		return nil, false, fmt.Errorf("secret %s/%s: %w", identity.Namespace, SecretName, err)
	}
	return i, true, nil
}

func (o Options) join(ctx context.Context, i *invitation) (identity.Registration, error) {
	if i.keys == nil {
		if err := o.keep(ctx, i); err != nil {
			return identity.Registration{}, err
		}
	}
	signer := token.NewSigner(i.keys.Auth(), i.Cluster, i.HubURL, o.Now)
	// Bound to nothing: the hub answers all that is wrong with a request to join in one way.
	unbound := func([]byte) (string, error) { return signer.Token(nil) }
	hub, err := link.New(link.Options{URL: i.HubURL, CA: i.HubCA, Token: unbound, UserAgent: o.UserAgent})
	if err != nil {
		return identity.Registration{}, err
	}
	public := i.keys.Public()
	answer, err := hub.Join(ctx, api.JoinRequest{Cluster: i.Cluster, Token: i.token, Auth: public.Auth, Age: public.Age})
	if refused := new(link.Error); errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		return identity.Registration{}, &Refused{Cluster: i.Cluster, Err: err}
	}
	if err != nil {
		return identity.Registration{}, err
	}
	if answer.Cluster != i.Cluster {
		return identity.Registration{}, fmt.Errorf("join by the hub: it registered %q, and this is %q", answer.Cluster, i.Cluster)
	}
	joined := i.registration
	joined.Identity = i.keys
	if err := identity.Save(ctx, o.Client, joined); err != nil {
		return identity.Registration{}, err
	}
	o.Log.Info("this cluster has joined", "cluster", joined.Cluster, "hub", joined.HubURL)
	o.clear(ctx)
	return joined, nil
}

// Refused says that the hub knows of no cluster that waits for the token.
type Refused struct {
	Cluster string
	Err     error
}

// Error says what to do about it.
func (e *Refused) Error() string {
	return fmt.Sprintf("the hub does not take the join token of cluster %q: it was used, has expired, or is not known there yet; "+
		"for a new one: plural cluster register %s --print: %v", e.Cluster, e.Cluster, e.Err)
}

// Unwrap is what the hub said.
func (e *Refused) Unwrap() error { return e.Err }

// keep makes keys, and writes them beside the token before anybody hears of them. Of two agents that start at once one is
// told of a conflict, and goes on with the other's keys when it is asked again.
func (o Options) keep(ctx context.Context, i *invitation) (err error) {
	keys, err := crypto.NewAgentIdentity()
	if err != nil {
		return err
	}
	auth, age := keys.Private()
	secret := i.secret.DeepCopy() // with the version that was read
	for key, value := range map[string]string{keyAuth: auth, keyAge: age} {
		if err := unstructured.SetNestedField(secret.Object, base64.StdEncoding.EncodeToString([]byte(value)), "data", key); err != nil {
			return fmt.Errorf("secret %s/%s: its data is no mapping", identity.Namespace, SecretName)
		}
	}
	if _, err = secrets(o).Update(ctx, secret, metav1.UpdateOptions{FieldManager: "plural-join"}); err != nil {
		return fmt.Errorf("keep the keys in secret %s/%s: %w", identity.Namespace, SecretName, err)
	}
	i.keys = keys
	return nil
}

// clear takes away what was joined by. What stays is told, and does no harm: the token was used.
func (o Options) clear(ctx context.Context) {
	err := secrets(o).Delete(ctx, SecretName, metav1.DeleteOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		err = o.clearRights(ctx)
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		o.Log.Warn("what this cluster joined by stays behind", "error", err)
	}
}

// clearRights takes away the binding, and with it the right to take away anything. So the Role is made the binding's own before:
// Kubernetes collects it.
func (o Options) clearRights(ctx context.Context) error {
	of := func(resource string) dynamic.ResourceInterface {
		kind := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}
		return o.Client.Resource(kind).Namespace(identity.Namespace)
	}
	bindings := of("rolebindings")
	binding, err := bindings.Get(ctx, bindingName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	owned, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{
		{APIVersion: binding.GetAPIVersion(), Kind: binding.GetKind(), Name: binding.GetName(), UID: binding.GetUID()},
	}}})
	if err != nil {
		return err
	}
	// The Role is called as its binding is.
	_, err = of("roles").Patch(ctx, bindingName, types.MergePatchType, owned, metav1.PatchOptions{FieldManager: "plural-join"})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return bindings.Delete(ctx, bindingName, metav1.DeleteOptions{})
}
