// Package replica owns what a replica shares with the others of its hub.
//
// A hub that is alone is a replica that owns all.
package replica

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/hubsvc/cache"
	"github.com/pluralsh/plural/hubsvc/certs"
	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/peer"
	"github.com/pluralsh/plural/hubsvc/shard"
	"github.com/pluralsh/plural/hubsvc/tunnel"
	"github.com/pluralsh/plural/internal/buildinfo"
	"github.com/pluralsh/plural/workspace/mirror"
)

// Options make one hub of several replicas.
type Options struct {
	// Name tells this replica from the others, also after its restart.
	Name string
	// Listen is the address for the other replicas' NATS servers; Routes are theirs, as host:port.
	Listen string
	Routes []string
	// PeerListen is the address at which the other replicas fetch mirrors and bundles; PeerURL how they reach it, as
	// host:port.
	PeerListen, PeerURL string
	// Cert, Key and CA are PEM files: replicas know each other by certificates of the CA. Without them replicas have to be
	// on one machine.
	Cert, Key, CA string
	// NATS is the URL of servers that others run; empty embeds one.
	NATS string
	// NATSCredentials is the file that opens them, if they ask for one.
	NATSCredentials string
	// LeaseTTL is how long a replica that is gone keeps what it owned; zero is the default. Shorter ones suffer from
	// elections of the NATS servers.
	LeaseTTL time.Duration
}

// The kinds of what replicas tell each other of one upstream.
const (
	hinted  = "hint"    // the owner is to look at the upstream now
	changed = "changed" // followers are to look at the owner's mirror now
)

// Replica is this hub's part among the others. Alone it owns all.
type Replica struct {
	options *Options     // nil when alone
	shard   *shard.Shard // nil when alone
	peers   *peer.Client
	conn    *nats.Conn // nil when alone
	certs   *certs.Pair
	tls     *tls.Config
	mirrors *gitpoller.Set
}

