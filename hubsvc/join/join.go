// Package join owns the registration of clusters by join tokens.
//
// It refuses to know git, and what is served: both are handed to it as functions. The token is the only credential: whoever
// asks without a good one learns neither which clusters there are nor which of them wait for somebody.
//
// A person invites a cluster by a commit with the hash of a token. What [Door] hands out for the token are manifests, by which
// an agent starts in that cluster; they may be fetched as often as needed. The agent makes keys and exchanges the token for its
// registration: the hub commits their public halves, and takes the hash away in the same commit. Of many exchanges at a time
// the first commit wins; the others find no hash.
package join

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/internal/addrlimit"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// HubAddress is what an agent has to know of its hub.
type HubAddress struct {
	HubURL string
	// Repository is the id of the installation repo; empty when nothing is sealed there.
	Repository string
}

// Exchange is one token that is exchanged, as it is written down.
type Exchange struct {
	ID        string
	Cluster   string
	Request   *http.Request
	Allowed   bool
	Cause     string
	Status    int
	Beginning time.Time
}

// Options are what a door needs. All must be set.
type Options struct {
	// Cluster is a cluster as the desired state has it now.
	Cluster func(name string) (*fleet.Cluster, bool)
	Place   func() (HubAddress, error)
	// Refused says why nothing is committed here, if nothing is: a *Refusal.
	Refused func(cluster string) error
	// Commit registers the keys, if Good says so of the cluster at the tip of the installation repo; else its error is ErrNotGood.
	Commit func(ctx context.Context, cluster string, keys fleet.AgentKeys, hash string) error
	// Write writes an exchange down: before its commit, and after it. An error before it keeps it from being made.
	Write func(ctx context.Context, e Exchange, end bool) error
	// Image is what the agent of a cluster is started from.
	Image func(c *fleet.Cluster) string
	Now   func() time.Time
	Log   *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
}

// Refusal is why a hub lets nobody join.
type Refusal struct{ Message, Fix string }

// Error is the message.
func (r *Refusal) Error() string { return r.Message }

// Each address has so many tries at once, and one more each of these. A whole fleet may come from one address, that of its
// gateway, and be rolled out at once.
const (
	burst = 100
	each  = time.Second / 4
)

// ErrNotGood means that a token is not good, or not for this cluster, or not any more.
var ErrNotGood = errors.New("the token is not good")

// Registrar lets clusters in that show a join token. It is safe for concurrent use.
type Registrar struct {
	Options
	limits    *addrlimit.Limits
	exchanges *prometheus.CounterVec

	mu   sync.Mutex           // guards used
	used map[string]time.Time // hashes of tokens that were exchanged here, until they expire
}

// New is a door.
func New(o Options) *Registrar {
	d := &Registrar{Options: o, limits: addrlimit.New(burst, each, o.Now), used: map[string]time.Time{}}
	d.exchanges = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plural_hub_joins_total", Help: "Requests to join the fleet by a token, by what came of them.",
	}, []string{"outcome"})
	if o.Metrics != nil {
		o.Metrics.MustRegister(d.exchanges)
	}
	return d
}

// ManifestsPath is followed by a cluster's name and ".yaml". The token is the bearer's.
const ManifestsPath = "/join/"

// Routes adds its paths to mux.
func (d *Registrar) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+ManifestsPath+"{file}", d.limited(d.manifests))
	mux.HandleFunc("POST "+api.JoinPath, d.limited(d.exchange))
}

// APIRoutes describe those that are below /v1.
func APIRoutes() []openapi.Route {
	return []openapi.Route{{
		Method: http.MethodPost, Path: api.JoinPath, Summary: "Exchange a join token for a registration, as a cluster's agent does",
		Body: api.JoinRequest{}, Response: api.JoinAnswer{}, Open: true,
	}}
}

