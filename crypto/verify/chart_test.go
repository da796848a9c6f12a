package verify_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"

	"github.com/pluralsh/plural/crypto/verify"
)

const chartSum = "sha256:5c4ca2be2ebaf1a3a0a2dd2e3bd3cb8b4b4f1d9a4c0ae1d7b4b1d5f6a7b8c9d0"

// chartText is what helm signs: Chart.yaml, and the digest of the archive.
const chartText = `apiVersion: v2
description: A chart
maintainers:
- name: "- Ada"
name: app
version: 1.2.3

...
files:
  app-1.2.3.tgz: ` + chartSum + "\n"

// pgpKeys makes an OpenPGP key, and what trusts it.
func pgpKeys(tb testing.TB, name string) (*openpgp.Entity, *verify.Keys) {
	tb.Helper()
	entity := must(openpgp.NewEntity(name, "", name+"@example.com", nil))(tb)
	var text bytes.Buffer
	w := must(armor.Encode(&text, openpgp.PublicKeyType, nil))(tb)
	if err := errors.Join(entity.Serialize(w), w.Close()); err != nil {
		tb.Fatal(err)
	}
	return entity, must(verify.ParseKeys(text.Bytes()))(tb)
}

// clearSigned signs as `helm package --sign` does, with the library that helm uses.
func clearSigned(tb testing.TB, entity *openpgp.Entity, text string) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := must(clearsign.Encode(&out, entity.PrivateKey, nil))(tb)
	_, err := w.Write([]byte(text))
	if err := errors.Join(err, w.Close()); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func TestAChartsProvenanceVouchesForOneDigest(t *testing.T) {
	t.Parallel()
	entity, keys := pgpKeys(t, "ada")
	got, by, err := keys.Chart(clearSigned(t, entity, chartText), "app", "1.2.3")
	if err != nil || got != chartSum || !strings.HasPrefix(by, "ada <ada@example.com> (OpenPGP ") {
		t.Errorf("got %q by %q, %v", got, by, err)
	}
	w := newWorld(t)
	key := w.gpgKey("Ada <ada@example.com>", "rsa2048", "sign", "never")
	w.write("text", chartText)
	w.run("gpg", "--batch", "--clear-sign", "text")
	if got, _, err := w.keys(key).Chart([]byte(w.read("text.asc")), "app", "1.2.3"); err != nil || got != chartSum {
		t.Errorf("signed by GnuPG: got %q, %v", got, err)
	}
}

func TestAProvenanceOfAnotherChartOrShapeIsRefused(t *testing.T) {
	t.Parallel()
	entity, keys := pgpKeys(t, "ada")
	eve, _ := pgpKeys(t, "eve")
	good := clearSigned(t, entity, chartText)
	for name, c := range map[string]struct {
		text []byte
		want error
	}{
		"none":                       {nil, verify.ErrUnsigned},
		"another chart":              {clearSigned(t, entity, strings.Replace(chartText, "name: app", "name: apq", 1)), verify.ErrOther},
		"another version":            {clearSigned(t, entity, strings.Replace(chartText, "version: 1.2.3", "version: 1.2.4", 1)), verify.ErrOther},
		"two files":                  {clearSigned(t, entity, chartText+"  x.tgz: "+chartSum+"\n"), verify.ErrMalformed},
		"no digest":                  {clearSigned(t, entity, strings.Replace(chartText, chartSum, "md5:00", 1)), verify.ErrMalformed},
		"two breaks":                 {clearSigned(t, entity, chartText+"\n...\nfiles: {}\n"), verify.ErrMalformed},
		"no chart":                   {clearSigned(t, entity, "hello"), verify.ErrMalformed},
		"another digest":             {bytes.Replace(good, []byte("5c4ca2be"), []byte("00000000"), 1), verify.ErrBad},
		"a stranger's":               {clearSigned(t, eve, chartText), verify.ErrUnknownKey},
		"text before":                {append([]byte("name: app\n"), good...), verify.ErrMalformed},
		"text behind":                {append(bytes.Clone(good), "files: x\n"...), verify.ErrMalformed},
		"a message behind":           {append(bytes.Clone(good), good...), verify.ErrMalformed},
		"an empty message":           {[]byte("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----"), verify.ErrMalformed},
		"nothing, signed":            {clearSigned(t, entity, ""), verify.ErrMalformed},
		"no YAML":                    {clearSigned(t, entity, "name: [\n\n...\nfiles: {}\n"), verify.ErrMalformed},
		"a damaged armor":            {bytes.Replace(good, []byte("\n-----END"), []byte("%\n-----END"), 1), verify.ErrMalformed},
		"more than anybody reads":    {clearSigned(t, entity, chartText+strings.Repeat("# a comment\n", 100_000)), verify.ErrMalformed},
		"a header that nobody reads": {bytes.Replace(good, []byte("Hash: "), []byte("Comment: x\nHash: "), 1), verify.ErrMalformed},
	} {
		got, by, err := keys.Chart(c.text, "app", "1.2.3")
		if !errors.Is(err, c.want) || got != "" || by != "" {
			t.Errorf("%s: got %q by %q, %v; want %v", name, got, by, err, c.want)
		}
	}
}

func TestNothingIsGivenOutOfWhatIsNotSignedAsAWhole(t *testing.T) {
	t.Parallel()
	entity, keys := pgpKeys(t, "ada")
	good := clearSigned(t, entity, "hello")
	if plain, by, err := keys.Clearsigned(good); err != nil || string(plain) != "hello" || by == "" {
		t.Fatalf("got %q by %q, %v", plain, by, err)
	}
	for name, text := range map[string][]byte{
		"twice": append(bytes.Clone(good), good...), "damaged": bytes.Replace(good, []byte("\n-----END"), []byte("%\n-----END"), 1),
		"large": clearSigned(t, entity, strings.Repeat("hello\n", 200_000)), "cut": good[:len(good)-1],
	} {
		if plain, by, err := keys.Clearsigned(text); plain != nil || by != "" || !errors.Is(err, verify.ErrMalformed) {
			t.Errorf("%s: got %d bytes by %q, %v", name, len(plain), by, err)
		}
	}
}

func TestManyMayAskTheSameKeysAtOnce(t *testing.T) {
	t.Parallel()
	entity, keys := pgpKeys(t, "ada")
	text := clearSigned(t, entity, chartText)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, _, err := keys.Chart(text, "app", "1.2.3"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestANameCannotWriteOntoATerminal(t *testing.T) {
	t.Parallel()
	entity, keys := pgpKeys(t, "ada\x1b[31m\u202e")
	_, by, err := keys.Clearsigned(clearSigned(t, entity, "hello"))
	if err != nil || strings.ContainsAny(by, "\x1b\u202e") {
		t.Errorf("got %q, %v", by, err)
	}
}

func FuzzClearsigned(f *testing.F) {
	entity, keys := pgpKeys(f, "ada")
	good := clearSigned(f, entity, chartText)
	f.Add(good)
	f.Add([]byte("-----BEGIN PGP SIGNED MESSAGE-----\n\n-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----"))
	f.Fuzz(func(t *testing.T, text []byte) {
		plain, _, err := keys.Clearsigned(text)
		if err == nil && strings.TrimRight(string(plain), " \t\r\n") != strings.TrimRight(chartText, "\n") {
			t.Errorf("%q passes for signed", plain)
		}
	})
}
