package auth_test

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/oidc"
	"github.com/pluralsh/plural/hubsvc/signing"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// door is a hub's People whose fleet and clock a test moves.
type door struct {
	*auth.People
	testing.TB
	known *auth.Directory
	now   time.Time
	hubs  string // the hub's own token
	file  string
	log   lines
	keys  *signing.Ring
	// verifier is the same for all replicas of a test.
	verifier *oidc.Verifier
	nats     *natsd.Server
	// accounts is what agents have reported, by cluster.
	accounts map[string]auth.ServiceAccounts
}

func newDoor(t testing.TB) *door {
	t.Helper()
	d := &door{TB: t, known: nobody(), now: time.Now().Truncate(time.Second), file: filepath.Join(t.TempDir(), "token")}
	d.keys, d.nats = ring(t, "kube", func() time.Time { return d.now })
	d.verifier = oidc.New(oidc.Options{Now: func() time.Time { return d.now }, Log: slog.New(&d.log)})
	d.People = d.replica()
	raw, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	d.hubs = strings.TrimSpace(string(raw))
	return d
}

const hubURL = "https://hub.example.com"

// sessionKeys are those of one replica more.
func (d *door) sessionKeys() *signing.Ring {
	o := d.keys.Options
	o.Purpose, o.Lifetime = "session", auth.SessionValidity
	return signing.New(o)
}

// replica is one more process with the same token and the same NATS.
func (d *door) replica() *auth.People {
	d.Helper()
	people, err := auth.NewPeople(auth.Options{
		File: d.file, Keys: signing.New(d.keys.Options), SessionKeys: d.sessionKeys(), URL: func() string { return hubURL }, Verifier: d.verifier, Now: func() time.Time { return d.now }, Log: slog.New(&d.log),
		Directory: func() *auth.Directory { return d.known },
		ServiceAccounts: func(cluster string) (auth.ServiceAccounts, bool) {
			said, ok := d.accounts[cluster]
			return said, ok
		},
	})
	if err != nil {
		d.Fatal(err)
	}
	return people
}

// fleet makes it all that the hub serves.
func (d *door) fleet(users ...fleet.User) { d.known = auth.NewDirectory(&fleet.Fleet{Users: users}) }

// ada is a user with a token, which may expire.
func ada(token, expires string, groups ...string) fleet.User {
	return fleet.User{Metadata: fleet.Metadata{Name: "ada"}, Spec: fleet.UserSpec{
		Groups: groups, Tokens: []fleet.UserToken{{Name: "laptop", Hash: fleet.HashToken(token), Expires: expires}},
	}}
}

func (d *door) asks(raw string) *http.Request { return request(d.TB, "Bearer "+raw) }

func TestAUserIsWhoeverShowsATokenOfTheirs(t *testing.T) {
	d, token := newDoor(t), fleet.NewToken()
	d.fleet(ada(token, "", "staff", "admins", "staff"))
	got, err := d.Person(d.asks(token))
	if err != nil || got.Name != "ada" || !slices.Equal(got.Groups, []string{"admins", "staff"}) || got.Operator || !got.Expires.IsZero() {
		t.Errorf("Person = %+v, %v", got, err)
	}
	if got.Credential == "" || strings.Contains(got.Credential, token) {
		t.Errorf("credential %q", got.Credential)
	}
	operator, err := d.Person(d.asks(d.hubs))
	if err != nil || !operator.Operator || operator.Credential == got.Credential {
		t.Errorf("Person of the hub's token = %+v, %v", operator, err)
	}
	for _, raw := range []string{"", "x", token + "x", token[1:], fleet.HashToken(token), fleet.NewToken(), "hub", strings.Repeat("a", 5000)} {
		if got, err := d.Person(d.asks(raw)); !errors.Is(err, auth.ErrUnauthenticated) || got.Name != "" {
			t.Errorf("%.20q is %+v, %v", raw, got, err)
		}
	}
}

// P6: what is taken out of the fleet counts no more from the next request on, on open streams too.
func TestAnExpiredTokenIsToldFromAnUnknownOneAndFromNone(t *testing.T) {
	d := newDoor(t)
	d.fleet(ada("adas", d.now.UTC().Format(time.RFC3339)))
	day := d.now.UTC().Format(time.DateOnly)
	for token, want := range map[string][2]string{
		"":     {"not logged in to this hub", "plural auth login"},
		"adas": {`the token of user "ada" expired on ` + day, "plural auth token create ada"},
		"bobs": {"this hub knows no such token as was sent", "plural auth token list"},
	} {
		r := &http.Request{Header: http.Header{}}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		_, err := d.Person(r)
		status, message, fix := principal.Answer(err)
		if !errors.Is(err, auth.ErrUnauthenticated) || status != http.StatusUnauthorized || message != want[0] ||
			!strings.Contains(fix, want[1]) {
			t.Errorf("%q: %d, %q, fix %q", token, status, message, fix)
		}
	}
}

