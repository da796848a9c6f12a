package seal_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/pluralsh/plural/crypto/seal"
)

const wellFormed = "repository " + repository + "\npath secrets/db.yaml\ngroup prod 2\n"

func bindStanza(version, body string) stanzas {
	return stanzas{{Type: "plural.sh/bind", Args: strings.Fields(version), Body: []byte(body)}}
}

func TestBindingHasOneForm(t *testing.T) {
	key := x25519(t)
	if _, b, err := seal.Open(encrypt(t, "v", key.Recipient, bindStanza("1", wellFormed)), key.Identity); err != nil || b.Path != "secrets/db.yaml" {
		t.Fatalf("the well-formed one: %+v, %v", b, err)
	}
	for name, s := range map[string]stanzas{
		"later version":      bindStanza("2", wellFormed),
		"no version":         bindStanza("", wellFormed),
		"more arguments":     bindStanza("1 x", wellFormed),
		"empty":              bindStanza("1", ""),
		"no repository":      bindStanza("1", "path a\ngroup prod 2\n"),
		"no path":            bindStanza("1", "repository r\ngroup prod 2\n"),
		"no group":           bindStanza("1", "repository r\npath a\n"),
		"unended":            bindStanza("1", strings.TrimSuffix(wellFormed, "\n")),
		"CRLF":               bindStanza("1", strings.ReplaceAll(wellFormed, "\n", "\r\n")),
		"unknown line":       bindStanza("1", wellFormed+"note hello\n"),
		"empty line":         bindStanza("1", wellFormed+"\n"),
		"order of lines":     bindStanza("1", "path a\nrepository r\ngroup prod 2\n"),
		"two paths":          bindStanza("1", "repository r\npath b\npath a\ngroup prod 2\n"),
		"two repositories":   bindStanza("1", "repository q\nrepository r\npath a\ngroup prod 2\n"),
		"group twice":        bindStanza("1", wellFormed+"group prod 3\n"),
		"groups out of rank": bindStanza("1", wellFormed+"group dev 3\n"),
		"epoch 0":            bindStanza("1", "repository r\npath a\ngroup prod 0\n"),
		"epoch +2":           bindStanza("1", "repository r\npath a\ngroup prod +2\n"),
		"epoch 02":           bindStanza("1", "repository r\npath a\ngroup prod 02\n"),
		"epoch missing":      bindStanza("1", "repository r\npath a\ngroup prod\n"),
		"epoch too large":    bindStanza("1", "repository r\npath a\ngroup prod 99999999999999999999\n"),
		"path goes up":       bindStanza("1", "repository r\npath ../a\ngroup prod 2\n"),
		"path is absolute":   bindStanza("1", "repository r\npath /a\ngroup prod 2\n"),
		"repository of two":  bindStanza("1", "repository r s\npath a\ngroup prod 2\n"),
		"group not ASCII":    bindStanza("1", "repository r\npath a\ngroup pröd 2\n"),
		"path not UTF-8":     bindStanza("1", "repository r\npath \xff\ngroup prod 2\n"),
		"two stanzas":        append(bindStanza("1", wellFormed), bindStanza("1", wellFormed)...),
	} {
		t.Run(name, func(t *testing.T) {
			sealed := encrypt(t, "v", key.Recipient, s)
			if err := refused(t, name, sealed, key.Identity); !errors.Is(err, seal.ErrDamaged) {
				t.Errorf("Open: %v", err)
			}
			if _, err := seal.Inspect(sealed); !errors.Is(err, seal.ErrDamaged) {
				t.Errorf("Inspect: %v", err)
			}
		})
	}
}

