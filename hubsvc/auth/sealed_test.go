package auth_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/pluralsh/plural/hubsvc/auth"
)

// rings are keys by ID, of which "now" seals.
type rings map[string]string

func (r rings) Current(context.Context) (string, []byte, error) { return "now", []byte(r["now"]), nil }

func (r rings) Find(_ context.Context, id string) ([]byte, bool, error) {
	key, known := r[id]
	return []byte(key), known, nil
}

// nowhere are keys that cannot be reached.
type nowhere struct{}

var errNowhere = errors.New("the bucket is out of reach")

func (nowhere) Current(context.Context) (string, []byte, error)    { return "", nil, errNowhere }
func (nowhere) Find(context.Context, string) ([]byte, bool, error) { return nil, false, errNowhere }

func keysFor(t testing.TB) rings {
	t.Helper()
	return rings{"now": strings.Repeat("k", 32), "before": strings.Repeat("b", 32)}
}

func TestWhatIsSealedOpensUnchangedForItsPurposeAlone(t *testing.T) {
	keys := keysFor(t)
	sealed, err := auth.Seal(t.Context(), keys, "code", map[string]string{"who": "ada"})
	if err != nil || strings.Contains(sealed, "ada") {
		t.Fatal(sealed, err)
	}
	again, err := auth.Seal(t.Context(), keys, "code", map[string]string{"who": "ada"})
	if err != nil || again == sealed {
		t.Error("the same is sealed the same twice", err)
	}
	id, text, _ := strings.Cut(sealed, ".")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		purpose, sealed string
		good            bool
	}{
		"as it is":                    {"code", sealed, true},
		"for another purpose":         {"access token", sealed, false},
		"for no purpose":              {"", sealed, false},
		"under another key's ID":      {"code", "before." + text, false},
		"under the ID of no key":      {"code", "gone." + text, false},
		"without an ID":               {"code", "." + text, false},
		"without a point":             {"code", id + text, false},
		"with nothing behind it":      {"code", id + ".", false},
		"shorter than a nonce":        {"code", id + "." + base64.RawURLEncoding.EncodeToString(raw[:11]), false},
		"a nonce alone":               {"code", id + "." + base64.RawURLEncoding.EncodeToString(raw[:12]), false},
		"cut off":                     {"code", id + "." + base64.RawURLEncoding.EncodeToString(raw[:len(raw)-1]), false},
		"with something behind it":    {"code", id + "." + base64.RawURLEncoding.EncodeToString(append(raw[:len(raw):len(raw)], 0)), false},
		"with a line break in it":     {"code", sealed[:20] + "\n" + sealed[20:], false},
		"with padding":                {"code", sealed + "=", false},
		"in another alphabet":         {"code", id + "." + base64.StdEncoding.EncodeToString(raw), false},
		"with bits that count nobody": {"code", id + "." + lastBits(text), false},
	} {
		value := map[string]string{}
		err := auth.Unseal(t.Context(), keys, test.purpose, test.sealed, &value)
		if (err == nil) != test.good || test.good && value["who"] != "ada" || !test.good && (len(value) > 0 || !errors.Is(err, auth.ErrNotSealed)) {
			t.Errorf("%s: %v, %v", what, value, err)
		}
	}
	for at := range raw {
		raw[at] ^= 1
		if err := auth.Unseal(t.Context(), keys, "code", id+"."+base64.RawURLEncoding.EncodeToString(raw), &map[string]string{}); !errors.Is(err, auth.ErrNotSealed) {
			t.Errorf("with byte %d changed: %v", at, err)
		}
		raw[at] ^= 1
	}
	var other []string
	if err := auth.Unseal(t.Context(), keys, "code", sealed, &other); !errors.Is(err, auth.ErrNotSealed) {
		t.Errorf("as something else: %v", err)
	}
}

// lastBits is the same bytes in another writing, where base64 has bits to spare; else another text.
func lastBits(text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, text[len(text)-1])
	return text[:len(text)-1] + string(alphabet[last^1])
}

func TestWhileTheKeysAreOutOfReachNothingIsTakenForForged(t *testing.T) {
	if _, err := auth.Seal(t.Context(), nowhere{}, "code", 1); !errors.Is(err, errNowhere) {
		t.Error(err)
	}
	if err := auth.Unseal(t.Context(), nowhere{}, "code", "now.AAAA", new(int)); !errors.Is(err, errNowhere) || errors.Is(err, auth.ErrNotSealed) {
		t.Error(err)
	}
}

func FuzzUnseal(f *testing.F) {
	keys := keysFor(f)
	sealed, err := auth.Seal(f.Context(), keys, "code", "ada")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add("now.")
	f.Add("now.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, text string) {
		var value string
		if err := auth.Unseal(t.Context(), keys, "code", text, &value); err == nil && (value != "ada" || len(text) != len(sealed)) {
			t.Errorf("%q opens as %q", text, value)
		}
	})
}