func TestARemovedOrExpiredTokenIsRefusedAtOnce(t *testing.T) {
	d, token := newDoor(t), fleet.NewToken()
	expires := d.now.Add(time.Hour)
	full := func() { d.fleet(ada(token, expires.UTC().Format(time.RFC3339), "staff")) }
	tests := map[string]struct {
		change func()
		want   bool
	}{
		"nothing changed":          {func() {}, true},
		"just before it expires":   {func() { d.now = expires.Add(-time.Second) }, true},
		"it expired":               {func() { d.now = expires }, false},
		"the user was removed":     {func() { d.fleet() }, false},
		"the token was removed":    {func() { d.fleet(ada(fleet.NewToken(), "")) }, false},
		"it is another user's now": {func() { u := ada(token, ""); u.Metadata.Name = "eve"; d.fleet(u) }, false},
	}
	start := d.now
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d.now = start
			full()
			before, err := d.Person(d.asks(token))
			if err != nil {
				t.Fatal(err)
			}
			kube, _, err := d.Issue(d.Context(), before, "edge-1", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			test.change()
			if _, err := d.Current(before); (err == nil) != test.want {
				t.Errorf("Current: %v", err)
			}
			if name == "just before it expires" {
				return // the token for the cluster ended before
			}
			if _, err := d.KubePerson(d.asks(kube), "edge-1"); (err == nil) != test.want {
				t.Errorf("KubePerson: %v", err)
			}
		})
	}
}

