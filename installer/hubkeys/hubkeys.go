// Package hubkeys owns the Secret of a hub in a cluster.
//
// It refuses to know charts, terminals and how a hub comes to run. It commits nothing: that the hub may open what is sealed for
// it is a plan, which the caller shows and carries out.
//
// Prepare reads the Secret plural-system/plural-hub, keeps what is there, makes what is missing, and touches nothing. Join
// makes the public half of the hub's identity a member of the fleet. Install writes the Secret, and Restart has a hub that
// runs read it. The hub's pods mount it; its keys are the names below.
package hubkeys

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Where a hub in a cluster finds what it is told.
const (
	Namespace  = identity.Namespace
	SecretName = "plural-hub"
)

// The keys of the Secret. Credentials have a prefix before the name that httpclient.ParseCredentials knows them by.
const (
	keyToken      = "token"
	keyIdentity   = "identity"
	keyHookSecret = "hook-secret"
	keySigning    = "signing-key"
	keySigner     = "signing-key.pub" // for people: they verify the hub's commits with it
	prefixRepo    = "repo."
	prefixEdit    = "edit."
	keyTLSCert    = "tls.crt"
	keyTLSKey     = "tls.key"
	keyCACert     = "replica-ca.crt"
	keyCAKey      = "replica-ca.key"
	keyCert       = "replica.crt"
	keyKey        = "replica.key"
)

// Part is one of the things that Prepare makes up.
type Part string

// What can be made anew.
const (
	// Token is what opens the hub to its operators. It expires, and is made anew a while before.
	Token Part = "token"
	// Identity is what opens the files that are sealed for the hub.
	Identity Part = "identity"
	// HookSecret is what git hosts sign their webhooks with.
	HookSecret Part = "hook-secret"
	// SigningKey is what the hub signs its commits with, where it believes signed ones alone.
	SigningKey Part = "signing-key"
	// Replicas are the certificates by which replicas know each other, with their authority.
	Replicas Part = "replicas"
)

// Parts are all of them, in the order in which people read them.
func Parts() []Part { return []Part{Token, Identity, HookSecret, SigningKey, Replicas} }

// Request is what only people know, and what they want to have anew.
type Request struct {
	// Repo and Edit are credentials by the names that httpclient.ParseCredentials knows: to read the installation repo, and to
	// push to it. Nil leaves those that are there; an empty map takes them away.
	Repo, Edit map[string]string
	// TLSCert and TLSKey are PEM, for a hub that ends TLS itself. Empty leaves those that are there.
	TLSCert, TLSKey []byte
	// HookSecret is one that a git host has already. Empty keeps what is there, or makes one.
	HookSecret string
	// Rotate has these made anew.
	Rotate []Part
	// Now tells the time, for certificates and the token. Nil means time.Now.
	Now func() time.Time
}

// Keys are what a hub is to be told. They print as "[redacted]".
type Keys struct {
	data map[string][]byte
	old  *unstructured.Unstructured // nil: there is no Secret
	made []Part
	// otherAuthority says that no replica that reads these keys gets on with one that read the former ones.
	otherAuthority bool
}

// String hides what they are.
func (k *Keys) String() string { return "[redacted]" }

// GoString is String.
func (k *Keys) GoString() string { return k.String() }

// Token is what opens the hub to its operators.
func (k *Keys) Token() string { return strings.TrimSpace(string(k.data[keyToken])) }

// HookSecret is what git hosts sign their webhooks with.
func (k *Keys) HookSecret() string { return strings.TrimSpace(string(k.data[keyHookSecret])) }

// Recipient is the public half of the hub's identity.
func (k *Keys) Recipient() (string, error) { return recipient(k.data[keyIdentity]) }

// Made are the parts that were not there before, or were to be made anew.
func (k *Keys) Made() []Part { return k.made }

// HasRepo says whether there are credentials to fetch.
func (k *Keys) HasRepo() bool { return len(credentials(k.data, prefixRepo)) > 0 }

// Changed says whether Install has anything to write.
func (k *Keys) Changed() bool {
	return k.old == nil || !maps.EqualFunc(k.data, secretData(k.old), bytes.Equal)
}

func secrets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
}

// Who writes the Secret, for the API server: another one with another authority of the replicas, so that a later run knows when that
// was.
const (
	fieldManager     = "plural-hubkeys"
	authorityManager = "plural-hubkeys-authority"
)

// Prepare reads what the cluster's hub is told, and adds to it. It changes nothing.
func Prepare(ctx context.Context, kube dynamic.Interface, r Request) (*Keys, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	k := &Keys{data: map[string][]byte{}}
	old, err := kube.Resource(secrets()).Namespace(Namespace).Get(ctx, SecretName, metav1.GetOptions{})
	switch {
	case err == nil:
		k.old, k.data = old, secretData(old)
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read secret %s/%s: %w", Namespace, SecretName, err)
	}
	k.take(r)
	for _, part := range Parts() {
		if err := k.provide(part, slices.Contains(r.Rotate, part), r); err != nil {
			return nil, fmt.Errorf("make the hub's %s: %w", part, err)
		}
	}
	return k, nil
}

func (r *Request) check() error {
	for what, given := range map[string]map[string]string{"read the repo": r.Repo, "push to the repo": r.Edit} {
		if _, err := httpclient.ParseCredentials(given); err != nil {
			return fmt.Errorf("credentials to %s: %w", what, err)
		}
	}
	if (len(r.TLSCert) == 0) != (len(r.TLSKey) == 0) {
		return errors.New("a certificate and its key belong together")
	}
	if len(r.TLSCert) > 0 {
		if err := checkPair(r.TLSCert, r.TLSKey); err != nil {
			return fmt.Errorf("the hub's certificate: %w", err)
		}
	}
	for _, part := range r.Rotate {
		if !slices.Contains(Parts(), part) {
			return fmt.Errorf("nothing is called %q here: what can be made anew is %v", part, Parts())
		}
	}
	return nil
}

