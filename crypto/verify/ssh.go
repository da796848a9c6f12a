package verify

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"
)

// gitNamespace is what git has ssh-keygen sign its objects for.
const gitNamespace = "git"

// sshMagic begins a signature as well as what is signed, so that neither can pass for anything else of SSH's.
const sshMagic = "SSHSIG"

// sshSignature is the body of an armored signature, as openssh-portable's PROTOCOL.sshsig lays it down.
type sshSignature struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  []byte
	Hash      string
	Signature []byte
}

// sshSigned is what the key really signs.
type sshSigned struct {
	Namespace string
	Reserved  []byte
	Hash      string
	Digest    []byte
}

// gitSSH counts the key's times by when the object says that it was made, as git does: a key that was replaced keeps
// what it signed before. One that was stolen is to be taken out of the file.
func (k *Keys) gitSSH(o Object, armored []byte) (string, error) {
	s, key, err := parseSSHSignature(armored)
	if err != nil {
		return "", err
	}
	if s.Namespace != gitNamespace {
		return "", fmt.Errorf("%w: namespace %.40q instead of %q", ErrNamespace, s.Namespace, gitNamespace)
	}
	at, ok := o.made()
	if !ok {
		at = k.now()
	}
	by, err := k.allowed(key, at)
	if err != nil {
		return "", err
	}
	return by, s.verify(key, o.Payload)
}

// allowed finds the key's line, or says why none of its lines counts.
func (k *Keys) allowed(key ssh.PublicKey, at time.Time) (by string, err error) {
	fingerprint := ssh.FingerprintSHA256(key)
	err = fmt.Errorf("%w: SSH key %s", ErrUnknownKey, fingerprint)
	for i := range k.ssh {
		if !bytes.Equal(k.ssh[i].key.Marshal(), key.Marshal()) {
			continue
		}
		if err = k.ssh[i].allows(gitNamespace, at); err == nil {
			return fmt.Sprintf("%s (SSH %s)", k.ssh[i].name, fingerprint), nil
		}
	}
	return "", err
}

func parseSSHSignature(armored []byte) (*sshSignature, ssh.PublicKey, error) {
	if len(armored) > maxSignature {
		return nil, nil, fmt.Errorf("%w: larger than %d bytes", ErrMalformed, maxSignature)
	}
	block, rest := pem.Decode(armored)
	if block == nil || block.Type != "SSH SIGNATURE" || len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, nil, fmt.Errorf("%w: want one armored SSH signature", ErrMalformed)
	}
	body, ok := bytes.CutPrefix(block.Bytes, []byte(sshMagic))
	var s sshSignature
	if err := ssh.Unmarshal(body, &s); !ok || err != nil || s.Version != 1 {
		return nil, nil, fmt.Errorf("%w: not an SSH signature of version 1", ErrMalformed)
	}
	key, err := ssh.ParsePublicKey(s.PublicKey)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: its SSH key cannot be read", ErrMalformed)
	}
	if _, ok := key.(*ssh.Certificate); ok {
		return nil, nil, fmt.Errorf("%w: made with an SSH certificate, which is not supported", ErrMalformed)
	}
	return &s, key, strongSSH(key)
}

func (s *sshSignature) verify(key ssh.PublicKey, payload []byte) error {
	var digest []byte
	switch s.Hash {
	case "sha256":
		sum := sha256.Sum256(payload)
		digest = sum[:]
	case "sha512":
		sum := sha512.Sum512(payload)
		digest = sum[:]
	default:
		return fmt.Errorf("%w: it is over a %.20q digest; want sha256 or sha512", ErrWeak, s.Hash)
	}
	var signature ssh.Signature
	if err := ssh.Unmarshal(s.Signature, &signature); err != nil {
		return fmt.Errorf("%w: the SSH signature cannot be read", ErrMalformed)
	}
	if signature.Format == ssh.KeyAlgoRSA { // which stands for RSA over SHA-1
		return fmt.Errorf("%w: RSA over SHA-1; want rsa-sha2-512", ErrWeak)
	}
	signed := ssh.Marshal(sshSigned{Namespace: s.Namespace, Reserved: s.Reserved, Hash: s.Hash, Digest: digest})
	if err := key.Verify(append([]byte(sshMagic), signed...), &signature); err != nil {
		return errChanged
	}
	return nil
}
