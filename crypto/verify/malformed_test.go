package verify_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/crypto/verify"
)

// sshBody is the body of an armored signature.
type sshBody struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  []byte
	Hash      string
	Signature []byte
}

func TestSSHSignaturesOfOtherShapesAreRefused(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := must(ssh.NewSignerFromKey(private))(t)
	keys := must(verify.ParseKeys(ssh.MarshalAuthorizedKey(key.PublicKey())))(t)
	payload := []byte("tree x\n\nmessage\n")
	cert := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.UserCert, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, key); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body  func(*sshBody)
		block func(*pem.Block)
		text  func([]byte) []byte
		want  error
	}{
		"none":                            {},
		"of a later version":              {body: func(b *sshBody) { b.Version = 2 }, want: verify.ErrMalformed},
		"for another purpose":             {body: func(b *sshBody) { b.Namespace = "file" }, want: verify.ErrNamespace},
		"over another digest":             {body: func(b *sshBody) { b.Hash = "sha1" }, want: verify.ErrWeak},
		"over the digest of another name": {body: func(b *sshBody) { b.Hash = "sha256" }, want: verify.ErrBad},
		"with something reserved":         {body: func(b *sshBody) { b.Reserved = []byte("x") }, want: verify.ErrBad},
		"of a key that is none":           {body: func(b *sshBody) { b.PublicKey = []byte("x") }, want: verify.ErrMalformed},
		"of a certificate":                {body: func(b *sshBody) { b.PublicKey = cert.Marshal() }, want: verify.ErrMalformed},
		"that is none inside":             {body: func(b *sshBody) { b.Signature = []byte("x") }, want: verify.ErrMalformed},
		"over SHA-1": {
			body: func(b *sshBody) { b.Signature = ssh.Marshal(&ssh.Signature{Format: ssh.KeyAlgoRSA, Blob: []byte("x")}) }, want: verify.ErrWeak,
		},
		"without the magic": {block: func(b *pem.Block) { b.Bytes = b.Bytes[len("SSHSIG"):] }, want: verify.ErrMalformed},
		"with headers":      {block: func(b *pem.Block) { b.Headers = map[string]string{"A": "b"} }, want: verify.ErrMalformed},
		"with bytes behind": {block: func(b *pem.Block) { b.Bytes = append(b.Bytes, 0) }, want: verify.ErrMalformed},
		"with text behind":  {text: func(text []byte) []byte { return append(text, "x"...) }, want: verify.ErrMalformed},
		"twice":             {text: func(text []byte) []byte { return append(bytes.Clone(text), text...) }, want: verify.ErrMalformed},
		"without its end":   {text: func(text []byte) []byte { return text[:len(text)/2] }, want: verify.ErrMalformed},
	} {
		digest := sha512.Sum512(payload)
		what := ssh.Marshal(struct {
			Namespace string
			Reserved  []byte
			Hash      string
			Digest    []byte
		}{"git", nil, "sha512", digest[:]})
		made := must(key.Sign(rand.Reader, append([]byte("SSHSIG"), what...)))(t)
		body := sshBody{Version: 1, PublicKey: key.PublicKey().Marshal(), Namespace: "git", Hash: "sha512", Signature: ssh.Marshal(made)}
		if c.body != nil {
			c.body(&body)
		}
		block := &pem.Block{Type: "SSH SIGNATURE", Bytes: append([]byte("SSHSIG"), ssh.Marshal(body)...)}
		if c.block != nil {
			c.block(block)
		}
		text := pem.EncodeToMemory(block)
		if c.text != nil {
			text = c.text(text)
		}
		by, err := keys.Git(verify.Object{Kind: "commit", Payload: payload, Signature: text})
		if !errors.Is(err, c.want) || c.want != nil && by != "" {
			t.Errorf("%s: by %q, %v; want %v", name, by, err, c.want)
		}
	}
	long := verify.Object{
		Kind: "commit", Payload: payload,
		Signature: []byte("-----BEGIN SSH SIGNATURE-----\n" + strings.Repeat("AAAA", 32<<10) + "\n-----END SSH SIGNATURE-----"),
	}
	if _, err := keys.Git(long); !errors.Is(err, verify.ErrMalformed) || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a large one: %v", err)
	}
}

