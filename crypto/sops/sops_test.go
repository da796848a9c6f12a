package sops_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/crypto/sops"
)

// identity is the one that testdata/sealed was written for.
func identity(t testing.TB) age.Identity {
	t.Helper()
	ids, err := age.ParseIdentities(bytes.NewReader(read(t, "testdata/key.txt")))
	if err != nil {
		t.Fatal(err)
	}
	return ids[0]
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// values are what a file says, apart from layout and comments.
func values(t testing.TB, name string, data []byte) []any {
	t.Helper()
	switch filepath.Ext(name) {
	case ".yaml":
		var all []any
		for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
			var value any
			err := decoder.Decode(&value)
			if errors.Is(err, io.EOF) {
				return all
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, data)
			}
			all = append(all, value)
		}
	case ".json":
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		var value map[string]any
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, data)
		}
		if n, ok := value["huge"].(json.Number); ok { // one number in two spellings
			value["huge"], _ = n.Float64()
		}
		return []any{value}
	default:
		return []any{string(data)}
	}
}

// sealed are the fixtures that one identity opens, by name.
func sealed(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/sealed/*")
	if err != nil || len(names) < 10 {
		t.Fatalf("fixtures: %v %v", names, err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if base := filepath.Base(name); base != "groups.yaml" {
			files[base] = read(t, name)
		}
	}
	return files
}

func TestWhatSopsWroteIsOpened(t *testing.T) {
	for name, data := range sealed(t) {
		t.Run(name, func(t *testing.T) {
			if !sops.IsSOPS(name, data) {
				t.Error("it is not known as a file of sops")
			}
			plain := read(t, "testdata/plain/"+name)
			if sops.IsSOPS(name, plain) {
				t.Error("the plain file is taken for one of sops")
			}
			got, err := sops.Open(name, data, identity(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(values(t, name, plain), values(t, name, got)); diff != "" {
				t.Errorf("(-plain +opened):\n%s", diff)
			}
			if bytes.Contains(got, []byte("ENC[")) || bytes.Contains(got, []byte("sops:\n")) {
				t.Errorf("something is left of sops:\n%s", got)
			}
		})
	}
}

func TestCommentsAreOpenedToo(t *testing.T) {
	for name, words := range map[string][]string{
		"types.yaml":    {"# heads the file", "# beside a value", "# before a value", "# deep"},
		"comments.yaml": {"# sops:enc", "# a comment after it"},
		"vars.env":      {"# a comment", "# another"},
	} {
		got, err := sops.Open(name, sealed(t)[name], identity(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range words {
			if !strings.Contains(string(got), line) {
				t.Errorf("%s lacks %q:\n%s", name, line, got)
			}
		}
	}
}

func TestOtherNamesDoNotHideTheFormat(t *testing.T) {
	for name, fixture := range map[string]string{
		"values.enc": "types.yaml", "prod-env": "vars.env", "config.json.tmpl": "types.json", "blob": "blob.bin", "db.yml": "regex.yaml",
	} {
		data := sealed(t)[fixture]
		got, err := sops.Open(name, data, identity(t))
		if err != nil || !sops.IsSOPS(name, data) {
			t.Errorf("%s as %s: %v", fixture, name, err)
			continue
		}
		if diff := cmp.Diff(values(t, fixture, read(t, "testdata/plain/"+fixture)), values(t, fixture, got)); diff != "" {
			t.Errorf("%s as %s:\n%s", fixture, name, diff)
		}
	}
}

func TestAKeyGroupOfItsOwnIsRead(t *testing.T) {
	nested := regexp.MustCompile(`(?s)\n    age:\n(.*?)\n    lastmodified`).
		ReplaceAllStringFunc(string(sealed(t)["types.yaml"]), func(found string) string {
			body, _ := strings.CutPrefix(found, "\n    age:\n")
			body, _ = strings.CutSuffix(body, "\n    lastmodified")
			return "\n    key_groups:\n      - hc_vault: []\n        age:\n" + strings.ReplaceAll("    "+body, "\n", "\n    ") + "\n    lastmodified"
		})
	if !strings.Contains(nested, "key_groups") {
		t.Fatal("the fixture has another shape")
	}
	if _, err := sops.Open("types.yaml", []byte(nested), identity(t)); err != nil {
		t.Error(err)
	}
}

func TestWithoutItsIdentityTheRecipientsAreNamed(t *testing.T) {
	stranger, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	mine, ok := identity(t).(*age.X25519Identity)
	if !ok {
		t.Fatal("another kind of identity")
	}
	for name, data := range sealed(t) {
		for _, ids := range [][]age.Identity{nil, {stranger}} {
			_, err := sops.Open(name, data, ids...)
			var none *sops.NoIdentityError
			if !errors.As(err, &none) || !strings.Contains(err.Error(), mine.Recipient().String()) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestWhatIsNotSupportedSaysSo(t *testing.T) {
	keys := regexp.MustCompile(`(?s)\n    age:\n.*?\n    lastmodified`)
	foreign := func(block string) []byte {
		return keys.ReplaceAll(sealed(t)["types.yaml"], []byte("\n"+block+"\n    lastmodified"))
	}
	for name, c := range map[string]struct {
		file string
		data []byte
		want string
	}{
		"two groups": {"a.yaml", read(t, "testdata/sealed/groups.yaml"), "several key groups"},
		"pgp alone":  {"a.yaml", foreign("    pgp:\n        - enc: x\n          fp: y"), "a key of pgp"},
		"kms alone":  {"a.yaml", foreign("    kms:\n        - enc: x\n          arn: y\n    gcp_kms:\n        - enc: z"), "a key of kms, gcp_kms"},
		"ini":        {"a.ini", []byte("[a]\nb = ENC[AES256_GCM,data:x]\n[sops]\nmac = x\n"), "the INI format"},
		"too large":  {"a.yaml", make([]byte, sops.MaxFile+1), "more than 8 MiB"},
		"too many":   {"a.yaml", []byte("a: [" + strings.Repeat("b,", 1<<20) + "]\nsops: {}\n"), "more values than anybody writes"},
		"too deep":   {"a.json", []byte(`{"sops":{"mac":"` + "ENC[AES256_GCM,x]" + `"},"a":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "}"), "deeper nesting"},
	} {
		_, err := sops.Open(c.file, c.data, identity(t))
		var unsupported *sops.UnsupportedError
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoSOPSIsSeenInPlainFiles(t *testing.T) {
	for name, text := range map[string]string{
		"a.yaml": "a: ENC[AES256_GCM,data:x]\n", "b.yaml": "data:\n  x: |\n    sops:\n      mac: ENC[AES256_GCM,x]\n", "a.json": `{"a":"ENC[AES256_GCM,","b":{"sops":1}}`,
		"a.env": "A=ENC[AES256_GCM,data\n", "README": "see sops: it writes ENC[AES256_GCM,...]\n",
	} {
		if sops.IsSOPS(name, []byte(text)) {
			t.Errorf("%s is taken for a file of sops", name)
		}
	}
}
