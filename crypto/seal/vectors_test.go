package seal_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	agevectors "c2sp.org/CCTV/age"
	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/seal"
)

// vector is one file of the community's test vectors, and what is to be said of it.
type vector struct {
	expect     string
	payload    string // SHA-256 of the plaintext, in hex
	identities []age.Identity
	file       []byte
}

func TestC1VectorsGetTheExpectedVerdict(t *testing.T) {
	names, err := fs.ReadDir(agevectors.Vectors, ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 147 {
		t.Fatalf("%d vectors, want 147", len(names))
	}
	for _, name := range names {
		text, err := fs.ReadFile(agevectors.Vectors, name.Name())
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name.Name(), func(t *testing.T) {
			t.Parallel()
			v := parseVector(t, text)
			plaintext, _, err := seal.Open(v.file, v.identities...)
			if got := verdict(err); !strings.Contains(got, v.expect) {
				t.Errorf("Open = %v (%s), want %s", err, got, v.expect)
			}
			if err != nil && plaintext != nil {
				t.Errorf("%d bytes came with the error %v", len(plaintext), err)
			}
			if sum := sha256.Sum256(plaintext); err == nil && hex.EncodeToString(sum[:]) != v.payload {
				t.Error("the plaintext is not the expected one")
			}
		})
	}
}

// verdict is the vectors' words for an error. What is wrong with a file is not told apart.
func verdict(err error) string {
	switch {
	case err == nil:
		return "success"
	case errors.Is(err, seal.ErrNoMatch):
		return "no match"
	case errors.Is(err, seal.ErrDamaged), errors.Is(err, seal.ErrNotSealed):
		return "header failure, HMAC failure, payload failure, armor failure"
	}
	return err.Error()
}

func parseVector(t *testing.T, text []byte) vector {
	t.Helper()
	head, file, ok := bytes.Cut(text, []byte("\n\n"))
	if !ok {
		t.Fatal("the vector has no file")
	}
	v := vector{file: file}
	for line := range strings.Lines(string(head)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch key {
		case "expect":
			v.expect = value
		case "payload":
			v.payload = value
		case "identity", "passphrase":
			v.identities = append(v.identities, vectorIdentity(t, key, value))
		case "compressed":
			v.file = inflate(t, file)
		}
	}
	return v
}

func vectorIdentity(t *testing.T, key, value string) age.Identity {
	t.Helper()
	if key == "passphrase" {
		id, err := age.NewScryptIdentity(value)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	ids, err := age.ParseIdentities(strings.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	return ids[0]
}

func inflate(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