func TestSealRefusesBindingsThatCannotBeWritten(t *testing.T) {
	key := x25519(t)
	for name, change := range map[string]func(*seal.Binding){
		"no repository":         func(b *seal.Binding) { b.Repository = "" },
		"repository of lines":   func(b *seal.Binding) { b.Repository = "a\npath x" },
		"repository of two":     func(b *seal.Binding) { b.Repository = "a b" },
		"repository with a DEL": func(b *seal.Binding) { b.Repository = "a\x7f" },
		"no path":               func(b *seal.Binding) { b.Path = "" },
		"the root":              func(b *seal.Binding) { b.Path = "." },
		"path goes up":          func(b *seal.Binding) { b.Path = "a/../b" },
		"path with a line feed": func(b *seal.Binding) { b.Path = "a\ngroup evil 1" },
		"path not UTF-8":        func(b *seal.Binding) { b.Path = "\xff" },
		"no group":              func(b *seal.Binding) { b.Groups = nil },
		"group not ASCII":       func(b *seal.Binding) { b.Groups[0].Group = "pröd" },
		"group with a space":    func(b *seal.Binding) { b.Groups[0].Group = "a b" },
		"group twice":           func(b *seal.Binding) { b.Groups = append(b.Groups, b.Groups[0]) },
		"epoch 0":               func(b *seal.Binding) { b.Groups[0].Number = 0 },
	} {
		b := home()
		change(&b)
		if sealed, err := seal.Seal([]byte("v"), b, key.Recipient); err == nil || sealed != nil {
			t.Errorf("%s: Seal = %d bytes, %v", name, len(sealed), err)
		}
	}
}

func TestPathsOfAllKindsComeBack(t *testing.T) {
	key := x25519(t)
	for _, path := range []string{"a", "with space/ä ö.yaml", "-> X25519", "--- x", " lead", "trail ", strings.Repeat("d/", 2000) + "f"} {
		b := home()
		b.Path = path
		sealed := must(seal.Seal([]byte("v"), b, key.Recipient))(t)
		if _, got, err := seal.Open(sealed, key.Identity); err != nil || got.Check(repository, path) != nil {
			t.Errorf("%.40q: %+v, %v", path, got, err)
		}
	}
}

// Whoever can read a header can write another path into it: the MAC under the file key must notice.
func TestC3RewrittenBindingIsRefused(t *testing.T) {
	key := x25519(t)
	sealed := must(seal.Seal([]byte("v"), home(), key.Recipient))(t)
	rewrite := func(body string) []byte {
		was, now := base64.RawStdEncoding.EncodeToString([]byte(wellFormed)), base64.RawStdEncoding.EncodeToString([]byte(body))
		return bytes.ReplaceAll(sealed, []byte(wrap(was)), []byte(wrap(now)))
	}
	if !bytes.Equal(rewrite(wellFormed), sealed) || bytes.Equal(rewrite("x"), sealed) {
		t.Fatal("the test does not find the stanza in the header")
	}
	for _, body := range []string{
		strings.Replace(wellFormed, "secrets/db.yaml", "secrets/dc.yaml", 1),
		strings.Replace(wellFormed, "prod 2", "prod 3", 1),
		strings.Replace(wellFormed, repository, strings.Repeat("f", 32), 1),
	} {
		changed := rewrite(body)
		if _, err := seal.Inspect(changed); err != nil {
			t.Errorf("Inspect authenticates nothing, yet: %v", err)
		}
		if err := refused(t, body, changed, key.Identity); !errors.Is(err, seal.ErrDamaged) {
			t.Errorf("%q: %v", body, err)
		}
	}
	start := bytes.Index(sealed, []byte("-> plural.sh/bind"))
	without := append(bytes.Clone(sealed[:start]), sealed[bytes.Index(sealed, []byte("\n--- "))+1:]...)
	if err := refused(t, "without", without, key.Identity); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("binding taken out: %v", err)
	}
}

// wrap breaks base64 as the header does.
func wrap(text string) string {
	var lines []string
	for len(text) > 64 {
		lines, text = append(lines, text[:64]), text[64:]
	}
	return strings.Join(append(lines, text), "\n")
}

func FuzzOpen(f *testing.F) {
	key := x25519(f)
	sealed := must(seal.Seal([]byte("v"), home(), key.Recipient))(f)
	for _, seed := range [][]byte{sealed, armour(f, sealed), encrypt(f, "v", key.Recipient), sealed[:len(sealed)/2], []byte("age-encryption.org/v1\n---"), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		claims, inspectErr := seal.Inspect(data)
		plaintext, binding, err := seal.Open(data, key.Identity)
		switch {
		case inspectErr != nil && (claims != nil || err == nil):
			t.Errorf("Inspect refuses (%v, %+v), Open does not (%v)", inspectErr, claims, err)
		case err != nil && (plaintext != nil || binding != nil):
			t.Errorf("%q and %+v came with %v", plaintext, binding, err)
		case (inspectErr == nil || err == nil) && !seal.IsSealed(data):
			t.Error("it opens, and does not look sealed")
		case claims != nil && claims.Check(claims.Repository, claims.Path) != nil:
			t.Error("a claim is not itself")
		}
	})
}