// take sets what the request holds.
func (k *Keys) take(r Request) {
	for prefix, given := range map[string]map[string]string{prefixRepo: r.Repo, prefixEdit: r.Edit} {
		if given == nil {
			continue
		}
		maps.DeleteFunc(k.data, func(key string, _ []byte) bool { return strings.HasPrefix(key, prefix) })
		for name, value := range given {
			k.data[prefix+strings.TrimPrefix(name, ".")] = []byte(value)
		}
	}
	if len(r.TLSCert) > 0 {
		k.data[keyTLSCert], k.data[keyTLSKey] = r.TLSCert, r.TLSKey
	}
	if r.HookSecret != "" {
		k.data[keyHookSecret] = []byte(r.HookSecret)
	}
}

// provide makes a part that is not there, or is to be made anew.
func (k *Keys) provide(part Part, anew bool, r Request) (err error) {
	made := true
	switch part {
	case Token: // one of an earlier release says of no end, and so is due
		now := time.Now
		if r.Now != nil {
			now = r.Now
		}
		if made = anew || fleet.OperatorDue(k.Token(), now()); made {
			k.data[keyToken] = []byte(fleet.NewOperatorToken(now().Add(fleet.OperatorLifetime)))
		}
	case HookSecret:
		if made = r.HookSecret == "" && (anew || k.HookSecret() == ""); made {
			k.data[keyHookSecret] = random()
		}
	case Identity:
		_, bad := k.Recipient()
		if made = anew || bad != nil && len(k.data[keyIdentity]) == 0; made {
			return k.note(part, k.newIdentity())
		}
		err = bad // somebody wrote another thing there: making a new one would lock the hub out of what is sealed for it
	case SigningKey:
		if made = anew || len(k.data[keySigning]) == 0; made {
			err = k.newSigningKey()
		}
		if err == nil {
			err = k.publish()
		}
	case Replicas:
		made, err = k.certify(anew, r.Now)
	}
	if !made || err != nil {
		return err
	}
	return k.note(part, nil)
}

func (k *Keys) note(part Part, err error) error {
	k.made = append(k.made, part)
	return err
}

func random() []byte { return []byte(rand.Text() + rand.Text()) }

func (k *Keys) newIdentity() error {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	k.data[keyIdentity] = []byte(id.String() + "\n")
	return nil
}

func (k *Keys) newSigningKey() error {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, SecretName)
	if err != nil {
		return err
	}
	k.data[keySigning] = pem.EncodeToMemory(block)
	return nil
}

// publish puts the public half of the signing key beside it.
func (k *Keys) publish() error {
	signer, err := verify.ParseSigner(k.data[keySigning])
	if err != nil {
		return fmt.Errorf("secret %s/%s, %q: %w", Namespace, SecretName, keySigning, err)
	}
	k.data[keySigner] = signer.Public()
	return nil
}

// recipient is the public half of an identity file with one native identity.
func recipient(text []byte) (string, error) {
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil || len(ids) != 1 {
		return "", fmt.Errorf("secret %s/%s holds no age identity under %q", Namespace, SecretName, keyIdentity)
	}
	switch id := ids[0].(type) {
	case *age.X25519Identity:
		return id.Recipient().String(), nil
	case *age.HybridIdentity:
		return id.Recipient().String(), nil
	}
	return "", fmt.Errorf("secret %s/%s holds an identity of an unknown kind under %q", Namespace, SecretName, keyIdentity)
}

// ErrRace means that somebody else wrote the Secret meanwhile: prepare again.
var ErrRace = errors.New("somebody else changed it at the same time: run the command again")

// Install writes the Secret, and its namespace when it is missing.
func (k *Keys) Install(ctx context.Context, kube dynamic.Interface) error {
	if !k.Changed() {
		return nil
	}
	if err := identity.MakeNamespace(ctx, kube); err != nil {
		return err
	}
	secret := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "Opaque"}}
	if k.old != nil {
		secret = k.old.DeepCopy()
	}
	secret.SetNamespace(Namespace)
	secret.SetName(SecretName)
	data := make(map[string]any, len(k.data))
	for key, value := range k.data {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	secret.Object["data"] = data
	client := kube.Resource(secrets()).Namespace(Namespace)
	var err error
	if k.old == nil {
		secret, err = client.Create(ctx, secret, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		manager := fieldManager
		if k.otherAuthority {
			manager = authorityManager
		}
		secret, err = client.Update(ctx, secret, metav1.UpdateOptions{FieldManager: manager})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = ErrRace
	}
	if err != nil {
		return fmt.Errorf("write secret %s/%s: %w", Namespace, SecretName, err)
	}
	k.old = secret
	return nil
}

// secretData is what a Secret holds. What is not base64 cannot come from an API server.
func secretData(secret *unstructured.Unstructured) map[string][]byte {
	fields, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	data := make(map[string][]byte, len(fields))
	for key, text := range fields {
		data[key], _ = base64.StdEncoding.DecodeString(text)
	}
	return data
}

// credentials are the names of those with the prefix.
func credentials(data map[string][]byte, prefix string) []string {
	var names []string
	for key := range data {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			names = append(names, name)
		}
	}
	return names
}
