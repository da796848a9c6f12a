// Package crypto owns the keys of clusters' agents.
//
// It knows no files, no git and no cluster: callers bring bytes and say where they came from. Values that hold a
// private half print as "[redacted]".
package crypto

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"filippo.io/age"
)

const authPrefix = "ed25519:"

// AgentIdentity is the private half of an agent's keys: one to prove which cluster it speaks for, one to open what is
// sealed for that cluster.
type AgentIdentity struct {
	auth ed25519.PrivateKey
	age  *age.X25519Identity
}

// AgentPublic is what stands in the cluster's file in git.
type AgentPublic struct {
	// Auth is "ed25519:" and the 32 bytes of the key in standard base64.
	Auth string
	// Age is an age recipient.
	Age string
}

// NewAgentIdentity makes fresh keys.
func NewAgentIdentity() (*AgentIdentity, error) {
	_, auth, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("generate agent key: %w", err)
	}
	sealed, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fmt.Errorf("generate agent age identity: %w", err)
	}
	return &AgentIdentity{auth: auth, age: sealed}, nil
}

// ParseAgentIdentity reads what Private wrote.
func ParseAgentIdentity(auth, ageKey string) (*AgentIdentity, error) {
	seed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(auth))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.New("agent key: want 32 bytes in base64: register the cluster again")
	}
	identity, err := age.ParseX25519Identity(strings.TrimSpace(ageKey))
	if err != nil {
		return nil, errors.New("agent age identity is malformed: register the cluster again")
	}
	return &AgentIdentity{auth: ed25519.NewKeyFromSeed(seed), age: identity}, nil
}

// Auth is the key that signs the agent's tokens.
func (a *AgentIdentity) Auth() ed25519.PrivateKey { return a.auth }

// Private returns the two private halves as text, for a Secret in the agent's own cluster and nothing else.
func (a *AgentIdentity) Private() (auth, ageKey string) {
	return base64.StdEncoding.EncodeToString(a.auth.Seed()), a.age.String()
}

// Opener opens what is sealed for the agent's cluster. Unlike the AgentIdentity itself, it prints its key.
func (a *AgentIdentity) Opener() age.Identity { return a.age }

// Public returns what may be known by everybody.
func (a *AgentIdentity) Public() AgentPublic {
	public, _ := a.auth.Public().(ed25519.PublicKey)
	return AgentPublic{
		Auth: authPrefix + base64.StdEncoding.EncodeToString(public),
		Age:  a.age.Recipient().String(),
	}
}

// String hides the keys.
func (a *AgentIdentity) String() string { return "[redacted]" }

// GoString hides the keys.
func (a *AgentIdentity) GoString() string { return "[redacted]" }

// LogValue hides the keys.
func (a *AgentIdentity) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalJSON hides the keys.
func (a *AgentIdentity) MarshalJSON() ([]byte, error) { return []byte(`"[redacted]"`), nil }

// ParseAuthKey reads the Auth field of a cluster's file.
func ParseAuthKey(s string) (ed25519.PublicKey, error) {
	encoded, ok := strings.CutPrefix(s, authPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("agent key %q: want %q and 32 bytes in base64", s, authPrefix)
	}
	return key, nil
}