// New checks the options, and reads the certificates; nil makes a replica that is alone.
func New(o *Options, log *slog.Logger) (*Replica, error) {
	r := &Replica{options: o}
	if o == nil {
		return r, nil
	}
	err := o.validate()
	if err == nil {
		r.certs, r.tls, err = o.tlsConfig(log)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Certificates are what this replica shows to the others; nil without.
func (r *Replica) Certificates() *certs.Pair { return r.certs }

// TLS is for both ends of all talk between replicas; nil without certificates.
func (r *Replica) TLS() *tls.Config { return r.tls }

// Conn is the connection to the other replicas; nil when alone.
func (r *Replica) Conn() *nats.Conn { return r.conn }

// Alone says that there are no other replicas.
func (r *Replica) Alone() bool { return r.options == nil }

// Join makes this process one of several replicas.
func (r *Replica) Join(nats *natsd.Server, log *slog.Logger, metrics prometheus.Registerer) {
	if r.Alone() {
		return
	}
	r.shard = shard.Open(shard.Options{
		Conn: nats.Conn(), JetStream: nats.JetStream(), Replicas: nats.Replicas(), TTL: r.options.LeaseTTL, Log: log, Metrics: metrics,
		Self: shard.Member{ID: r.options.Name, Peer: r.options.PeerURL, Version: buildinfo.Version()},
	})
	r.peers, r.conn = peer.NewClient(r.tls), nats.Conn()
}

// Share has this replica tell the others of its mirrors, and take theirs.
func (r *Replica) Share(mirrors *gitpoller.Set) { r.mirrors = mirrors }

// tlsConfig is the same for both ends of all talk between replicas; nil without certificates. Renewed certificates are taken
// up, of the same authority: another one takes a restart of all.
func (o *Options) tlsConfig(log *slog.Logger) (*certs.Pair, *tls.Config, error) {
	if o.Cert == "" && o.Key == "" && o.CA == "" {
		for _, address := range []string{o.Listen, o.PeerListen} {
			if host, _, err := net.SplitHostPort(address); address != "" && (err != nil || !isLoopback(host)) {
				return nil, nil, fmt.Errorf("replicas that meet at %s need certificates: give --cluster-cert, --cluster-key and --cluster-ca", address)
			}
		}
		return nil, nil, nil
	}
	pem, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, nil, fmt.Errorf("read replicas' CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("read replicas' CA: %s holds no PEM certificate", o.CA)
	}
	pair, err := certs.Open(certs.Options{Name: "replica", Cert: o.Cert, Key: o.Key, Roots: pool, Now: time.Now, Log: log})
	if err != nil {
		return nil, nil, fmt.Errorf("replicas: %w", err)
	}
	return pair, &tls.Config{
		GetCertificate: pair.Server, GetClientCertificate: pair.Client, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Name is this replica's among the others.
func (r *Replica) Name() string {
	if r.options == nil {
		return "hub"
	}
	return r.options.Name
}

// Role is this replica's to an upstream, with the owner's name where it follows.
func (r *Replica) Role(id string) (gitpoller.Role, string) {
	if r.shard == nil || r.shard.Mine(id) {
		return gitpoller.Own, ""
	}
	if owner, ok := r.shard.Owner(id); ok && owner.ID != r.options.Name {
		return gitpoller.Follow, owner.ID
	}
	return gitpoller.Idle, ""
}

// Owns says whether this replica fetches an upstream.
func (r *Replica) Owns(id string) bool {
	role, _ := r.Role(id)
	return role == gitpoller.Own
}

// Address is where the other replicas reach this one; empty when there are none.
func (r *Replica) Address() string {
	if r.options == nil {
		return ""
	}
	return r.options.PeerURL
}

// Peer is the address of another replica.
func (r *Replica) Peer(name string) (string, bool) {
	for _, m := range r.shard.Members() {
		if m.ID == name && !m.Self {
			return m.Peer, true
		}
	}
	return "", false
}

// Count is how many replicas are live.
func (r *Replica) Count() int {
	if r.shard == nil {
		return 1
	}
	live := 0
	for _, m := range r.shard.Members() {
		if m.Live && !m.Draining {
			live++
		}
	}
	return max(live, 1)
}

// ownerAddress is the address of the replica that owns an upstream, unless that is this one.
func (r *Replica) ownerAddress(id string) (string, bool) {
	if r.shard == nil {
		return "", false
	}
	owner, ok := r.shard.Owner(id)
	return owner.Peer, ok && owner.ID != r.options.Name
}

var (
	errNoOwner = errors.New("it does not own the upstream")
	errNotWarm = errors.New("it has not heard from the upstream since it owns it")
)

// Following is the owner's mirror of an upstream, as an upstream. Only one who is the owner, and up to date, is believed:
// a mirror must not go back to what a replica has that was away.
func (r *Replica) Following(id string) mirror.Upstream {
	return r.peers.Upstream(id, func() (string, bool) { return r.ownerAddress(id) }, func(note json.RawMessage) error {
		agent, status, err := r.trusting(id, note)
		switch {
		case err != nil:
			return err
		case status.Role != gitpoller.Own:
			return errNoOwner
		case !status.Synced:
			return errNotWarm
		}
		agent.Heard(status)
		return nil
	})
}

// Warming is another replica's mirror of an upstream that this one has come to own.
func (r *Replica) Warming(id string) mirror.Upstream {
	return r.peers.Upstream(id, r.anyOther, func(note json.RawMessage) error {
		_, _, err := r.trusting(id, note)
		return err
	})
}

// trusting reads what another replica says of an upstream, and refuses one whose mirror may hold what this one would not let in:
// while replicas are started anew one after the other, they differ.
func (r *Replica) trusting(id string, note json.RawMessage) (*gitpoller.Agent, gitpoller.Status, error) {
	var status gitpoller.Status
	if err := json.Unmarshal(note, &status); err != nil {
		return nil, status, fmt.Errorf("read what it says of the upstream: %w", err)
	}
	agent, ok := r.mirrors.Get(id)
	if !ok || agent.OwnStatus().Trust != status.Trust {
		return nil, status, gitpoller.ErrOtherTrust
	}
	return agent, status, nil
}

// anyOther is the address of the live replica that was heard from last.
func (r *Replica) anyOther() (address string, ok bool) {
	var best time.Duration
	for _, m := range r.shard.Members() {
		if m.Live && !m.Self && (!ok || m.Age < best) {
			address, best, ok = m.Peer, m.Age, true
		}
	}
	return address, ok
}

// Bundle fetches a bundle from the replica that owns its upstream.
func (r *Replica) Bundle(ctx context.Context, upstream, key string) (io.ReadCloser, error) {
	address, ok := r.ownerAddress(upstream)
	if !ok {
		return nil, fs.ErrNotExist
	}
	return r.peers.Bundle(ctx, address, key)
}

// Audit has the replica at an address answer about its audit log.
func (r *Replica) Audit(ctx context.Context, address, what, question string) ([]byte, error) {
	return r.peers.Audit(ctx, address, what, question)
}

// Addresses are those of all other replicas whose lease is remembered, by their names.
func (r *Replica) Addresses() map[string]string {
	all := map[string]string{}
	for _, m := range r.Members() {
		if !m.Self {
			all[m.ID] = m.Peer
		}
	}
	return all
}

// Hint has the owner of an upstream look at it now.
func (r *Replica) Hint(id string) {
	if r.Owns(id) {
		r.mirrors.Hint(id)
		return
	}
	r.shard.Tell(hinted, id)
}

// News tells followers that a mirror changed.
func (r *Replica) News(id string) {
	if r.shard != nil {
		r.shard.Tell(changed, id)
	}
}

// listen takes up what other replicas tell, until ctx ends.
func (r *Replica) listen(ctx context.Context) error {
	stopHints, err := r.shard.Listen(hinted, func(id string) {
		if r.Owns(id) {
			r.mirrors.Hint(id)
		}
	})
	if err != nil {
		return fmt.Errorf("listen for hints: %w", err)
	}
	defer stopHints()
	stopChanges, err := r.shard.Listen(changed, func(id string) {
		if role, _ := r.Role(id); role == gitpoller.Follow {
			r.mirrors.Wake(id)
		}
	})
	if err != nil {
		return fmt.Errorf("listen for changes: %w", err)
	}
	defer stopChanges()
	<-ctx.Done()
	return ctx.Err()
}

// repo is one mirror as other replicas see it.
type repo struct{ agent *gitpoller.Agent }

func (r repo) Manifest() mirror.Manifest              { return r.agent.Mirror().Manifest() }
func (r repo) OpenPack(name string) (*os.File, error) { return r.agent.Mirror().OpenPack(name) }
func (r repo) Note() json.RawMessage {
	note, err := json.Marshal(r.agent.OwnStatus())
	if err != nil {
		return nil
	}
	return note
}

// NATS are how this replica's NATS server, which keeps its files in dir, meets the others.
func (r *Replica) NATS(dir string, log *slog.Logger) natsd.Options {
	n := natsd.Options{Dir: dir, Name: "plural-hub", Log: log}
	switch c := r.options; {
	case c == nil:
	case c.NATS != "":
		n.External = &natsd.External{URL: c.NATS, CredentialsFile: c.NATSCredentials, TLS: r.tls, Replicas: 3}
	default:
		n.Name = c.Name
		n.Cluster = &natsd.Cluster{Name: "plural-hub", Listen: c.Listen, Routes: c.Routes, TLS: r.tls}
	}
	return n
}

// Server gives the other replicas what this one has: its mirrors, its bundles, by audit its audit log, and by channels the connections
// of its agents.
func (r *Replica) Server(bundles *cache.Cache, audit http.HandlerFunc, channels http.Handler) (*http.Server, error) {
	server, err := peer.NewServer(peer.Options{
		Repo: func(id string) (peer.Repo, bool) {
			agent, ok := r.mirrors.Get(id)
			return repo{agent}, ok
		},
		Bundle: func(ctx context.Context, key string) (io.ReadSeekCloser, string, error) {
			bundle, err := bundles.OpenHere(ctx, key)
			if err != nil {
				return nil, "", err
			}
			return bundle, bundle.Digest, nil
		},
		Audit: audit,
	}, r.tls)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", server.Handler)
	mux.Handle(tunnel.PeerPath, channels)
	server.Handler = mux
	return server, nil
}

// Run takes part until ctx ends. changed is called when upstreams have other owners.
func (r *Replica) Run(ctx context.Context, group *errgroup.Group, changed func()) {
	if r.Alone() {
		return
	}
	group.Go(func() error { return r.shard.Run(ctx) })
	group.Go(func() error { return r.listen(ctx) })
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-r.shard.Changed():
			}
			r.mirrors.Rebalance()
			changed()
		}
	})
}

