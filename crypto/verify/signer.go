package verify

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// Signer signs git's objects as ssh-keygen does for git. It is safe for concurrent use.
type Signer struct{ key ssh.Signer }

// ParseSigner reads a private SSH key without a passphrase, Ed25519, as ssh-keygen makes it by default. Errors repeat
// nothing of the key.
func ParseSigner(file []byte) (*Signer, error) {
	if len(file) > maxKeyFile {
		return nil, fmt.Errorf("larger than %d bytes", maxKeyFile)
	}
	raw, err := ssh.ParseRawPrivateKey(file)
	locked := new(ssh.PassphraseMissingError)
	switch {
	case errors.As(err, &locked):
		return nil, errors.New("the key has a passphrase, which nobody is there to type: make one without")
	case err != nil:
		return nil, errors.New("no private SSH key that can be read")
	}
	private, ok := raw.(*ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a %T: want Ed25519", raw)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, errors.New("no private SSH key that can be used")
	}
	return &Signer{key}, nil
}

// Public is the key as a line of authorized_keys.
func (s *Signer) Public() []byte { return ssh.MarshalAuthorizedKey(s.key.PublicKey()) }

// Git is the armored signature over the payload of a commit or tag.
func (s *Signer) Git(payload []byte) ([]byte, error) {
	const hash = "sha512"
	digest := sha512.Sum512(payload)
	what := ssh.Marshal(sshSigned{Namespace: gitNamespace, Hash: hash, Digest: digest[:]})
	made, err := s.key.Sign(rand.Reader, append([]byte(sshMagic), what...))
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	body := ssh.Marshal(sshSignature{
		Version: 1, PublicKey: s.key.PublicKey().Marshal(), Namespace: gitNamespace, Hash: hash, Signature: ssh.Marshal(made),
	})
	return pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: append([]byte(sshMagic), body...)}), nil
}
