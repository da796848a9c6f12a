package attest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pluralsh/plural/crypto/signkey"
)

// BundleType is the media type of what a Signer makes.
const BundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// Signer makes sigstore bundles.
type Signer struct {
	options sign.BundleOptions
	// pair is the key for one signature: the same again where the signer has a key.
	pair func() (sign.Keypair, error)
}

// KeySigner signs with a private key in PEM, ECDSA on P-256 as `cosign generate-key-pair` makes it. Its password may be empty.
func KeySigner(key, password []byte) (*Signer, error) {
	opened, err := signkey.Open(key, password)
	if err != nil {
		return nil, err
	}
	public, err := opened.PublicKey()
	if err != nil {
		return nil, err
	}
	if k, ok := public.(*ecdsa.PublicKey); !ok || k.Curve != elliptic.P256() { // the one that signs a digest with every tool
		return nil, errors.New("the private key is of another kind than releases are signed with: want ECDSA on P-256")
	}
	pair := &keyPair{opened, public}
	return &Signer{pair: func() (sign.Keypair, error) { return pair, nil }}, nil
}

// Keyless says who vouches for a signer that has no key of its own.
type Keyless struct {
	// Token is the identity of a workflow, for the audience sigstore.
	Token string
	// Fulcio and Rekor are URLs: of who turns a token into a certificate, and of the log that has to have the signature. Timestamps
	// is the URL of an authority for timestamps, for where there is no log. One of the last two may be empty.
	Fulcio, Rekor, Timestamps string
}

// KeylessSigner signs with keys that live for one signature each.
func KeylessSigner(k Keyless) *Signer {
	s := &Signer{pair: func() (sign.Keypair, error) { return sign.NewEphemeralKeypair(nil) }}
	s.options.CertificateProvider = sign.NewFulcio(&sign.FulcioOptions{BaseURL: k.Fulcio, Retries: 3})
	s.options.CertificateProviderOptions = &sign.CertificateProviderOptions{IDToken: k.Token}
	if k.Rekor != "" {
		s.options.TransparencyLogs = []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: k.Rekor, Retries: 3})}
	}
	if k.Timestamps != "" {
		s.options.TimestampAuthorities = []*sign.TimestampAuthority{
			sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: k.Timestamps, Retries: 3}),
		}
	}
	return s
}

// Blob signs bytes, as `cosign sign-blob` does. What comes back is a bundle in JSON.
func (s *Signer) Blob(ctx context.Context, data []byte) ([]byte, error) {
	return s.bundle(ctx, &sign.PlainData{Data: data})
}

// Statement signs a statement of in-toto, as `cosign attest` does.
func (s *Signer) Statement(ctx context.Context, statement []byte) ([]byte, error) {
	return s.bundle(ctx, &sign.DSSEData{Data: statement, PayloadType: "application/vnd.in-toto+json"})
}

func (s *Signer) bundle(ctx context.Context, content sign.Content) ([]byte, error) {
	pair, err := s.pair()
	if err != nil {
		return nil, err
	}
	options := s.options
	options.Context = ctx
	made, err := sign.Bundle(content, pair, options)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return protojson.Marshal(made)
}

// keyPair is an ECDSA key on P-256 as sigstore's signer takes it.
type keyPair struct {
	signature.SignerVerifier
	public crypto.PublicKey
}

func (*keyPair) GetHashAlgorithm() protocommon.HashAlgorithm {
	return protocommon.HashAlgorithm_SHA2_256
}

func (*keyPair) GetSigningAlgorithm() protocommon.PublicKeyDetails {
	return protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256
}

// GetHint is the hash of the public key, by which cosign tells keys apart.
func (k *keyPair) GetHint() []byte {
	text, err := cryptoutils.MarshalPublicKeyToDER(k.public)
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(text)
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

func (*keyPair) GetKeyAlgorithm() string          { return "ECDSA" }
func (k *keyPair) GetPublicKey() crypto.PublicKey { return k.public }

func (k *keyPair) GetPublicKeyPem() (string, error) {
	text, err := cryptoutils.MarshalPublicKeyToPEM(k.public)
	return string(text), err
}

// SignData gives the signature, and the digest that was signed.
func (k *keyPair) SignData(_ context.Context, data []byte) (made, digest []byte, err error) {
	sum := sha256.Sum256(data)
	made, err = k.SignMessage(bytes.NewReader(data))
	return made, sum[:], err
}
