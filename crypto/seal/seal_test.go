package seal_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"filippo.io/age/armor"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/crypto/seal"
)

const repository = "3f0c9b1e5a7d4c2f8e6b0a1d2c3f4e5d"

// pair is a key of one kind.
type pair struct {
	name string
	age.Recipient
	age.Identity
}

// home is the binding of the tests' file.
func home() seal.Binding {
	return seal.Binding{Repository: repository, Path: "secrets/db.yaml", Groups: []seal.Epoch{{Group: "prod", Number: 2}}}
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func x25519(t testing.TB) pair {
	t.Helper()
	id := must(age.GenerateX25519Identity())(t)
	return pair{"age", id.Recipient(), id}
}

func hybrid(t testing.TB) pair {
	t.Helper()
	id := must(age.GenerateHybridIdentity())(t)
	return pair{"age-pq", id.Recipient(), id}
}

func sshEd25519(t testing.TB) pair {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := must(ssh.NewPublicKey(public))(t)
	return pair{"ssh-ed25519", must(agessh.NewEd25519Recipient(key))(t), must(agessh.NewEd25519Identity(private))(t)}
}

func sshRSA(t testing.TB) pair {
	t.Helper()
	private := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	key := must(ssh.NewPublicKey(&private.PublicKey))(t)
	return pair{"ssh-rsa", must(agessh.NewRSARecipient(key))(t), must(agessh.NewRSAIdentity(private))(t)}
}

// random is n bytes that nothing compresses or guesses.
func random(t testing.TB, n int) []byte {
	t.Helper()
	data := make([]byte, n)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	return data
}

// refused fails the test when Open returned anything but an error.
func refused(t *testing.T, what string, sealed []byte, with ...age.Identity) error {
	t.Helper()
	plaintext, binding, err := seal.Open(sealed, with...)
	if err == nil {
		t.Errorf("%s: opened", what)
	}
	if plaintext != nil || binding != nil {
		t.Errorf("%s: %d bytes and %+v came with %v", what, len(plaintext), binding, err)
	}
	return err
}

func TestFilesOfAllSizesAndKeysComeBackWithTheirBinding(t *testing.T) {
	for _, key := range []pair{x25519(t), hybrid(t), sshEd25519(t), sshRSA(t)} {
		for _, size := range []int{0, 1, 1 << 10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20} {
			t.Run(fmt.Sprint(key.name, "/", size), func(t *testing.T) {
				want := random(t, size)
				sealed := must(seal.Seal(want, home(), key.Recipient))(t)
				got, binding, err := seal.Open(sealed, key.Identity)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("Open = %d bytes, %v; want %d bytes", len(got), err, size)
				}
				if wanted := home(); !cmp.Equal(binding, &wanted) {
					t.Errorf("bound to %+v", binding)
				}
				if !seal.IsSealed(sealed) || size > 16 && bytes.Contains(sealed, want[:16]) {
					t.Error("what was sealed does not look it")
				}
			})
		}
	}
}

func TestEachOfSeveralGroupsOpens(t *testing.T) {
	b := home()
	b.Groups = []seal.Epoch{{Group: "prod", Number: 2}, {Group: "dev", Number: 7}, {Group: "hub", Number: 1}}
	keys := []pair{x25519(t), sshEd25519(t), x25519(t)}
	sealed := must(seal.Seal([]byte("v"), b, keys[0].Recipient, keys[1].Recipient, keys[2].Recipient))(t)
	for _, key := range keys {
		got, binding, err := seal.Open(sealed, x25519(t).Identity, key.Identity)
		if err != nil || string(got) != "v" {
			t.Fatalf("%s: Open = %q, %v", key.name, got, err)
		}
		if want := []seal.Epoch{{"dev", 7}, {"hub", 1}, {"prod", 2}}; !cmp.Equal(binding.Groups, want) {
			t.Errorf("groups %v, want them by name", binding.Groups)
		}
	}
	if b.Groups[0].Group != "prod" {
		t.Error("Seal sorted its caller's groups")
	}
}

// Age asks some identities itself and others by way of a watcher: one that does not fit must not end the search.
func TestAKeyThatDoesNotFitLeavesTheNextItsTurn(t *testing.T) {
	key := sshEd25519(t)
	sealed := must(seal.Seal([]byte("v"), home(), key.Recipient))(t)
	if got, _, err := seal.Open(sealed, sshEd25519(t).Identity, key.Identity); err != nil || string(got) != "v" {
		t.Errorf("Open = %q, %v", got, err)
	}
}

