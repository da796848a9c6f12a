package oidc_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/pluralsh/plural/hubsvc/oidc"
	"github.com/pluralsh/plural/test/support/issuer"
)

const client = "plural"

// world is an issuer, and a verifier whose clock a test moves.
type world struct {
	*issuer.Issuer
	verifier *oidc.Verifier
	now      time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Issuer: issuer.Start(t), now: time.Now().Truncate(time.Second)}
	w.verifier = oidc.New(oidc.Options{Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler)})
	return w
}

func (w *world) verify(raw string) error {
	w.Helper()
	token, err := w.verifier.Verify(w.Context(), raw, w.URL, client)
	if (err == nil) != (token != nil) {
		w.Fatalf("%v, %v", token, err)
	}
	return err
}

func (w *world) claims(more map[string]any) map[string]any {
	return w.Claims("00u1abc", client, w.now, more)
}

// I1, I9.
func TestATokenIsHeldToItsSignatureItsTimesAndWhomItIsFor(t *testing.T) {
	w := newWorld(t)
	public, err := x509.MarshalPKIXPublicKey(w.Public())
	if err != nil {
		t.Fatal(err)
	}
	other := issuer.Start(t)
	unsigned := func(claims map[string]any) string {
		text, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(text) + "."
	}
	good := w.Token(w.claims(nil))
	at := func(d time.Duration) int64 { return w.now.Add(d).Unix() }
	for name, test := range map[string]struct {
		token string
		want  bool
	}{
		"as made":                            {good, true},
		"alg none":                           {unsigned(w.claims(nil)), false},
		"without its signature":              {good[:strings.LastIndexByte(good, '.')+1], false},
		"HS256 with the public key":          {w.Signed(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: public, KeyID: "one"}}, w.claims(nil)), false},
		"the key of another issuer":          {w.Signed(jose.SigningKey{Algorithm: jose.ES256, Key: other.Key()}, w.claims(nil)), false},
		"a key ID that is a path":            {w.Signed(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: other.Key().Key, KeyID: "../../keys"}}, w.claims(nil)), false},
		"a key that the token brings along":  {embedded(t, w, other), false},
		"another issuer's claims":            {w.Token(w.claims(map[string]any{"iss": other.URL})), false},
		"no issuer":                          {w.Token(w.claims(map[string]any{"iss": nil})), false},
		"for somebody else":                  {w.Token(w.claims(map[string]any{"aud": "grafana"})), false},
		"for nobody":                         {w.Token(w.claims(map[string]any{"aud": nil})), false},
		"for several, and it says for which": {w.Token(w.claims(map[string]any{"aud": []string{"grafana", client}, "azp": client})), true},
		"for several, and not for which":     {w.Token(w.claims(map[string]any{"aud": []string{"grafana", client}})), false},
		"for several, and made for another":  {w.Token(w.claims(map[string]any{"aud": []string{"grafana", client}, "azp": "grafana"})), false},
		"made for another":                   {w.Token(w.claims(map[string]any{"azp": "grafana"})), false},
		"expired 29 seconds ago":             {w.Token(w.claims(map[string]any{"exp": at(-29 * time.Second)})), true},
		"expired 31 seconds ago":             {w.Token(w.claims(map[string]any{"exp": at(-31 * time.Second)})), false},
		"without an end":                     {w.Token(w.claims(map[string]any{"exp": nil})), false},
		"made 30 seconds ahead":              {w.Token(w.claims(map[string]any{"iat": at(30 * time.Second)})), true},
		"made five minutes ahead":            {w.Token(w.claims(map[string]any{"iat": at(5 * time.Minute)})), false},
		"made at no time":                    {w.Token(w.claims(map[string]any{"iat": nil})), false},
		"good from 30 seconds ahead":         {w.Token(w.claims(map[string]any{"nbf": at(30 * time.Second)})), true},
		"good from five minutes ahead":       {w.Token(w.claims(map[string]any{"nbf": at(5 * time.Minute)})), false},
		"the times of another form":          {w.Token(w.claims(map[string]any{"iat": "yesterday"})), false},
		"a token with a line behind it":      {good + "\n", false},
		"something else":                     {"a.b.c", false},
		"nothing":                            {"", false},
	} {
		if err := w.verify(test.token); (err == nil) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// embedded is a token that names the key to verify it with.
func embedded(t *testing.T, w *world, by *issuer.Issuer) string {
	t.Helper()
	key := by.Key()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key.Key}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(w.claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestNoneOfAThousandMutatedTokensIsTaken(t *testing.T) {
	w := newWorld(t)
	good := w.Token(w.claims(nil))
	if err := w.verify(good); err != nil {
		t.Fatal(err)
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
	random := rand.New(rand.NewPCG(1, 2))
	want, err := jose.ParseSigned(good, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		mutated := []byte(good)
		for range 1 + random.IntN(3) {
			mutated[random.IntN(len(mutated))] = letters[random.IntN(len(letters))]
		}
		if w.verify(string(mutated)) != nil {
			continue
		}
		// The last letter of a part has bits that mean nothing: such a token is the same one.
		same, err := jose.ParseSigned(string(mutated), []jose.SignatureAlgorithm{jose.ES256})
		if err != nil || string(same.UnsafePayloadWithoutVerification()) != string(want.UnsafePayloadWithoutVerification()) {
			t.Errorf("taken: %s", mutated)
		}
	}
}

// I8.
func TestKeysAreAskedForOnceAndAgainForANewOneAtMostEachMinute(t *testing.T) {
	w := newWorld(t)
	for range 100 {
		if err := w.verify(w.Token(w.claims(nil))); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.Requests.Load(); n != 1 {
		t.Errorf("%d requests for keys of 100 tokens", n)
	}
	forged := jose.JSONWebKey{Key: issuer.Start(t).Key().Key}
	for i := range 200 {
		forged.KeyID = fmt.Sprint("made up ", i)
		if err := w.verify(w.Signed(jose.SigningKey{Algorithm: jose.ES256, Key: forged}, w.claims(nil))); err == nil {
			t.Fatal("a forged token is taken")
		}
	}
	if n := w.Requests.Load(); n > 2 {
		t.Errorf("%d requests for keys of 200 tokens with made-up keys", n)
	}
	w.Rotate("two")
	w.now = w.now.Add(61 * time.Second)
	if err := w.verify(w.Token(w.claims(nil))); err != nil {
		t.Errorf("after the issuer has a new key: %v", err)
	}
}

// I8, I17.
func TestWhileAnIssuerIsAwayItsKnownKeysGoOnForADay(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter) bool{
		"down": func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusServiceUnavailable); return true },
		"ten megabytes": func(w http.ResponseWriter) bool {
			_, _ = w.Write([]byte(`{"keys": ["` + strings.Repeat("x", 10<<20)))
			return true
		},
		"no JSON": func(w http.ResponseWriter) bool { _, _ = w.Write([]byte("<html>")); return true },
		"no keys": func(w http.ResponseWriter) bool { _, _ = w.Write([]byte(`{"keys": []}`)); return true },
		"a secret as key": func(w http.ResponseWriter) bool {
			_, _ = w.Write([]byte(`{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]}`))
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Answers(answer)
			away := new(oidc.Unavailable)
			if err := w.verify(w.Token(w.claims(nil))); !errors.As(err, &away) || away.Issuer != w.URL {
				t.Fatalf("at first: %v", err)
			}
			w.Answers(nil)
			w.now = w.now.Add(2 * time.Second)
			if err := w.verify(w.Token(w.claims(nil))); err != nil {
				t.Fatalf("when it is back: %v", err)
			}
			w.Answers(answer)
			for _, later := range []time.Duration{2 * time.Hour, 21 * time.Hour} {
				w.now = w.now.Add(later)
				if err := w.verify(w.Token(w.claims(nil))); err != nil {
					t.Errorf("%s later: %v", later, err)
				}
			}
			w.now = w.now.Add(2 * time.Hour)
			if err := w.verify(w.Token(w.claims(nil))); !errors.As(err, &away) {
				t.Errorf("a day later: %v", err)
			}
		})
	}
}

