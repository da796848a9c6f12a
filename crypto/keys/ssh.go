package keys

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"golang.org/x/crypto/ssh"
)

// The sizes of RSA keys that are taken, in bits: below, others can break them; above, they only cost time.
const (
	minRSA = 2048
	maxRSA = 16384
)

func parseSSH(line string) (Recipient, error) {
	key, comment, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return Recipient{}, errors.New("not a public key: want age1…, age1pq1…, age1PLUGIN1…, ssh-ed25519 … or ssh-rsa …")
	}
	if len(options) > 0 {
		return Recipient{}, errors.New("options before an SSH key mean nothing here: remove them")
	}
	r := Recipient{Text: sshText(key), Comment: comment, Kind: Kind(key.Type())}
	r.Recipient, err = sshRecipient(key)
	if err != nil {
		return Recipient{}, err
	}
	return r, nil
}

// sshText is a public key as in authorized_keys, without a comment.
func sshText(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func sshRecipient(key ssh.PublicKey) (age.Recipient, error) {
	switch key.Type() {
	case ssh.KeyAlgoED25519:
		return agessh.NewEd25519Recipient(key)
	case ssh.KeyAlgoRSA:
		if err := checkRSA(key); err != nil {
			return nil, err
		}
		return agessh.NewRSARecipient(key)
	}
	return nil, fmt.Errorf("%w: %.60q only signs; use ssh-ed25519, ssh-rsa, or an age key", ErrUnsuitable, key.Type())
}

func checkRSA(key ssh.PublicKey) error {
	holder, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return ErrUnsuitable
	}
	public, ok := holder.CryptoPublicKey().(*rsa.PublicKey)
	if !ok {
		return ErrUnsuitable
	}
	if bits := public.N.BitLen(); bits < minRSA || bits > maxRSA {
		return fmt.Errorf("%w: RSA of %d bits; want %d to %d", ErrUnsuitable, bits, minRSA, maxRSA)
	}
	return nil
}

// sshIdentity is a private SSH key that knows its public half's text, which age's own type keeps to itself.
type sshIdentity struct {
	age.Identity
	text string
}

func (i *sshIdentity) recipient() string { return i.text }

// String hides the key.
func (i *sshIdentity) String() string { return "[redacted]" }

// GoString hides the key.
func (i *sshIdentity) GoString() string { return "[redacted]" }

// parseSSHIdentity reads a private key as ssh-keygen writes it.
func parseSSHIdentity(name string, text []byte, ask Passphrase) (age.Identity, error) {
	private, err := ssh.ParseRawPrivateKey(text)
	var missing *ssh.PassphraseMissingError
	if errors.As(err, &missing) {
		return lockedSSH(name, text, missing.PublicKey, ask)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: not a private SSH key that is understood", name)
	}
	id, err := sshIdentityOf(private)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return id, nil
}

func sshIdentityOf(private any) (*sshIdentity, error) {
	if p, ok := private.(*ed25519.PrivateKey); ok {
		private = *p // which of the two comes depends on the file's format
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, ErrUnsuitable
	}
	public, err := ssh.NewPublicKey(signer.Public())
	if err != nil {
		return nil, ErrUnsuitable
	}
	if _, err := sshRecipient(public); err != nil {
		return nil, err
	}
	id := &sshIdentity{text: sshText(public)}
	switch key := private.(type) {
	case ed25519.PrivateKey:
		id.Identity, err = agessh.NewEd25519Identity(key)
	case *rsa.PrivateKey:
		id.Identity, err = agessh.NewRSAIdentity(key)
	default:
		return nil, ErrUnsuitable
	}
	return id, err
}

// lockedSSH is a private key under a passphrase, which is asked for once, when something is sealed to the key.
func lockedSSH(name string, text []byte, public ssh.PublicKey, ask Passphrase) (age.Identity, error) {
	if ask == nil {
		return nil, fmt.Errorf("%s: %w", name, ErrPassphrase)
	}
	if public == nil {
		return nil, fmt.Errorf("%s: the key is under a passphrase in an old format: convert it with ssh-keygen -p -f %s", name, name)
	}
	if _, err := sshRecipient(public); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: not a private SSH key that is understood", name)
	}
	id, err := agessh.NewEncryptedSSHIdentity(public, pem.EncodeToMemory(block), sync.OnceValues(func() ([]byte, error) {
		passphrase, err := ask("Passphrase of " + name)
		return []byte(passphrase), err
	}))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &sshIdentity{Identity: &oneByOne{Identity: id}, text: sshText(public)}, nil
}

// oneByOne lets one goroutine at a time use an identity that changes itself.
type oneByOne struct {
	mu sync.Mutex
	age.Identity
}

// Unwrap waits for its turn.
func (o *oneByOne) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Identity.Unwrap(stanzas)
}