func TestNothingIsSealedWhenOneRecipientCannotBeSealedFor(t *testing.T) {
	absent := errors.New("the token is not plugged in")
	for _, to := range [][]age.Recipient{{unreachable{absent}, x25519(t).Recipient}, {x25519(t).Recipient, unreachable{absent}}} {
		if sealed, err := seal.Seal([]byte("v"), home(), to...); !errors.Is(err, absent) || sealed != nil {
			t.Errorf("Seal = %d bytes, %v", len(sealed), err)
		}
	}
}

type unreachable struct{ err error }

func (u unreachable) Wrap([]byte) ([]*age.Stanza, error) { return nil, u.err }

func TestSealingTwiceDiffers(t *testing.T) {
	key := x25519(t)
	a, b := must(seal.Seal([]byte("v"), home(), key.Recipient))(t), must(seal.Seal([]byte("v"), home(), key.Recipient))(t)
	if bytes.Equal(a, b) {
		t.Error("two seals of one value are the same")
	}
}

func TestPostQuantumKeysAreNotWeakenedByOthers(t *testing.T) {
	strong := hybrid(t)
	if _, err := seal.Seal([]byte("v"), home(), strong.Recipient, hybrid(t).Recipient); err != nil {
		t.Errorf("two of a kind: %v", err)
	}
	for _, to := range [][]age.Recipient{{strong.Recipient, x25519(t).Recipient}, {sshRSA(t).Recipient, strong.Recipient}} {
		if _, err := seal.Seal([]byte("v"), home(), to...); err == nil || !strings.Contains(err.Error(), "post-quantum") {
			t.Errorf("mixed: %v", err)
		}
	}
}

func TestC2TruncatedFilesOpenToNothing(t *testing.T) {
	key := x25519(t)
	sealed := must(seal.Seal(random(t, 1<<10), home(), key.Recipient))(t)
	for n := range sealed {
		err := refused(t, fmt.Sprintf("first %d bytes", n), sealed[:n], key.Identity)
		if !errors.Is(err, seal.ErrDamaged) && !errors.Is(err, seal.ErrNotSealed) {
			t.Fatalf("first %d bytes: %v", n, err)
		}
	}
	armored := armour(t, sealed)
	for n := range len(armored) - 1 { // the last byte is a line feed, which may be missing
		refused(t, fmt.Sprintf("first %d bytes, armored", n), armored[:n], key.Identity)
	}
}

// The first chunks of a longer file are whole and authentic when its end is missing.
func TestC2TruncationAtChunksReleasesNoChunk(t *testing.T) {
	const chunk = 64<<10 + 16
	key := x25519(t)
	for _, size := range []int{3 * 64 << 10, 150_000} {
		sealed := must(seal.Seal(random(t, size), home(), key.Recipient))(t)
		payload := bytes.LastIndex(sealed[:1<<10], []byte("\n--- ")) + len("\n--- ") + 44
		for chunks := range 4 {
			for _, shift := range []int{-1, 0, 1, 15, 16, 17} {
				if n := payload + 16 + chunks*chunk + shift; n < len(sealed) {
					refused(t, fmt.Sprintf("%d of %d bytes", n, len(sealed)), sealed[:n], key.Identity)
				}
			}
		}
		refused(t, "one byte more", append(bytes.Clone(sealed), 0), key.Identity)
		refused(t, "twice", append(bytes.Clone(sealed), sealed...), key.Identity)
	}
}

func TestC2FlippedBitsOpenToNothing(t *testing.T) {
	for _, key := range []pair{x25519(t), hybrid(t), sshEd25519(t)} {
		sealed := must(seal.Seal(random(t, 70_000), home(), key.Recipient))(t)
		header := bytes.Index(sealed, []byte("\n--- "))
		if header < 0 {
			t.Fatal("no end of the header")
		}
		header += len("\n--- ") + 44
		for bit := 0; bit < len(sealed)*8; bit++ {
			if bit >= header*8 {
				bit += 8191 // a sample of the payload, at all places within a byte
			}
			if bit >= len(sealed)*8 {
				break
			}
			sealed[bit/8] ^= 1 << (bit % 8)
			refused(t, fmt.Sprintf("%s: bit %d of %d in a header of %d bytes", key.name, bit, len(sealed)*8, header), sealed, key.Identity)
			sealed[bit/8] ^= 1 << (bit % 8)
		}
	}
}

