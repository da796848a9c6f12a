package fleet

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/pluralsh/plural/internal/yamlstrict"
)

// Join lets one agent register itself as a cluster, once. It is taken out of the file when it is used.
type Join struct {
	// Hash is "sha256:" and the hash of the join token.
	Hash string `yaml:"hash" json:"hash"`
	// Expires is when the token stops being good, in RFC 3339.
	Expires string `yaml:"expires" json:"expires"`
	// HubCA holds PEM certificates that the agent is to trust for the hub. Empty means the system's.
	HubCA string `yaml:"hubCA,omitempty" json:"hubCA,omitempty"`
}

// Until is when the token stops being good.
func (j *Join) Until() time.Time {
	at, err := time.Parse(time.RFC3339, j.Expires)
	if err != nil { // a loaded one can be read
		return time.Time{}
	}
	return at
}

// JoinPrefix begins every join token.
const JoinPrefix = TokenPrefix + "join_"

// JoinLifetime is how long a join token is good at most.
const JoinLifetime = 15 * time.Minute

// NewJoinToken makes a join token of 256 random bits.
func NewJoinToken() string {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	return JoinPrefix + base64.RawURLEncoding.EncodeToString(secret)
}

// maxHubCA bounds the certificates of one hub, in bytes.
const maxHubCA = 16 << 10

func (d *document) checkJoin(j *Join) {
	if j == nil {
		return
	}
	if !isTokenHash(j.Hash) {
		d.Fault("spec.join.hash", "plural cluster register NAME --print", "not the hash of a join token: want sha256: and 64 hexadecimal digits")
	}
	if _, err := time.Parse(time.RFC3339, j.Expires); err != nil {
		d.Fault("spec.join.expires", "write it as 2027-01-31T00:00:00Z", "bad time %s", yamlstrict.Quote(j.Expires))
	}
	if len(j.HubCA) > maxHubCA {
		d.Fault("spec.join.hubCA", "give the one certificate that the hub's is signed with", "certificates of %d bytes: at most %d", len(j.HubCA), maxHubCA)
	}
}