// leaveTime is how long a replica tries to hand over; the others take over by themselves when its lease has run out.
const leaveTime = 3 * time.Second

// Leave hands over what this replica owns before it ends. The error says that the others take over only when its lease ends.
func (r *Replica) Leave(ctx context.Context) error {
	if r.Alone() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	return r.shard.Drain(ctx)
}

// Owner is the name of the replica that fetches an upstream; empty when alone, and while it has none.
func (r *Replica) Owner(id string) string {
	if r.Alone() {
		return ""
	}
	owner, _ := r.shard.Owner(id)
	return owner.ID
}

// Members are all replicas; none when alone.
func (r *Replica) Members() []shard.MemberStatus {
	if r.Alone() {
		return nil
	}
	return r.shard.Members()
}

// validate says what is missing of the options.
func (o *Options) validate() error {
	switch {
	case o.Name == "" || strings.ContainsAny(o.Name, ". *>\t/"):
		return errors.New("a replica needs a name of letters, digits and dashes: --replica NAME")
	case o.NATS == "" && (o.Listen == "" || len(o.Routes) == 0):
		return errors.New("replicas meet at --cluster-listen ADDRESS, and find each other by --cluster-routes HOST:PORT,HOST:PORT")
	case o.PeerListen == "" || o.PeerURL == "":
		return errors.New("replicas fetch from each other at --peer-listen ADDRESS, known to the others as --peer-address HOST:PORT")
	}
	return nil
}
