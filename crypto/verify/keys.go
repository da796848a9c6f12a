package verify

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// The bounds on what is read as keys.
const (
	maxKeyFile = 1 << 20
	maxKeys    = 1000
)

// Keys are the public keys whose signatures count. They are safe for concurrent use.
type Keys struct {
	// verifying guards pgp, in which the library notes which self-signatures it has found good.
	verifying sync.Mutex
	pgp       openpgp.EntityList
	ssh       []signer
	public    []publicKey
	// now is when OpenPGP keys have to be valid.
	now func() time.Time
}

// ParseKeys reads files of public keys: OpenPGP, armored or binary; SSH, as lines of authorized_keys or
// allowed_signers; PEM, as `cosign generate-key-pair` and openssl write them. Errors say which file, counted from 1,
// and repeat no key.
func ParseKeys(files ...[]byte) (*Keys, error) {
	k := &Keys{now: time.Now}
	for i, file := range files {
		if err := k.add(file); err != nil {
			return nil, fmt.Errorf("key file %d of %d: %w", i+1, len(files), err)
		}
		if len(k.pgp)+len(k.ssh)+len(k.public) > maxKeys {
			return nil, fmt.Errorf("more than %d keys", maxKeys)
		}
	}
	if len(k.pgp)+len(k.ssh)+len(k.public) == 0 {
		return nil, errors.New("no keys: nothing could ever be verified")
	}
	return k, nil
}

func (k *Keys) add(file []byte) error {
	text := bytes.TrimSpace(file)
	switch {
	case len(file) > maxKeyFile:
		return fmt.Errorf("larger than %d bytes", maxKeyFile)
	case len(text) == 0:
		return errors.New("empty")
	case bytes.Contains(text, []byte("PRIVATE KEY")):
		return errors.New("holds a private key, which must stay with its owner: give the public one")
	case bytes.Contains(text, []byte(beginArmoredKey)):
		return k.addArmored(text)
	case bytes.HasPrefix(text, []byte("-----BEGIN")):
		return k.addPEM(text)
	case file[0]&0x80 != 0: // no text begins so, every OpenPGP packet does
		return k.addBinary(file)
	}
	return k.addLines(text)
}

// Git says who among the keys signed a commit or tag. Without such a signature the error wraps one of this package's
// verdicts.
func (k *Keys) Git(o Object) (by string, err error) {
	signature := bytes.TrimSpace(o.Signature)
	switch {
	case len(signature) == 0:
		return "", fmt.Errorf("the %s is %w", o.Kind, ErrUnsigned)
	case bytes.HasPrefix(signature, []byte(beginPGP)):
		by, err = k.gitPGP(o.Payload, signature)
	case bytes.HasPrefix(signature, []byte(beginSSH)):
		by, err = k.gitSSH(o, signature)
	case bytes.HasPrefix(signature, []byte(beginX509)):
		err = fmt.Errorf("%w: X.509 (gpgsm) is not supported; want OpenPGP or SSH", ErrMalformed)
	default:
		err = fmt.Errorf("%w: neither OpenPGP nor SSH", ErrMalformed)
	}
	if err != nil {
		return "", fmt.Errorf("the %s's signature: %w", o.Kind, err)
	}
	return by, nil
}