func TestC3SwappedAndForeignFilesAreNotAtHome(t *testing.T) {
	key := x25519(t)
	_, binding, err := seal.Open(must(seal.Seal([]byte("v"), home(), key.Recipient))(t), key.Identity)
	if err != nil {
		t.Fatal(err)
	}
	if err := binding.Check(repository, "secrets/db.yaml"); err != nil {
		t.Errorf("at home: %v", err)
	}
	var unbound *seal.Binding
	for _, c := range []struct {
		name, repository, path string
		binding                *seal.Binding
		moved                  bool
		says, fix              string
	}{
		{
			"other path", repository, "secrets/other.yaml", binding, true, `"secrets/other.yaml" is bound to "secrets/db.yaml"`,
			"encrypt secrets/other.yaml",
		},
		{"other repository", "ffff", "secrets/db.yaml", binding, false, "of another repository (" + repository, "put the value in as plaintext"},
		{"bound to nothing", repository, "secrets/db.yaml", unbound, false, `"secrets/db.yaml" is bound to nothing`, "encrypt secrets/db.yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var wrong *seal.BindingError
			if err := c.binding.Check(c.repository, c.path); !errors.As(err, &wrong) {
				t.Fatalf("Check = %v", err)
			}
			if wrong.Moved() != c.moved || !strings.Contains(wrong.Error(), c.says) {
				t.Errorf("Moved = %v, %q; want %v, %q", wrong.Moved(), wrong, c.moved, c.says)
			}
			if !strings.Contains(wrong.Fix(), c.fix) {
				t.Errorf("Fix = %q, want %q", wrong.Fix(), c.fix)
			}
		})
	}
}