func TestThoseWhoWaitForKeysAskOnce(t *testing.T) {
	w := newWorld(t)
	token := w.Token(w.claims(nil))
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			if err := w.verify(token); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if n := w.Requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestAnIssuerOnThisMachineIsRefusedWhereItMayNotBeAsked(t *testing.T) {
	w := newWorld(t)
	w.verifier = oidc.New(oidc.Options{NoLoopback: true, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err := w.verify(w.Token(w.claims(nil))); err == nil || w.Requests.Load() != 0 {
		t.Errorf("%v after %d requests", err, w.Requests.Load())
	}
}

func TestErrorsDoNotRepeatTokens(t *testing.T) {
	w := newWorld(t)
	const canary = "canary-4711"
	for _, more := range []map[string]any{{"exp": 1}, {"aud": canary}, {"iss": canary}, {"azp": canary}, {"iat": canary}} {
		more["secret"] = canary
		raw := w.Token(w.claims(more))
		if err := w.verify(raw); err == nil || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), raw[:20]) {
			t.Errorf("%v: %v", more, err)
		}
	}
}

func FuzzKeysOfAClusterAreReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"keys":[{"use":"sig","kty":"RSA","kid":"a","alg":"RS256","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc","e":"AQAB"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","kid":"b","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0"},{"kty":"OKP","crv":"Ed25519","x":""}]}`))
	verifier := oidc.New(oidc.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, set []byte) {
		keys, err := oidc.ReadKeys("https://kubernetes.default.svc", set)
		if (err == nil) != (keys != nil) {
			t.Fatalf("%v, %v", keys, err)
		}
		if err != nil {
			return
		}
		if token, err := verifier.VerifyWith(t.Context(), "eyJhbGciOiJFUzI1NiIsImtpZCI6ImIifQ.eyJpc3MiOiJ4In0.AAAA", keys, "hub"); err == nil {
			t.Fatalf("%+v", token)
		}
	})
}