func TestOpenPGPSignaturesOfOtherShapesAreRefused(t *testing.T) {
	t.Parallel()
	entity, keys := pgpKeys(t, "ada")
	payload := []byte("tree x\n\nmessage\n")
	sign := func(armored bool) []byte {
		var out bytes.Buffer
		detach := openpgp.DetachSign
		if armored {
			detach = openpgp.ArmoredDetachSign
		}
		if err := detach(&out, entity, bytes.NewReader(payload), nil); err != nil {
			t.Fatal(err)
		}
		return bytes.TrimSpace(out.Bytes())
	}
	armoured := func(packets []byte) []byte {
		var out bytes.Buffer
		w := must(armor.Encode(&out, openpgp.SignatureType, nil))(t)
		_, err := w.Write(packets)
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return bytes.TrimSpace(out.Bytes())
	}
	var key bytes.Buffer
	if err := entity.Serialize(&key); err != nil {
		t.Fatal(err)
	}
	good := sign(true)
	// A packet of version 4 over SHA-256 by an Ed25519 key, made in 1970, that does not say by which.
	nameless := []byte{0xc2, 22, 4, 0, 22, 8, 0, 6, 5, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1}
	for name, c := range map[string]struct {
		text []byte
		want error
	}{
		"none":               {good, nil},
		"armored by us":      {armoured(sign(false)), nil},
		"two in one armor":   {armoured(append(sign(false), sign(false)...)), verify.ErrMalformed},
		"two armors":         {slices.Concat(good, []byte("\n"), good), verify.ErrMalformed},
		"text behind":        {slices.Concat(good, []byte("\nx")), verify.ErrMalformed},
		"a key":              {armoured(key.Bytes()), verify.ErrMalformed},
		"nothing":            {armoured(nil), verify.ErrMalformed},
		"no packet":          {armoured([]byte("x")), verify.ErrMalformed},
		"only its two ends":  {[]byte("-----BEGIN PGP SIGNATURE-----\n-----END PGP SIGNATURE-----"), verify.ErrMalformed},
		"one without a key":  {armoured(nameless), verify.ErrMalformed},
		"a damaged armor":    {bytes.Replace(good, []byte("\n-----END"), []byte("%\n-----END"), 1), verify.ErrMalformed},
		"larger than any is": {armoured(bytes.Repeat([]byte{0}, 64<<10)), verify.ErrMalformed},
		"X.509":              {[]byte("-----BEGIN SIGNED MESSAGE-----\nx"), verify.ErrMalformed},
		"something else":     {[]byte("signed, Ada"), verify.ErrMalformed},
	} {
		by, err := keys.Git(verify.Object{Kind: "commit", Payload: payload, Signature: c.text})
		if !errors.Is(err, c.want) || c.want != nil && by != "" {
			t.Errorf("%s: by %q, %v; want %v", name, by, err, c.want)
		}
	}
}

func TestOpenPGPKeysThatAreDamagedOrPrivateAreRefused(t *testing.T) {
	t.Parallel()
	entity, _ := pgpKeys(t, "ada")
	var public, private, text bytes.Buffer
	w := must(armor.Encode(&text, openpgp.PublicKeyType, nil))(t)
	if err := errors.Join(entity.Serialize(&public), entity.SerializePrivate(&private, nil), entity.Serialize(w), w.Close()); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Replace(text.Bytes(), []byte("\n-----END"), []byte("%\n-----END"), 1)
	cut := text.Bytes()[:text.Len()/2]
	var empty bytes.Buffer
	w = must(armor.Encode(&empty, openpgp.PublicKeyType, nil))(t)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file  []byte
		words string
	}{
		"binary": {public.Bytes(), ""}, "armored": {text.Bytes(), ""},
		"two":     {slices.Concat(text.Bytes(), []byte("\nmine:\n"), text.Bytes()), ""},
		"private": {private.Bytes(), "holds a private key"}, "damaged": {damaged, "is damaged"}, "cut": {cut, "not an OpenPGP public key"},
		"one damaged":   {slices.Concat(text.Bytes(), []byte("\n"), damaged), "is damaged"},
		"nothing in it": {empty.Bytes(), "not an OpenPGP public key"},
		"not begun":     {[]byte("-----BEGIN PGP PUBLIC KEY BLOCK-----"), "is damaged"},
	} {
		keys, err := verify.ParseKeys(c.file)
		if c.words == "" && err != nil || c.words != "" && (keys != nil || err == nil || !strings.Contains(err.Error(), c.words)) {
			t.Errorf("%s: got %v, want %q", name, err, c.words)
		}
	}
}

