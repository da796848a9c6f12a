package update_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pluralsh/plural/cli/update"
)

// mirror has the files of release 1.2.3 as GitHub has them, signed by a key.
type mirror struct {
	t     *testing.T
	key   *ecdsa.PrivateKey
	files map[string][]byte
}

func newMirror(t *testing.T, archive []byte) *mirror {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	m := &mirror{t, key, map[string][]byte{}}
	platform := runtime.GOOS + "_" + runtime.GOARCH
	m.files["plural_1.2.3_"+platform+".tar.gz"] = archive
	sums := fmt.Sprintf("%x  plural_1.2.3_%s.tar.gz\n%x  plural_1.2.3_%s\n%x  localkube_1.2.3_%s\n",
		sha256.Sum256(archive), platform, sha256.Sum256([]byte("plural")), platform, sha256.Sum256([]byte("localkube")), platform)
	m.sign(sums)
	return m
}

func (m *mirror) sign(sums string) {
	m.t.Helper()
	digest := sha256.Sum256([]byte(sums))
	signature, err := ecdsa.SignASN1(rand.Reader, m.key, digest[:])
	if err != nil {
		m.t.Fatal(err)
	}
	bundle, err := protojson.Marshal(&protobundle.Bundle{
		MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{Hint: "a key"}},
		},
		Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: digest[:]}, Signature: signature,
		}},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.files["checksums.txt"], m.files["checksums.txt.sigstore.json"] = []byte(sums), bundle
}

func (m *mirror) place() *update.Place {
	m.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		text, ok := m.files[strings.TrimPrefix(q.URL.Path, "/plural/download/v1.2.3/")]
		if !ok {
			http.NotFound(w, q)
			return
		}
		_, _ = w.Write(text)
	}))
	m.t.Cleanup(server.Close)
	public, err := x509.MarshalPKIXPublicKey(&m.key.PublicKey)
	if err != nil {
		m.t.Fatal(err)
	}
	return &update.Place{Version: "1.2.3", From: server.URL + "/plural", Key: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})}
}

// packed is an archive of members.
func packed(t *testing.T, members ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	to := tar.NewWriter(zip)
	for _, h := range members {
		text := []byte(filepath.Base(h.Name))
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(text))
		}
		h.Mode = 0o755
		if err := to.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := to.Write(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(to.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func file(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }

func TestProgramsOfAReleaseAreTakenOutOfItsArchive(t *testing.T) {
	place := newMirror(t, packed(t, file("LICENSE"), file("plural"), file("localkube"), file("man/plural.1.gz"))).place()
	sums, err := place.Sums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := place.Programs(t.Context(), sums, "plural", "localkube")
	if err != nil || string(got["plural"]) != "plural" || string(got["localkube"]) != "localkube" {
		t.Errorf("%q %v", got, err)
	}
}

func TestArchivesWithTricksAreRefused(t *testing.T) {
	for name, archive := range map[string][]byte{
		"a link in the program's place": packed(t, tar.Header{Name: "plural", Typeflag: tar.TypeSymlink, Linkname: "/bin/sh"}),
		"a path that leads out":         packed(t, file("../plural")),
		"an absolute path":              packed(t, file("/plural")),
		"a folder of that name":         packed(t, tar.Header{Name: "plural", Typeflag: tar.TypeDir}),
		"a device":                      packed(t, tar.Header{Name: "plural", Typeflag: tar.TypeChar}),
		"no program":                    packed(t, file("README.md")),
		"no archive":                    []byte("<html>404</html>"),
		"half of it":                    packed(t, file("plural"), file("localkube"))[:20],
	} {
		t.Run(name, func(t *testing.T) {
			place := newMirror(t, archive).place()
			sums, err := place.Sums(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := place.Programs(t.Context(), sums, "plural"); err == nil {
				t.Errorf("it is taken: %q", got)
			}
		})
	}
}

func TestWhatTheListDoesNotNameIsNotOfTheRelease(t *testing.T) {
	m := newMirror(t, packed(t, file("plural")))
	place := m.place()
	sums, err := place.Sums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.files["plural_1.2.3_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz"] = packed(t, file("plural"), file("evil"))
	if _, err := place.Programs(t.Context(), sums, "plural"); !errors.Is(err, update.ErrNotOurs) {
		t.Errorf("another archive: %v", err)
	}
	program := filepath.Join(t.TempDir(), "plural")
	for text, want := range map[string]error{"plural": nil, "changed": update.ErrNotOurs} {
		if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sums.Program(program, "plural", "1.2.3"); !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := sums.Program(program, "plural", "1.2.4"); !errors.Is(err, update.ErrNotOurs) {
		t.Errorf("another version: %v", err)
	}
}

func TestListsThatAreNotSignedOrNotListsAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*mirror){
		"changed": func(m *mirror) { m.files["checksums.txt"] = append(m.files["checksums.txt"], '\n') },
		"a page":  func(m *mirror) { m.files["checksums.txt"] = []byte("<html>404</html>") },
		"no list": func(m *mirror) { m.sign("<html>404</html>\n") },
		"of another release": func(m *mirror) {
			other := newMirror(m.t, nil)
			m.files["checksums.txt.sigstore.json"] = other.files["checksums.txt.sigstore.json"]
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t, nil)
			spoil(m)
			if sums, err := m.place().Sums(t.Context()); err == nil {
				t.Errorf("it is believed: %v", sums)
			}
		})
	}
	m := newMirror(t, nil)
	delete(m.files, "checksums.txt.sigstore.json")
	if _, err := m.place().Sums(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no signature: %v", err)
	}
	far := &update.Place{Version: "1.2.3", From: "http://mirror.example.com/plural"}
	if _, err := far.Sums(t.Context()); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("without TLS: %v", err)
	}
}

func FuzzListsOfChecksums(f *testing.F) {
	f.Add([]byte(strings.Repeat("ab", 32) + "  plural_1.2.3_linux_amd64\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		sums, err := update.ParseSums(text)
		for name, sum := range sums {
			if err == nil && (len(sum) != 64 || !bytes.Contains(text, []byte(sum+"  "+name))) {
				t.Errorf("%q: %q is not in the list", name, sum)
			}
		}
	})
}