func TestGroupsAreThoseOfTheFleetNow(t *testing.T) {
	d, token := newDoor(t), fleet.NewToken()
	d.fleet(ada(token, "", "admins"))
	before, err := d.Person(d.asks(token))
	if err != nil {
		t.Fatal(err)
	}
	kube, _, err := d.Issue(d.Context(), before, "edge-1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	d.fleet(ada(token, "", "guests"))
	now, err := d.Current(before)
	later, kubeErr := d.KubePerson(d.asks(kube), "edge-1")
	if err != nil || kubeErr != nil || !slices.Equal(now.Groups, []string{"guests"}) || !slices.Equal(later.Groups, []string{"guests"}) {
		t.Errorf("%+v, %v; %+v, %v", now, err, later, kubeErr)
	}
}

func TestATokenForAClusterIsGoodForThatClusterOnEveryReplica(t *testing.T) {
	d, token := newDoor(t), fleet.NewToken()
	d.fleet(ada(token, ""))
	for _, login := range []string{token, d.hubs} {
		who, err := d.Person(d.asks(login))
		if err != nil {
			t.Fatal(err)
		}
		kube, expires, err := d.Issue(d.Context(), who, "edge-1", time.Hour)
		if err != nil || !expires.Equal(d.now.Add(auth.KubeLifetime)) || strings.Contains(kube, login) {
			t.Fatalf("Issue: %v, %v", expires, err)
		}
		got, err := d.replica().KubePerson(d.asks(kube), "edge-1")
		if err != nil || got.Name != who.Name || got.Operator != who.Operator || got.Credential != who.Credential {
			t.Errorf("KubePerson = %+v, %v", got, err)
		}
		if got, err := d.KubePerson(d.asks(login), "edge-1"); err != nil || got.Name != who.Name {
			t.Errorf("the login itself: %+v, %v", got, err)
		}
		if _, err := d.KubePerson(d.asks(kube), "edge-2"); err == nil {
			t.Error("it is good for another cluster")
		}
		if _, err := d.Person(d.asks(kube)); err == nil {
			t.Error("it is good for the whole hub, and so could renew itself")
		}
		d.now = d.now.Add(auth.KubeLifetime + time.Minute)
		if _, err := d.KubePerson(d.asks(kube), "edge-1"); err == nil {
			t.Error("it never expires")
		}
	}
}

func TestATokenForAClusterEndsWithTheLogin(t *testing.T) {
	d, token := newDoor(t), fleet.NewToken()
	ends := d.now.Add(time.Minute)
	d.fleet(ada(token, ends.UTC().Format(time.RFC3339)))
	who, err := d.Person(d.asks(token))
	if err != nil {
		t.Fatal(err)
	}
	if _, expires, err := d.Issue(d.Context(), who, "edge-1", time.Hour); err != nil || !expires.Equal(ends) {
		t.Errorf("expires %v, want %v; %v", expires, ends, err)
	}
	if _, _, err := d.Issue(d.Context(), principal.Person{Name: "ada", Operator: true}, "edge-1", time.Hour); err == nil {
		t.Error("somebody who showed nothing got a token")
	}
}

// U9: what a token says of how it is to be verified counts for nothing.
func TestForgedTokensForAClusterAreRefused(t *testing.T) {
	d := newDoor(t)
	operator, err := d.Person(d.asks(d.hubs))
	if err != nil {
		t.Fatal(err)
	}
	good, _, err := d.Issue(d.Context(), operator, "edge-1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	kid, secret, err := d.keys.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claims := func(change func(map[string]any)) string {
		raw, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(out)
	}
	header := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	signed := func(method jwt.SigningMethod, kid string, key any, name string, value any) string {
		m := jwt.MapClaims{"iss": "plural-hub", "sub": "operator", "aud": "kubernetes/edge-1", "par": operator.Credential, "iat": d.now.Unix(), "exp": d.now.Add(time.Minute).Unix()}
		m[name] = value
		unsigned := jwt.NewWithClaims(method, m)
		unsigned.Header["kid"] = kid
		raw, err := unsigned.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	none := jwt.UnsafeAllowNoneSignatureType
	for name, raw := range map[string]string{
		"no signature":          parts[0] + "." + parts[1] + ".",
		"alg none":              header(`{"alg":"none"}`) + "." + parts[1] + ".",
		"alg none, signed":      signed(jwt.SigningMethodNone, kid, none, "x", 1),
		"another alg":           header(`{"alg":"HS512","typ":"JWT"}`) + "." + parts[1] + "." + parts[2],
		"alg RS256":             header(`{"alg":"RS256","typ":"JWT"}`) + "." + parts[1] + "." + parts[2],
		"alg in another case":   header(`{"alg":"hs256","typ":"JWT"}`) + "." + parts[1] + "." + parts[2],
		"no kid":                header(`{"alg":"HS256","typ":"JWT"}`) + "." + parts[1] + "." + parts[2],
		"kid is a number":       header(`{"alg":"HS256","kid":1}`) + "." + parts[1] + "." + parts[2],
		"kid is a path":         header(`{"alg":"HS256","kid":"../../dev/null"}`) + "." + parts[1] + "." + parts[2],
		"another cluster":       parts[0] + "." + claims(func(m map[string]any) { m["aud"] = []string{"kubernetes/edge-2"} }) + "." + parts[2],
		"a year":                parts[0] + "." + claims(func(m map[string]any) { m["exp"] = 253402300799 }) + "." + parts[2],
		"signed with nothing":   signed(jwt.SigningMethodHS256, kid, []byte{}, "x", 1),
		"signed with the token": signed(jwt.SigningMethodHS256, kid, []byte(d.hubs), "x", 1),
		"signed with its ID":    signed(jwt.SigningMethodHS256, kid, []byte(kid), "x", 1),
		"right key, no such ID": signed(jwt.SigningMethodHS256, "nobody", secret, "x", 1),
		"right key, HS512":      signed(jwt.SigningMethodHS512, kid, secret, "x", 1),
		"padded":                good + "=",
		"four parts":            good + ".x",
		"many dots":             strings.Repeat(".", 2000),
		"two dots":              "..",
		"a megabyte":            parts[0] + "." + strings.Repeat("A", 1<<20) + "." + parts[2],
		"newline inside":        parts[0] + "." + parts[1] + ".\n" + parts[2],
	} {
		if got, err := d.KubePerson(d.asks(raw), "edge-1"); !errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := d.KubePerson(d.asks(good), "edge-1"); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

// Whoever scrapes figures or sends hooks may have the operator's token, and users' hashes are public: neither signs anything.
func TestTheOperatorsTokenSignsForNobody(t *testing.T) {
	d, token := newDoor(t), fleet.NewToken()
	d.fleet(ada(token, ""))
	derived, err := hkdf.Key(sha256.New, []byte(d.hubs), nil, "plural kubernetes token v1", sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	kid, _, err := d.keys.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(d.hubs))
	for name, key := range map[string][]byte{"derived as it was once": derived, "itself": []byte(d.hubs), "its hash": sum[:]} {
		for _, id := range []any{nil, kid, ""} {
			forged := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
				"iss": "plural-hub", "sub": "ada", "aud": []string{"kubernetes/edge-1"}, "par": fleet.HashToken(token),
				"iat": d.now.Unix(), "exp": d.now.Add(time.Minute).Unix(),
			})
			if id != nil {
				forged.Header["kid"] = id
			}
			raw, err := forged.SignedString(key)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := d.KubePerson(d.asks(raw), "edge-1"); err == nil {
				t.Errorf("%s, kid %v: %+v", name, id, got)
			}
		}
	}
}

func TestAKeyForSomethingElseSignsNoTokenForACluster(t *testing.T) {
	d := newDoor(t)
	o := d.keys.Options
	o.Purpose = "sessions"
	sessions := auth.Options{Log: slog.New(slog.DiscardHandler), File: d.file, Keys: signing.New(o), Now: o.Now, Directory: nobody}
	other, err := auth.NewPeople(sessions)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := d.Person(d.asks(d.hubs))
	if err != nil {
		t.Fatal(err)
	}
	raw, _, err := other.Issue(t.Context(), operator, "edge-1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.KubePerson(d.asks(raw), "edge-1"); err != nil {
		t.Fatalf("where it was made: %v", err)
	}
	if got, err := d.KubePerson(d.asks(raw), "edge-1"); err == nil {
		t.Errorf("it is %+v", got)
	}
}

func TestWhileTheKeysAreOutOfReachWhoAsksIsToldToTryAgain(t *testing.T) {
	d := newDoor(t)
	operator, err := d.Person(d.asks(d.hubs))
	if err != nil {
		t.Fatal(err)
	}
	raw, _, err := d.Issue(t.Context(), operator, "edge-1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	started := d.replica()
	d.nats.Close()
	if _, err := d.KubePerson(d.asks(raw), "edge-1"); err != nil {
		t.Errorf("a key in memory: %v", err)
	}
	if _, _, err := d.Issue(t.Context(), operator, "edge-1", time.Minute); err != nil {
		t.Errorf("signing with a key in memory: %v", err)
	}
	_, errFind := started.KubePerson(d.asks(raw), "edge-1")
	_, _, errSign := started.Issue(t.Context(), operator, "edge-1", time.Minute)
	for _, err := range []error{errFind, errSign} {
		if status, message, fix := principal.Answer(err); status != http.StatusServiceUnavailable || !strings.Contains(message, "keys") || fix == "" {
			t.Errorf("%d %s: %s", status, message, fix)
		}
	}
	if got, err := started.KubePerson(d.asks(d.hubs), "edge-1"); err != nil || !got.Operator {
		t.Errorf("a token that needs no key: %+v, %v", got, err)
	}
}

// The hub's own token may be one that somebody wrote into its file, and a user's one that another program made.
func TestALastingTokenMayLookLikeOneForACluster(t *testing.T) {
	d := newDoor(t)
	const given, foreign = "dots.are.in.this-token-of-the-hub", "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmVkIGVsc2V3aGVyZQ"
	for _, hubs := range []string{given, "two.dots.in-this-token-of-the-hub"} {
		if err := os.WriteFile(d.file, []byte(hubs+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.People = d.replica()
		d.fleet(ada(foreign, ""))
		if got, err := d.KubePerson(d.asks(hubs), "edge-1"); err != nil || !got.Operator {
			t.Errorf("%s: %+v, %v", hubs, got, err)
		}
		if got, err := d.KubePerson(d.asks(foreign), "edge-1"); err != nil || got.Name != "ada" || got.Operator {
			t.Errorf("a user's: %+v, %v", got, err)
		}
	}
}

func FuzzKubePerson(f *testing.F) {
	file := filepath.Join(f.TempDir(), "token")
	people, err := auth.NewPeople(alone(f, file))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, raw string) {
		r := request(t, "Bearer "+raw)
		if p, err := people.KubePerson(r, "edge-1"); err == nil {
			t.Errorf("%q is %+v", raw, p)
		}
	})
}

func BenchmarkKubePerson(b *testing.B) {
	file := filepath.Join(b.TempDir(), "token")
	people, err := auth.NewPeople(alone(b, file))
	if err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(text)))
	operator, err := people.Person(r)
	if err != nil {
		b.Fatal(err)
	}
	raw, _, err := people.Issue(b.Context(), operator, "edge-1", time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+raw)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := people.KubePerson(r, "edge-1"); err != nil {
			b.Fatal(err)
		}
	}
}