func TestOpenPGPKeysAndTimesThatDoNotCountAreNoSignature(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(after time.Duration) *packet.Config {
		return &packet.Config{Time: func() time.Time { return now.Add(after) }}
	}
	weak, brief := at(-2*time.Hour), at(-time.Hour)
	weak.Algorithm, weak.RSABits, brief.SigLifetimeSecs = packet.PubKeyAlgoRSA, 1024, 60
	payload := []byte("tree x\n\nmessage\n")
	for name, c := range map[string]struct {
		key, made *packet.Config
		payload   string
		want      error
	}{
		"all is well":                     {at(-2 * time.Hour), at(-time.Hour), string(payload), nil},
		"of a weak key":                   {weak, at(-time.Hour), string(payload), verify.ErrWeak},
		"of a weak key, over another":     {weak, at(-time.Hour), "tree y", verify.ErrWeak},
		"that has expired":                {at(-2 * time.Hour), brief, string(payload), verify.ErrExpired},
		"that has expired, over another":  {at(-2 * time.Hour), brief, "tree y", verify.ErrExpired},
		"of a key from times to come":     {at(time.Hour), at(2 * time.Hour), string(payload), verify.ErrExpired},
		"over another, and well but that": {at(-2 * time.Hour), at(-time.Hour), "tree y", verify.ErrBad},
	} {
		entity := must(openpgp.NewEntity("ada", "", "", c.key))(t)
		var key, signature bytes.Buffer
		if err := errors.Join(entity.Serialize(&key),
			openpgp.ArmoredDetachSign(&signature, entity, strings.NewReader(c.payload), c.made)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		by, err := must(verify.ParseKeys(key.Bytes()))(t).Git(verify.Object{Kind: "commit", Payload: payload, Signature: signature.Bytes()})
		if !errors.Is(err, c.want) || c.want != nil && by != "" {
			t.Errorf("%s: by %q, %v; want %v", name, by, err, c.want)
		}
	}
}

// The subkey that signed has to be good now, and none of its sisters.
func TestTheOpenPGPSubkeyThatSignedHasToBeGood(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(after time.Duration, life uint32) *packet.Config {
		return &packet.Config{Time: func() time.Time { return now.Add(after) }, KeyLifetimeSecs: life}
	}
	const hour, forever = 60 * 60, 0
	payload := []byte("tree x\n\nmessage\n")
	for name, c := range map[string]struct {
		life    uint32 // of the subkey that signs, made two hours ago, in seconds
		revoked bool
		want    error
		words   string
	}{
		"all is well":      {life: forever},
		"it has expired":   {life: hour, want: verify.ErrExpired, words: "it has expired"},
		"it was withdrawn": {life: forever, revoked: true, want: verify.ErrRevoked},
	} {
		entity := must(openpgp.NewEntity("ada", "", "", at(-2*time.Hour, forever)))(t)
		if err := errors.Join(entity.AddSigningSubkey(at(-2*time.Hour, c.life)), entity.AddSigningSubkey(at(-3*time.Hour, 1))); err != nil {
			t.Fatal(err)
		}
		// The newest subkey that may sign does, of those that could at the time: the sister had expired then.
		subkey := &entity.Subkeys[len(entity.Subkeys)-2]
		var key, signature bytes.Buffer
		if err := openpgp.ArmoredDetachSign(&signature, entity, bytes.NewReader(payload), at(-2*time.Hour+time.Minute, forever)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c.revoked {
			if err := entity.RevokeSubkey(subkey, packet.KeyRetired, "", at(-time.Minute, forever)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := entity.Serialize(&key); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err := must(verify.ParseKeys(key.Bytes()))(t).Git(verify.Object{Kind: "commit", Payload: payload, Signature: signature.Bytes()})
		if !errors.Is(err, c.want) || c.words != "" && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
	}
}

func TestOpenPGPSignaturesThatAreNotPlainlyOverADocumentAreRefused(t *testing.T) {
	t.Parallel()
	entity, keys := pgpKeys(t, "ada")
	payload := []byte("tree x\n\nmessage\n")
	for name, c := range map[string]struct {
		kind     packet.SignatureType
		critical bool
		over     string
		want     error
	}{
		"plain":                        {packet.SigTypeBinary, false, string(payload), nil},
		"under a condition":            {packet.SigTypeBinary, true, string(payload), verify.ErrMalformed},
		"under a condition, elsewhere": {packet.SigTypeBinary, true, "tree y", verify.ErrMalformed},
		"of a key":                     {packet.SigTypeDirectSignature, false, string(payload), verify.ErrMalformed},
		"of a key, elsewhere":          {packet.SigTypeDirectSignature, false, "tree y", verify.ErrMalformed},
	} {
		signature := &packet.Signature{
			Version: entity.PrivateKey.Version, SigType: c.kind, PubKeyAlgo: entity.PrivateKey.PubKeyAlgo, Hash: crypto.SHA256,
			CreationTime: time.Now(), IssuerKeyId: &entity.PrivateKey.KeyId,
		}
		if c.critical {
			signature.Notations = []*packet.Notation{{
				Name: "only@example.com", Value: []byte("on sundays"), IsHumanReadable: true,
				IsCritical: true,
			}}
		}
		digest := must(signature.PrepareSign(nil))(t)
		digest.Write([]byte(c.over))
		var text bytes.Buffer
		w := must(armor.Encode(&text, openpgp.SignatureType, nil))(t)
		if err := errors.Join(signature.Sign(digest, entity.PrivateKey, nil), signature.Serialize(w), w.Close()); err != nil {
			t.Fatal(err)
		}
		by, err := keys.Git(verify.Object{Kind: "commit", Payload: payload, Signature: text.Bytes()})
		if !errors.Is(err, c.want) || c.want != nil && by != "" {
			t.Errorf("%s: by %q, %v; want %v", name, by, err, c.want)
		}
	}
}
