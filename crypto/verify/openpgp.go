package verify

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

const (
	beginArmoredKey = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
	endPGP          = "-----END PGP SIGNATURE-----"
	maxSignature    = 64 << 10
	minRSA          = 2048
)

// addArmored reads one or more armored blocks, with whatever people wrote between them.
func (k *Keys) addArmored(text []byte) error {
	for {
		at := bytes.Index(text, []byte(beginArmoredKey))
		if at < 0 {
			return nil
		}
		text = text[at:]
		next := bytes.Index(text[1:], []byte(beginArmoredKey)) + 1
		if next == 0 {
			next = len(text)
		}
		block, err := armor.Decode(bytes.NewReader(text[:next]))
		if err != nil {
			return errors.New("the armored OpenPGP key is damaged: is it complete?")
		}
		binary, err := io.ReadAll(block.Body)
		if err != nil {
			return errors.New("the armored OpenPGP key is damaged: is it complete?")
		}
		if err := k.addBinary(binary); err != nil {
			return err
		}
		text = text[next:]
	}
}

func (k *Keys) addBinary(file []byte) error {
	list, err := openpgp.ReadKeyRing(bytes.NewReader(file))
	if err != nil || len(list) == 0 {
		return errors.New("not an OpenPGP public key: want the output of `gpg --export --armor KEY`")
	}
	for _, entity := range list {
		if entity.PrivateKey != nil {
			return errors.New("holds a private key, which must stay with its owner: give the public one")
		}
	}
	k.pgp = append(k.pgp, list...)
	return nil
}

// pgpConfig is what counts as strong enough, on top of the library's own list.
func (k *Keys) pgpConfig() *packet.Config { return &packet.Config{MinRSABits: minRSA, Time: k.now} }

// gitPGP verifies an armored signature with nothing before and nothing behind it.
func (k *Keys) gitPGP(payload, armored []byte) (string, error) {
	if !bytes.HasSuffix(armored, []byte(endPGP)) || bytes.Count(armored, []byte("-----BEGIN ")) != 1 ||
		len(armored) > maxSignature {
		return "", fmt.Errorf("%w: want one armored OpenPGP signature", ErrMalformed)
	}
	block, err := armor.Decode(bytes.NewReader(armored))
	if err != nil {
		return "", fmt.Errorf("%w: the OpenPGP armor is damaged", ErrMalformed)
	}
	binary, err := io.ReadAll(block.Body)
	if err != nil {
		return "", fmt.Errorf("%w: the OpenPGP armor is damaged", ErrMalformed)
	}
	return k.verifyPGP(payload, binary)
}

// verifyPGP wants exactly one signature, as git does: of several, one program would look at the first and another at
// any.
func (k *Keys) verifyPGP(payload, binary []byte) (string, error) {
	signature, err := oneSignature(binary)
	if err != nil {
		return "", err
	}
	if slices.Contains([]crypto.Hash{crypto.MD5, crypto.SHA1, crypto.RIPEMD160}, signature.Hash) {
		return "", fmt.Errorf("%w: it is over a %s digest; sign with SHA-256 or better", ErrWeak, signature.Hash)
	}
	entities := k.pgp.EntitiesById(*signature.IssuerKeyId)
	if len(entities) == 0 {
		return "", fmt.Errorf("%w: OpenPGP key %s", ErrUnknownKey, issuer(signature))
	}
	k.verifying.Lock()
	defer k.verifying.Unlock()
	// The same key may have been given twice, once as it was before it was revoked or prolonged.
	var good *openpgp.Entity
	for _, entity := range entities {
		verdict := k.verifyWith(entity, payload, signature)
		switch {
		case errors.Is(verdict, ErrRevoked):
			return "", fmt.Errorf("%w: OpenPGP key %s", verdict, issuer(signature))
		case verdict == nil:
			good = entity
		default:
			err = fmt.Errorf("%w: OpenPGP key %s", verdict, issuer(signature))
		}
	}
	if good == nil {
		return "", err
	}
	return k.nameOf(good), nil
}

func oneSignature(binary []byte) (*packet.Signature, error) {
	packets := packet.NewReader(bytes.NewReader(binary))
	first, err := packets.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: no OpenPGP signature that can be read", ErrMalformed)
	}
	signature, ok := first.(*packet.Signature)
	if !ok || signature.IssuerKeyId == nil {
		return nil, fmt.Errorf("%w: not an OpenPGP signature that names its key", ErrMalformed)
	}
	if _, err := packets.Next(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something stands behind the first OpenPGP signature", ErrMalformed)
	}
	return signature, nil
}

func issuer(signature *packet.Signature) string {
	if len(signature.IssuerFingerprint) > 0 {
		return fmt.Sprintf("%X", signature.IssuerFingerprint)
	}
	return fmt.Sprintf("%016X", *signature.IssuerKeyId)
}

// verifyWith judges the key as it is now, as gpg does: what its owner says today of when it counts replaces what was
// said before, and a signature's own time is no more than what its maker claims.
func (k *Keys) verifyWith(entity *openpgp.Entity, payload []byte, signature *packet.Signature) error {
	now, id := k.now(), *signature.IssuerKeyId
	if err := k.validNow(entity, id, now); err != nil {
		return err
	}
	key, ok := entity.SigningKeyById(now, id, k.pgpConfig())
	switch {
	case !ok:
		return fmt.Errorf("the key is %w, or not for signing", ErrWeak)
	case signature.SigExpired(now), signature.CreationTime.Before(key.PublicKey.CreationTime):
		return fmt.Errorf("the signature is %w", ErrExpired)
	case slices.ContainsFunc(signature.Notations, func(n *packet.Notation) bool { return n.IsCritical }):
		return fmt.Errorf("%w: it makes a condition that is not known here", ErrMalformed)
	}
	digest, err := signature.PrepareVerify()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	switch signature.SigType {
	case packet.SigTypeBinary:
		digest.Write(payload)
	case packet.SigTypeText:
		openpgp.NewCanonicalTextHash(digest).Write(payload)
	default:
		return fmt.Errorf("%w: it is not one over a document", ErrMalformed)
	}
	if err := key.PublicKey.VerifySignature(digest, signature); err != nil {
		return errChanged
	}
	return nil
}

// validNow says of the key, and of the subkey that signed, whether they were revoked or have expired.
func (k *Keys) validNow(entity *openpgp.Entity, id uint64, now time.Time) error {
	_, err := entity.VerifyPrimaryKey(now, k.pgpConfig())
	for i := range entity.Subkeys {
		if err == nil && entity.Subkeys[i].PublicKey.KeyId == id {
			_, err = entity.Subkeys[i].Verify(now, k.pgpConfig())
		}
	}
	switch {
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return ErrRevoked
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return fmt.Errorf("the key is %w: it has expired", ErrExpired)
	case err != nil:
		return fmt.Errorf("the key is %w: its owner has confirmed nothing of it that counts now", ErrExpired)
	}
	return nil
}

// nameOf is a key's user id, as its owner wrote it, with the fingerprint that tells it from others of that name.
func (k *Keys) nameOf(entity *openpgp.Entity) string {
	name := "a key without a name"
	if _, identity := entity.PrimaryIdentity(k.now(), k.pgpConfig()); identity != nil {
		name = printable(identity.Name)
	}
	return fmt.Sprintf("%s (OpenPGP %X)", name, entity.PrimaryKey.Fingerprint)
}