// limited answers a bounded number of requests of each address.
func (d *Registrar) limited(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if !d.limits.Allow(addrlimit.Sender(r)) {
			d.exchanges.WithLabelValues("limited").Inc()
			w.Header().Set("Retry-After", "5")
			refuse(w, http.StatusTooManyRequests, v1.Error{Message: "too many tries", Fix: "wait a few seconds"})
			return
		}
		next(w, r)
	}
}

// notFound is the answer to everything that is wrong with a cluster or a token.
func (d *Registrar) notFound(w http.ResponseWriter) {
	d.exchanges.WithLabelValues("refused").Inc()
	refuse(w, http.StatusNotFound, v1.Error{
		Message: "no cluster waits for this token: it is not the cluster's, was used, or has expired",
		Fix:     "make a new one: plural cluster register NAME --print",
	})
}

// manifests hands out what starts an agent. It uses nothing up.
func (d *Registrar) manifests(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutSuffix(r.PathValue("file"), ".yaml")
	shown, inHeader := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !inHeader { // as the lines of earlier releases have it, which proxies write down
		shown = r.URL.Query().Get("token")
	}
	c, known := d.Cluster(name)
	if !ok || !known || !d.waits(c, fleet.HashToken(shown)) {
		d.notFound(w)
		return
	}
	if !d.open(w, name) {
		return
	}
	place, err := d.Place()
	var text []byte
	if err == nil {
		text, err = Manifests(Start{
			Cluster: name, Token: shown, HubURL: place.HubURL, HubCA: c.Spec.Join.HubCA, Repository: place.Repository, Image: d.Image(c),
		})
	}
	if err != nil {
		d.failed(w, name, err)
		return
	}
	d.exchanges.WithLabelValues("started").Inc()
	if !inHeader {
		d.Log.Warn("a join token came in a URL, where proxies write it down: invite clusters with a plural of the hub's version",
			"cluster", name)
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(text) // a client that went away asks again
}

// open says whether anybody may join at all; if not, that has been answered.
func (d *Registrar) open(w http.ResponseWriter, cluster string) bool {
	refusal := new(Refusal)
	if errors.As(d.Refused(cluster), &refusal) {
		d.exchanges.WithLabelValues("closed").Inc()
		refuse(w, http.StatusForbidden, v1.Error{Message: refusal.Message, Fix: refusal.Fix})
		return false
	}
	return true
}

func (d *Registrar) failed(w http.ResponseWriter, cluster string, err error) {
	d.exchanges.WithLabelValues("failed").Inc()
	d.Log.Error("a cluster could not join", "cluster", cluster, "error", err)
	refuse(w, http.StatusServiceUnavailable, v1.Error{
		Message: "the hub could not register the cluster now; its log says why",
		Fix:     "try again",
	})
}

// waits says whether a cluster waits for the token of a hash.
func (d *Registrar) waits(c *fleet.Cluster, hash string) bool {
	d.mu.Lock()
	_, used := d.used[hash]
	d.mu.Unlock()
	return !used && Good(c, hash, d.Now())
}

// Good says whether a cluster, as its file stands, waits for the token of a hash.
func Good(c *fleet.Cluster, hash string, now time.Time) bool {
	j := c.Spec.Join
	return j != nil && subtle.ConstantTimeCompare([]byte(j.Hash), []byte(hash)) == 1 && now.Before(j.Until())
}

// exchange registers the keys that an agent brings.
func (d *Registrar) exchange(w http.ResponseWriter, r *http.Request) {
	place, err := d.Place()
	if err != nil {
		d.failed(w, "", err)
		return
	}
	asked, ok := d.read(w, r, place.HubURL)
	if !ok {
		d.notFound(w)
		return
	}
	keys := fleet.AgentKeys{Auth: asked.Auth, Age: asked.Age}
	c, known := d.Cluster(asked.Cluster)
	switch hash := fleet.HashToken(asked.Token); {
	case !known:
		d.notFound(w)
		return
	case c.Spec.Agent == keys: // the answer to an earlier exchange was lost
	case !d.waits(c, hash):
		d.notFound(w)
		return
	case !d.open(w, asked.Cluster):
		return
	default:
		if !d.register(w, r, c, keys, hash) {
			return
		}
	}
	d.exchanges.WithLabelValues("joined").Inc()
	reply(w, http.StatusOK, api.JoinAnswer{Cluster: asked.Cluster, HubURL: place.HubURL, Repository: place.Repository})
}

// read reads a request whose keys are keys, and belong to who sent it.
func (d *Registrar) read(w http.ResponseWriter, r *http.Request, hubURL string) (asked api.JoinRequest, ok bool) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, api.MaxJoinBytes))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&asked) != nil || !errors.Is(decoder.Decode(new(json.RawMessage)), io.EOF) {
		return asked, false
	}
	key, err := crypto.ParseAuthKey(asked.Auth)
	if err != nil {
		return asked, false
	}
	if recipient, err := age.ParseX25519Recipient(asked.Age); err != nil || recipient.String() != asked.Age {
		return asked, false
	}
	proof, bears := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	by, err := token.Verify(proof, hubURL, d.Now(), func(string) ed25519.PublicKey { return key })
	return asked, bears && err == nil && by.On(r.TLS) == nil && by.Cluster == asked.Cluster && asked.Token != ""
}

