package natsd

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/bcrypt"
)

// leastServers are the fewest that go on when one of them is lost.
const leastServers = 3

// copies is how many of so many servers keep each bucket: of three one may be lost, of five or more any two, and more would cost each
// write. NATS has no more than five.
func copies(servers int) int {
	if servers < 5 {
		return 3
	}
	return 5
}

// A route that says nothing is given up after three unanswered pings, well within a lease of twelve seconds.
const (
	routePing     = 2 * time.Second
	routePingsOut = 2
	routeDeadline = 5 * time.Second
)

// Cluster is what a server needs to be one of several.
type Cluster struct {
	// Name is the same on all servers; empty means "plural". Servers of other clusters are turned away.
	Name string
	// Listen is where the others find this one: HOST:PORT, of which the host may be empty.
	Listen string
	// Advertise is Listen as the others see it; empty means that they see it as it is.
	Advertise string
	// Routes are the Listen addresses of all servers, this one included, HOST:PORT each. Their number, three at the least,
	// says what a majority is before all have met.
	Routes []string
	// TLS must ask for certificates of both sides; nil is for the loopback interface alone.
	TLS *tls.Config
}

func (c *Cluster) check() error {
	if len(c.Routes) < leastServers {
		return fmt.Errorf("cluster %q has %d servers in its list: it needs three or more, this one included, "+
			"since fewer have no majority when one is down; run one replica without a cluster instead", c.name(), len(c.Routes))
	}
	for _, address := range append([]string{c.Listen}, c.Routes...) {
		if _, port, err := net.SplitHostPort(address); err != nil || !isPort(port) {
			return fmt.Errorf("cluster address %q is not HOST:PORT", address)
		}
	}
	if c.TLS == nil {
		if host, _, _ := net.SplitHostPort(c.Listen); !loopback(host) {
			return fmt.Errorf("cluster address %q is not on the loopback interface: there the servers need certificates",
				c.Listen)
		}
		return nil
	}
	if c.TLS.ClientAuth != tls.RequireAndVerifyClientCert || len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil {
		return errors.New("the cluster's TLS settings do not ask both sides for a certificate")
	}
	return nil
}

func (c *Cluster) name() string { return cmp.Or(c.Name, "plural") }

// enlist checks what the server was told of its cluster, and makes a password for its one user.
func (s *Server) enlist() error {
	if err := s.Cluster.check(); err != nil {
		return err
	}
	s.replicas, s.password = copies(len(s.Cluster.Routes)), rand.Text()
	hashed, err := bcrypt.GenerateFromPassword([]byte(s.password), bcrypt.MinCost) // it is as good as a key
	s.hashed = string(hashed)
	return err
}

// configure makes o one of the cluster. The addresses were checked.
func (c *Cluster) configure(o *server.Options) {
	host, port, _ := net.SplitHostPort(c.Listen)
	number, _ := strconv.Atoi(port)
	o.Cluster = server.ClusterOpts{
		Name: c.name(), Host: cmp.Or(host, "0.0.0.0"), Port: number, Advertise: c.Advertise,
		NoAdvertise: true, // to clients: there are none

		TLSConfig: c.TLS, TLSTimeout: 5, AuthTimeout: 6,
		PoolSize:     -1, // one connection a pair: there is one account, and little traffic
		Compression:  server.CompressionOpts{Mode: server.CompressionOff},
		PingInterval: routePing, MaxPingsOut: routePingsOut, WriteDeadline: routeDeadline,
	}
	for _, address := range c.Routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: address})
	}
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n < 1<<16
}

func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// handoverTime bounds how long a server that closes waits for the others to take its leaderships over.
const handoverTime = time.Second

// stepDown hands the leaderships over that this server has of any bucket, since the others would need seconds to notice
// that it has gone.
func (s *Server) stepDown() {
	s.mu.Lock()
	ns := s.server
	s.mu.Unlock()
	if s.Cluster == nil || ns == nil {
		return
	}
	for name, leader := range leaders(ns) {
		if leader != ns.Name() {
			continue
		}
		if err := ns.JetStreamStepdownStream(ns.GlobalAccount().Name, name); err != nil {
			s.Log.Debug("leadership is not handed over", "stream", name, "error", err)
		}
	}
	ticker := time.NewTicker(handoverTime / 50)
	defer ticker.Stop()
	for end := time.Now().Add(handoverTime); time.Now().Before(end); <-ticker.C {
		undecided := false
		for _, leader := range leaders(ns) {
			undecided = undecided || leader == "" || leader == ns.Name()
		}
		if !undecided {
			return
		}
	}
}

// leaders are the servers that lead the streams which ns keeps, by stream; empty where it knows none.
func leaders(ns *server.Server) map[string]string {
	known := make(map[string]string)
	info, err := ns.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return known // nothing is kept any more
	}
	for _, account := range info.AccountDetails {
		for i := range account.Streams {
			if stream := &account.Streams[i]; stream.Cluster != nil {
				known[stream.Name] = stream.Cluster.Leader
			}
		}
	}
	return known
}

// External is a NATS that somebody else runs, with JetStream.
type External struct {
	// URL is one or more servers, with commas between them.
	URL string
	// CredentialsFile is a NATS credentials file; empty means none.
	CredentialsFile string
	// TLS is used when it is set, whatever the URL says.
	TLS *tls.Config
	// Replicas is how many of its servers should keep each bucket; zero means one.
	Replicas int
}

// connectExternal makes the connection; it does not wait for the server to answer.
func (s *Server) connectExternal() error {
	s.replicas = max(1, s.External.Replicas)
	var options []nats.Option
	if s.External.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(s.External.CredentialsFile))
	}
	if s.External.TLS != nil {
		options = append(options, nats.Secure(s.External.TLS))
	}
	err := s.connect(s.External.URL, options...)
	if bad := new(url.Error); errors.As(err, &bad) { // its text would show a password in the URL
		err = errors.New("its URL cannot be read; nats://HOST:PORT is one that can")
	}
	if err != nil {
		return fmt.Errorf("use the nats server that was named: %w", err)
	}
	return nil
}