func TestC15ErrorsTellAKeyFromAFile(t *testing.T) {
	key := x25519(t)
	sealed := must(seal.Seal([]byte("v"), home(), key.Recipient))(t)
	if err := refused(t, "another key", sealed, x25519(t).Identity); !errors.Is(err, seal.ErrNoMatch) {
		t.Errorf("another key: %v", err)
	}
	if err := refused(t, "no key", sealed); !errors.Is(err, seal.ErrNoMatch) {
		t.Errorf("no key: %v", err)
	}
	for _, plain := range []string{"", "password: hunter2\n", "age-encryption.org", "-----BEGIN CERTIFICATE-----\n"} {
		if err := refused(t, plain, []byte(plain), key.Identity); !errors.Is(err, seal.ErrNotSealed) {
			t.Errorf("%q: %v", plain, err)
		}
	}
	absent := errors.New("the token is not plugged in")
	if err := refused(t, "absent", sealed, failing{absent}); !errors.Is(err, absent) || errors.Is(err, seal.ErrDamaged) {
		t.Errorf("an identity that cannot be asked: %v", err)
	}
	if _, _, err := seal.Open(sealed, failing{absent}, key.Identity); err != nil {
		t.Errorf("a key that asks nobody is not tried first: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Unwrap([]*age.Stanza) ([]byte, error) { return nil, f.err }

func TestC13CostlyFilesAreRefusedFast(t *testing.T) {
	stanza := "-> X25519 " + strings.Repeat("A", 43) + "\n" + strings.Repeat("A", 43) + "\n"
	many := "age-encryption.org/v1\n" + strings.Repeat(stanza, 100_000) + "--- " + strings.Repeat("A", 43) + "\n" + strings.Repeat("x", 64)
	fewer := "age-encryption.org/v1\n" + strings.Repeat(stanza, 9_000) + "--- " + strings.Repeat("A", 43) + "\n" + strings.Repeat("x", 64)
	long := "age-encryption.org/v1\n-> X25519 " + strings.Repeat("A", 2<<20) + "\n"
	key := x25519(t)
	start := time.Now()
	for name, text := range map[string]string{"100,000 stanzas": many, "9,000 stanzas": fewer, "one long line": long} {
		if err := refused(t, name, []byte(text), key.Identity); !errors.Is(err, seal.ErrDamaged) || len(err.Error()) > 300 {
			t.Errorf("%s: %.400v", name, err)
		}
	}
	if err := refused(t, "too large", append([]byte("age-encryption.org/v1\n"), make([]byte, seal.MaxFile)...), key.Identity); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("too large: %v", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("refused after %v", took)
	}
}

func TestC13PassphrasesAreTriedOnlyWhenBrought(t *testing.T) {
	to := must(age.NewScryptRecipient("correct horse"))(t)
	to.SetWorkFactor(10)
	sealed := encrypt(t, "v", to)
	if err := refused(t, "no passphrase", sealed, x25519(t).Identity); !errors.Is(err, seal.ErrNoMatch) {
		t.Errorf("no passphrase: %v", err)
	}
	id := must(age.NewScryptIdentity("correct horse"))(t)
	if got, binding, err := seal.Open(sealed, id); err != nil || string(got) != "v" || binding != nil {
		t.Errorf("Open = %q, %v, %v", got, binding, err)
	}
	id.SetMaxWorkFactor(9)
	refused(t, "more work than allowed", sealed, id)
	if _, err := seal.Seal([]byte("v"), home(), to); err == nil {
		t.Error("sealed for a passphrase")
	}
}

func TestMoreRecipientsThanCanOpenAreRefused(t *testing.T) {
	to := make([]age.Recipient, 1100)
	for i := range to {
		to[i] = stanzas{{Type: "x", Body: []byte("y")}}
	}
	if _, err := seal.Seal([]byte("v"), home(), to...); err == nil || !strings.Contains(err.Error(), "1100 recipients") {
		t.Errorf("Seal = %v", err)
	}
	if _, err := seal.Seal([]byte("v"), home()); err == nil {
		t.Error("sealed for nobody")
	}
	if _, err := seal.Seal(make([]byte, seal.MaxFile), home(), x25519(t).Recipient); err == nil {
		t.Error("sealed more than opens")
	}
}

func TestArmoredFilesOpen(t *testing.T) {
	key := x25519(t)
	armored := armour(t, must(seal.Seal([]byte("v"), home(), key.Recipient))(t))
	for name, text := range map[string][]byte{
		"as written":         armored,
		"with CRLF":          bytes.ReplaceAll(armored, []byte("\n"), []byte("\r\n")),
		"after white space":  append([]byte("\r\n \n"), armored...),
		"before white space": append(bytes.Clone(armored), "\n\n"...),
	} {
		if got, binding, err := seal.Open(text, key.Identity); err != nil || string(got) != "v" || binding.Check(repository, "secrets/db.yaml") != nil {
			t.Errorf("%s: Open = %q, %v, %v", name, got, binding, err)
		}
	}
	refused(t, "before text", append(bytes.Clone(armored), "password"...), key.Identity)
}

func TestInspectNeedsNoKey(t *testing.T) {
	sealed := must(seal.Seal([]byte("v"), home(), x25519(t).Recipient))(t)
	for _, file := range [][]byte{sealed, armour(t, sealed)} {
		got := must(seal.Inspect(file))(t)
		if want := home(); !cmp.Equal(got, &want) {
			t.Errorf("Inspect = %+v", got)
		}
	}
	if got, err := seal.Inspect(encrypt(t, "v", x25519(t).Recipient)); got != nil || err != nil {
		t.Errorf("bound to nothing: Inspect = %v, %v", got, err)
	}
	for name, text := range map[string]string{
		"payload missing":   string(sealed[:len(sealed)-33]),
		"only an intro":     "age-encryption.org/v1\n",
		"a later version":   "age-encryption.org/v2\n" + string(sealed[22:]),
		"plaintext behind":  "age-encryption.org/v1\npassword: hunter2\n--- x\n",
		"header of nothing": "age-encryption.org/v1\n--- " + strings.Repeat("A", 43) + "\n" + strings.Repeat("x", 64),
	} {
		if _, err := seal.Inspect([]byte(text)); !errors.Is(err, seal.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A hub has no key, and learns from the length alone that a file lost its end.
func TestInspectNoticesALengthThatNoWholeFileHas(t *testing.T) {
	const chunk, tag = 64<<10 + 16, 16
	sealed := must(seal.Seal(random(t, 2*64<<10), home(), x25519(t).Recipient))(t)
	header := len(sealed) - 16 - 2*chunk
	for payload, whole := range map[int]bool{
		0: false, tag - 1: false, tag: true, tag + 1: true, chunk: true,
		chunk + 1: false, chunk + tag - 1: false, chunk + tag: false, chunk + tag + 1: true, 2 * chunk: true,
	} {
		if _, err := seal.Inspect(sealed[:header+16+payload]); (err == nil) != whole || err != nil && !errors.Is(err, seal.ErrDamaged) {
			t.Errorf("%d bytes behind the nonce: %v", payload, err)
		}
	}
}

func armour(t testing.TB, sealed []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := armor.NewWriter(&out)
	if _, err := w.Write(sealed); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// encrypt is age's own, without a binding.
func encrypt(t testing.TB, plaintext string, to ...age.Recipient) []byte {
	t.Helper()
	var out bytes.Buffer
	w := must(age.Encrypt(&out, to...))(t)
	if _, err := io.WriteString(w, plaintext); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// stanzas is a recipient that adds what it is told.
type stanzas []*age.Stanza

func (s stanzas) Wrap([]byte) ([]*age.Stanza, error) { return s, nil }