// register commits the keys and writes it down. When it does not come to that, that has been answered.
func (d *Registrar) register(w http.ResponseWriter, r *http.Request, c *fleet.Cluster, keys fleet.AgentKeys, hash string) bool {
	name := c.Metadata.Name
	e := Exchange{ID: strings.ToLower(rand.Text()), Cluster: name, Request: r, Allowed: true, Beginning: d.Now()}
	if err := d.Write(r.Context(), e, false); err != nil {
		d.failed(w, name, err)
		return false
	}
	err := d.Commit(r.Context(), name, keys, hash)
	if e.Status = http.StatusOK; err != nil {
		e.Status, e.Allowed, e.Cause = http.StatusServiceUnavailable, !errors.Is(err, ErrNotGood), "not committed"
		if !e.Allowed {
			e.Status, e.Cause = http.StatusNotFound, "the token was used"
		}
	}
	if err := d.Write(context.WithoutCancel(r.Context()), e, true); err != nil {
		d.Log.Error("the end of an exchange is not written down", "cluster", name, "error", err)
	}
	switch {
	case errors.Is(err, ErrNotGood):
		d.notFound(w)
		return false
	case err != nil:
		d.failed(w, name, err)
		return false
	}
	d.use(hash, c.Spec.Join.Until())
	d.Log.Info("a cluster joined", "cluster", name)
	return true
}

// use remembers that a token was exchanged, so that nobody reads the installation repo for it again.
func (d *Registrar) use(hash string, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Now()
	for old, expires := range d.used {
		if now.After(expires) {
			delete(d.used, old)
		}
	}
	d.used[hash] = until
}

func refuse(w http.ResponseWriter, code int, e v1.Error) { reply(w, code, e) }

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // a client that went away asks again
}

// Register is what a fleet's files become when a cluster exchanges its token: its keys stand in the file that has waited for them. The
// error is ErrNotGood where none does.
func Register(tip fs.FS, cluster string, keys fleet.AgentKeys, hash string) (*yamledit.Change, error) {
	f, err := fleet.Load(tip)
	if err != nil {
		return nil, err
	}
	c, ok := f.Cluster(cluster)
	if !ok || !Good(c, hash, time.Now()) {
		return nil, ErrNotGood
	}
	for i := range f.Clusters {
		if f.Clusters[i].Spec.Agent.Auth == keys.Auth { // an agent that speaks for two clusters is refused by the fleet
			return nil, ErrNotGood
		}
	}
	return yamledit.Joined(tip, cluster, keys)
}
