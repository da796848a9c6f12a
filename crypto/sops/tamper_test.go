package sops_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/crypto/sops"
)

var envelope = regexp.MustCompile(`ENC\[AES256_GCM,data:[^\]]*type:(\w+)\]`)

// refused checks that a changed file opens no more, and that the error holds no value.
func refused(t *testing.T, what, name string, data []byte) {
	t.Helper()
	if bytes.Equal(data, sealed(t)[name]) {
		t.Fatalf("%s: nothing was changed", what)
	}
	got, err := sops.Open(name, data, identity(t))
	if err == nil || got != nil {
		t.Errorf("%s: %s was opened:\n%s", what, name, got)
		return
	}
	if !errors.Is(err, sops.ErrDamaged) {
		t.Errorf("%s: %v", what, err)
	}
	if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "czNjcmV0") {
		t.Errorf("%s: the error tells a value: %v", what, err)
	}
}

func TestEachAlteredValueIsRefused(t *testing.T) {
	for name, data := range sealed(t) {
		for _, at := range envelope.FindAllSubmatchIndex(data, -1) {
			if string(data[at[2]:at[3]]) == "comment" {
				continue
			}
			for _, part := range []string{"data:", "iv:", "tag:"} {
				changed := bytes.Clone(data)
				i := at[0] + bytes.Index(data[at[0]:at[1]], []byte(part)) + len(part)
				if changed[i]++; changed[i] > 'Z' {
					changed[i] = 'A'
				}
				refused(t, part, name, changed)
			}
			gone := append(bytes.Clone(data[:at[0]]), data[at[1]:]...)
			refused(t, "a value emptied", name, gone)
		}
	}
}

func TestSwappedAndMovedValuesAreRefused(t *testing.T) {
	for name, data := range sealed(t) {
		all := envelope.FindAllIndex(data, -1)
		for i := 0; i+1 < len(all); i++ {
			a, b := all[i], all[i+1]
			if bytes.Contains(data[a[0]:b[1]], []byte("type:comment")) {
				continue
			}
			var swapped []byte
			for _, part := range [][]byte{data[:a[0]], data[b[0]:b[1]], data[a[1]:b[0]], data[a[0]:a[1]], data[b[1]:]} {
				swapped = append(swapped, part...)
			}
			refused(t, "swapped", name, swapped)
		}
	}
}

func TestChangesAroundTheValuesAreRefused(t *testing.T) {
	for _, c := range []struct{ name, old, replacement string }{
		{"types.yaml", "    password: ENC", "    passphrase: ENC"},
		{"types.yaml", "        list:\n", "        lisp:\n"},
		{"types.yaml", "        - 2.5\n", "        - 3.5\n"},
		{"types.yaml", "clear_unencrypted: readable", "clear_unencrypted: changed"},
		{"types.yaml", "    empty: \"\"", "    empty: plain"},
		{"types.yaml", "    none: null", "    none: \"now\""},
		{"types.yaml", "unencrypted_suffix: _unencrypted", "encrypted_suffix: password"},
		{"types.yaml", "    lastmodified: \"2026", "    lastmodified: \"2025"},
		{"types.yaml", "    mac: ENC", "    mick: ENC"},
		{"types.yaml", "-----BEGIN AGE ENCRYPTED FILE-----\n            Y", "-----BEGIN AGE ENCRYPTED FILE-----\n            Z"},
		{"types.yaml", "sops:", "extra: 1\nsops:"},
		{"types.yaml", "kind: ", "anchor: &a x\nkind: "},
		{"types.yaml", "kind: ", "1: x\nkind: "},
		{"types.yaml", "kind: ", "kind: twice\nkind: "},
		{"regex.yaml", "kind: Secret", "kind: ConfigMap"},
		{"regex.yaml", "name: db", "name: other"},
		{"regex.yaml", "encrypted_regex: ^(data|stringData)$", "encrypted_regex: ^(data)$"},
		{"maconly.yaml", "mac_only_encrypted: true", "mac_only_encrypted: false"},
		{"several.yaml", "---\n", "---\nmore: 1\n"},
		{"vars.env", "PASSWORD=", "SECRET="},
		{"vars.env", "CLEAR_unencrypted=readable", "CLEAR_unencrypted=changed"},
		{"vars.env", "QUOTED=", "no key\nQUOTED="},
		{"types.json", `"port"`, `"yes"`},
		{"types.json", `"password"`, `"passphrase"`},
		{"blob.bin", `"data"`, `"date"`},
	} {
		data := string(sealed(t)[c.name])
		refused(t, c.old+" -> "+c.replacement, c.name, []byte(strings.Replace(data, c.old, c.replacement, 1)))
	}
}

func TestAnotherFilesMACIsRefused(t *testing.T) {
	mac := regexp.MustCompile(`(?m)mac: .*$`)
	other := mac.Find(sealed(t)["suffix.yaml"])
	refused(t, "another MAC", "types.yaml", mac.ReplaceAll(sealed(t)["types.yaml"], other))
	refused(t, "no MAC", "types.yaml", mac.ReplaceAll(sealed(t)["types.yaml"], []byte(`mac: ""`)))
}

// What stands at the very end of a file is not needed to verify the rest: the version, say.
func TestFilesCutOffLoseNoValue(t *testing.T) {
	for name, data := range sealed(t) {
		if name == "apart.yaml" { // whose first file is whole long before the end
			continue
		}
		for n := 1; n < len(data)-1; n += max(len(data)/150, 1) {
			got, err := sops.Open(name, data[:n], identity(t))
			if err != nil {
				continue
			}
			if diff := cmp.Diff(values(t, name, read(t, "testdata/plain/"+name)), values(t, name, got)); diff != "" {
				t.Errorf("%s: %d of %d bytes were opened (-plain +opened):\n%s", name, n, len(data), diff)
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	for name, data := range sealed(f) {
		f.Add(name, data)
	}
	id := identity(f)
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		var ids []age.Identity
		if len(data)%2 == 0 {
			ids = append(ids, id)
		}
		got, err := sops.Open(name, data, ids...)
		if err != nil && got != nil {
			t.Error("an error came with content")
		}
		var none *sops.NoIdentityError
		var unsupported *sops.UnsupportedError
		if err != nil && !errors.Is(err, sops.ErrDamaged) && !errors.As(err, &none) && !errors.As(err, &unsupported) {
			t.Errorf("an error of no kind: %v", err)
		}
		if err == nil && ids == nil {
			t.Error("opened without an identity")
		}
	})
}
