package idtoken_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/pluralsh/plural/hubsvc/idtoken"
)

const (
	issuer = "https://hub.example.com/oidc"
	layout = "20060102T150405Z"
)

var start = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

// first is a file with one key, made once: keys take time.
var first = sync.OnceValues(func() (map[string]string, error) { return idtoken.Rotate(nil, start, false) })

func rotate(t testing.TB, file map[string]string, now time.Time, seen bool) map[string]string {
	t.Helper()
	next, err := idtoken.Rotate(file, now, seen)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func parse(t testing.TB, file map[string]string) *idtoken.Keys {
	t.Helper()
	keys, err := idtoken.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func firstFile(t testing.TB) map[string]string {
	t.Helper()
	file, err := first()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func encoded(t testing.TB, private any) string {
	t.Helper()
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
}

func TestAFileThatHoldsNoKeysIsRefusedWithoutRepeatingIt(t *testing.T) {
	file := firstFile(t)
	name := start.Format(layout)
	good := file[name]
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	nine := map[string]string{}
	for n := range 9 {
		nine[start.Add(time.Duration(n)*time.Hour).Format(layout)] = good
	}
	for what, test := range map[string]struct {
		file map[string]string
		want string
	}{
		"nothing":                     {nil, "0 keys in place of 1 to 8"},
		"too many keys":               {nine, "9 keys"},
		"a key with another name":     {map[string]string{"canary-name": good}, "not named by the time"},
		"a time with a fraction":      {map[string]string{"20261122T100000.5Z": good}, "not named by the time"},
		"a time of another zone":      {map[string]string{"20261122T100000+01": good}, "not named by the time"},
		"no PEM":                      {map[string]string{name: "canary"}, "key " + name + ": it is no PEM"},
		"something behind the PEM":    {map[string]string{name: good + "canary"}, "it is no PEM"},
		"two keys under one name":     {map[string]string{name: good + good}, "it is no PEM"},
		"PEM of something else":       {map[string]string{name: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("canary")}))}, "no PKCS #8"},
		"a key that is too short":     {map[string]string{name: encoded(t, short)}, "no RSA key of 2048 to 8192 bits"},
		"a key of another kind":       {map[string]string{name: encoded(t, curve)}, "no RSA key"},
		"a good key beside a bad one": {map[string]string{name: good, "20261123T100000Z": ""}, "key 20261123T100000Z: it is no PEM"},
	} {
		keys, err := idtoken.Parse(test.file)
		if err == nil || keys != nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestKeysPrintAsNothing(t *testing.T) {
	keys := parse(t, firstFile(t))
	for _, text := range []string{fmt.Sprint(keys), fmt.Sprintf("%+v", keys), fmt.Sprintf("%#v", keys)} {
		if text != "[redacted]" {
			t.Error(text)
		}
	}
}

// ids are the key IDs that applications are shown, in order.
func ids(t testing.TB, keys *idtoken.Keys) (all []string) {
	t.Helper()
	text, err := keys.Set()
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	for _, k := range set.Keys {
		if !k.IsPublic() || k.Use != "sig" || k.Algorithm != "RS256" {
			t.Errorf("%+v", k)
		}
		all = append(all, k.KeyID)
	}
	return all
}

func signer(t testing.TB, keys *idtoken.Keys, now time.Time) string {
	t.Helper()
	raw, err := keys.Sign(map[string]any{"sub": "ada"}, now)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := jwt.NewParser().ParseUnverified(raw, jwt.MapClaims{})
	if err != nil {
		t.Fatal(err)
	}
	id, _ := token.Header["kid"].(string)
	return id
}

func TestANewKeyIsShownForAnHourBeforeItSigns(t *testing.T) {
	one := firstFile(t)
	if keys := parse(t, one); len(ids(t, keys)) != 1 || signer(t, keys, start) != ids(t, keys)[0] {
		t.Fatal("the first key does not sign at once")
	}
	day := start.Add(24 * time.Hour)
	two := rotate(t, one, day, false)
	keys := parse(t, two)
	shown := ids(t, keys)
	if len(shown) != 2 || shown[0] != ids(t, parse(t, one))[0] {
		t.Fatalf("shown are %v", shown)
	}
	for at, want := range map[time.Duration]string{
		-48 * time.Hour: shown[0], 0: shown[0], idtoken.Shown - time.Second: shown[0], idtoken.Shown: shown[1], 1000 * time.Hour: shown[1],
	} {
		if got := signer(t, keys, day.Add(at)); got != want {
			t.Errorf("%s after the rotation signs %s, of %v", at, got, shown)
		}
	}

	tooSoon := new(idtoken.TooSoonError)
	if _, err := idtoken.Rotate(two, day.Add(idtoken.Shown-time.Second), false); !errors.As(err, &tooSoon) || !tooSoon.Until.Equal(day.Add(idtoken.Shown)) {
		t.Errorf("another before the newest signs: %v", err)
	}
	three := rotate(t, two, day.Add(idtoken.Shown), false)
	if got := ids(t, parse(t, three)); len(got) != 2 || got[0] != shown[1] || got[1] == shown[0] {
		t.Errorf("after another rotation %v are shown, after %v", got, shown)
	}
}

func TestOfKeysThatSomebodyHasSeenNoneIsKept(t *testing.T) {
	one := firstFile(t)
	two := rotate(t, one, start.Add(time.Hour), false)
	for what, file := range map[string]map[string]string{
		"none": nil, "one key": one, "two keys": two, "a file that is damaged": {"nonsense": "nonsense"},
	} {
		now := start.Add(90 * time.Minute) // when the newest does not sign yet
		next := rotate(t, file, now, true)
		keys := parse(t, next)
		if got := ids(t, keys); len(got) != 1 || signer(t, keys, now) != got[0] || slices.Contains(ids(t, parse(t, two)), got[0]) {
			t.Errorf("%s: %v", what, got)
		}
	}
	if _, err := idtoken.Rotate(map[string]string{"nonsense": "nonsense"}, start, false); err == nil {
		t.Error("a damaged file is rotated, and its keys are lost")
	}
}

func TestRotationChangesNoFileThatItIsGiven(t *testing.T) {
	one := maps.Clone(firstFile(t))
	rotate(t, one, start.Add(time.Hour), false)
	rotate(t, one, start.Add(time.Hour), true)
	if !maps.Equal(one, firstFile(t)) {
		t.Error("the file before has changed")
	}
}

func TestATokenTellsItsSubjectWhileItsKeyIsKnown(t *testing.T) {
	keys := parse(t, firstFile(t))
	other := parse(t, rotate(t, nil, start, false))
	claims := func(more map[string]any) map[string]any {
		all := map[string]any{"iss": issuer, "sub": "ada", "aud": "grafana", "exp": start.Unix()}
		maps.Copy(all, more)
		return all
	}
	sign := func(by *idtoken.Keys, more map[string]any) string {
		raw, err := by.Sign(claims(more), start)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	good := sign(keys, nil)
	header, rest, _ := strings.Cut(good, ".")
	payload, _, _ := strings.Cut(rest, ".")
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims(claims(nil))).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	set, err := keys.Set()
	if err != nil {
		t.Fatal(err)
	}
	symmetric := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims(claims(nil)))
	symmetric.Header["kid"] = ids(t, keys)[0]
	confused, err := symmetric.SignedString(set) // which anybody has
	if err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		raw  string
		good bool
	}{
		"one of the hub's":          {good, true},
		"one that has expired":      {sign(keys, map[string]any{"exp": start.Add(-time.Hour).Unix()}), true},
		"of another issuer":         {sign(keys, map[string]any{"iss": "https://other.example.com/oidc"}), false},
		"for two applications":      {sign(keys, map[string]any{"aud": []string{"grafana", "wiki"}}), false},
		"for none":                  {sign(keys, map[string]any{"aud": []string{}}), false},
		"signed by another key":     {sign(other, nil), false},
		"without its signature":     {header + "." + payload + ".", false},
		"signed by nobody":          {unsigned, false},
		"signed by the public keys": {confused, false},
		"with another's claims":     {header + "." + strings.Split(sign(keys, map[string]any{"sub": "eve"}), ".")[1] + good[strings.LastIndexByte(good, '.'):], false},
		"nothing":                   {"", false},
	} {
		subject, application, err := keys.Subject(test.raw, issuer)
		if (err == nil) != test.good || test.good && (subject != "ada" || application != "grafana") || !test.good && subject+application != "" {
			t.Errorf("%s: %q for %q, %v", what, subject, application, err)
		}
	}
}

// FuzzParse holds that whatever is taken signs, and survives a rotation.
func FuzzParse(f *testing.F) {
	file := firstFile(f)
	name := start.Format(layout)
	f.Add(name, file[name])
	f.Add("20261122T100000.5Z", file[name])
	f.Add(name, "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n")
	f.Add(name, "")
	f.Fuzz(func(t *testing.T, name, text string) {
		keys, err := idtoken.Parse(map[string]string{name: text})
		if err != nil {
			return
		}
		from, err := time.Parse(layout, name)
		if err != nil {
			t.Fatal(err)
		}
		if from.Year() > 9000 {
			return // with five digits a year later
		}
		id := signer(t, keys, from)
		if next := ids(t, parse(t, rotate(t, map[string]string{name: text}, from.AddDate(1, 0, 0), false))); len(next) != 2 || next[0] != id {
			t.Errorf("%q is lost by a rotation", name)
		}
	})
}
