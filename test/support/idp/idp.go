// Package idp owns OpenID providers that tests sign in to, and the browser with which people do so.
//
// There are two, which share no code: zitadel's in this process ([Start]), and panva's as a node program ([StartNode]). Both
// know native public clients, whose secret is PKCE and which listen at http://127.0.0.1:<any port>/callback, and both give
// refresh tokens for the scope offline_access, each for one use, and sign devices in by code.
package idp

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ClientID is the client that every provider knows unless the options name others.
const ClientID = "plural"

const (
	defaultLifetime = time.Hour
	defaultInterval = time.Second
)

// User is a person whom a provider knows.
type User struct {
	Subject         string         `json:"subject"`  // sub: what stays when the name changes
	Name            string         `json:"name"`     // what is typed to sign in: preferred_username
	FullName        string         `json:"fullName"` // name; Name where it is empty
	Password        string         `json:"password"`
	Email           string         `json:"email"`
	EmailUnverified bool           `json:"emailUnverified"`
	Groups          []string       `json:"groups"` // nil leaves the claim out
	Claims          map[string]any `json:"claims"` // other claims of the ID token, by name
}

func (u User) fullName() string {
	if u.FullName == "" {
		return u.Name
	}
	return u.FullName
}

// Options say what a provider knows and how it is reached. The zero value knows nobody.
type Options struct {
	TLS     bool     // https, by a certificate that Provider.CA vouches for
	Clients []string // the IDs of the native public clients; "plural" where there are none
	// Secrets are those of clients that are confidential, by ID, and authenticate by client_secret_basic: StartNode alone knows any.
	Secrets         map[string]string
	Users           []User        // who can sign in; Provider.SetUsers changes it
	IDTokenLifetime time.Duration // in whole seconds; an hour where it is zero
	DeviceInterval  time.Duration // in whole seconds: how long a device waits between two polls; a second where it is zero
}

func (o Options) withDefaults() Options {
	if len(o.Clients) == 0 {
		o.Clients = []string{ClientID}
	}
	if o.IDTokenLifetime == 0 {
		o.IDTokenLifetime = defaultLifetime
	}
	if o.DeviceInterval == 0 {
		o.DeviceInterval = defaultInterval
	}
	return o
}

// redirects are where clients listen, on any port.
func redirects() []string {
	return []string{"http://127.0.0.1/callback", "http://[::1]/callback", "http://127.0.0.1/auth/callback"}
}

// Provider is a running OpenID provider. It ends with its test. It is safe for concurrent use.
type Provider struct {
	Issuer string // its URL, as ID tokens name it
	CA     []byte // PEM: who vouches for its certificate; nil without TLS

	server   *httptest.Server
	users    directory
	told     func([]User) error // passes on who is known now
	stop     func()
	once     sync.Once
	requests atomic.Int64
	down     atomic.Bool
	handler  atomic.Pointer[http.Handler]
}

// newProvider listens, and answers 503 until serve says what else.
func newProvider(t testing.TB, o Options) *Provider {
	t.Helper()
	p := &Provider{told: func([]User) error { return nil }, stop: func() {}}
	p.users.set(o.Users)
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.answer))
	if o.TLS {
		p.server.StartTLS()
		p.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	} else {
		p.server.Start()
	}
	p.Issuer = p.server.URL
	t.Cleanup(p.Close)
	return p
}

func (p *Provider) serve(h http.Handler) { p.handler.Store(&h) }

func (p *Provider) answer(w http.ResponseWriter, r *http.Request) {
	p.requests.Add(1)
	h := p.handler.Load()
	if h == nil || p.down.Load() {
		http.Error(w, "the provider is down", http.StatusServiceUnavailable)
		return
	}
	(*h).ServeHTTP(w, r)
}

// Requests is how many requests the provider has seen, of browsers too, and those it refused while it was down.
func (p *Provider) Requests() int { return int(p.requests.Load()) }

// Down makes the provider answer 503 to everything, or work again.
func (p *Provider) Down(down bool) { p.down.Store(down) }

// Close ends the provider before its test ends. It may be called twice.
func (p *Provider) Close() {
	p.once.Do(func() {
		p.server.Close()
		p.stop()
	})
}

// Client is an HTTP client that believes the provider's certificate, and none but it.
func (p *Provider) Client() *http.Client { return &http.Client{Transport: p.transport()} }

func (p *Provider) transport() http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.DisableKeepAlives = true // so that nothing is left when the test ends
	if p.CA != nil {
		config := p.server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(p.CA)
		transport.TLSClientConfig = config
	}
	return transport
}

// SetUsers replaces who can sign in. Whoever is gone from them cannot refresh any more; whose groups differ has the new
// ones in the next ID token.
func (p *Provider) SetUsers(t testing.TB, users ...User) {
	t.Helper()
	p.users.set(users)
	if err := p.told(users); err != nil {
		t.Fatalf("tell the provider its users: %v", err)
	}
}

// directory is who is known, by subject and by name.
type directory struct {
	mu    sync.Mutex
	users []User
}

var errRefused = errors.New("user or password is wrong")

func (d *directory) set(users []User) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users = slices.Clone(users)
}

func (d *directory) find(match func(User) bool) (User, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.IndexFunc(d.users, match); i >= 0 {
		return d.users[i], true
	}
	return User{}, false
}

func (d *directory) bySubject(subject string) (User, bool) {
	return d.find(func(u User) bool { return u.Subject == subject })
}

func (d *directory) byName(name string) (User, bool) {
	return d.find(func(u User) bool { return u.Name == name })
}
