package tunnel_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	agenttunnel "github.com/pluralsh/plural/agent/tunnel"
	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/tunnel"
	"github.com/pluralsh/plural/test/support/relay"
)

// authority signs replicas' certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err == nil {
		a.certificate, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) replica(t *testing.T) *tls.Config {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}
}

// joined are three replicas that know each other by a network that a test disturbs.
type joined struct {
	*fleet
	hubs    []*replica
	network *relay.Network

	mu    sync.Mutex
	links map[[2]string]string
}

func join(t *testing.T) *joined {
	t.Helper()
	j := &joined{fleet: newFleet(), network: new(relay.Network), links: map[[2]string]string{}}
	t.Cleanup(j.network.Close)
	server, err := natsd.Start(t.Context(), natsd.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	ca := newAuthority(t)
	for i := range 3 {
		conn, err := nats.Connect("", nats.InProcessServer(server))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		name := fmt.Sprintf("hub-%d", i)
		j.hubs = append(j.hubs, j.hub(t, name, func(s *settings) {
			s.Conn, s.PeerTLS, s.Replicas = conn, ca.replica(t), func() int { return 3 }
			s.Peer = func(to string) (string, bool) {
				j.mu.Lock()
				defer j.mu.Unlock()
				address, ok := j.links[[2]string{name, to}]
				return address, ok
			}
		}))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, from := range j.hubs {
		for _, to := range j.hubs {
			if j.links[[2]string{from.name, to.name}], err = j.network.Link(t.Context(), from.name, to.name, to.peers.Listener.Addr().String()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return j
}

// found waits until a replica finds the cluster, since what is subscribed to takes a moment to be known.
func (r *replica) found(cluster string) *tunnel.Route {
	r.tb.Helper()
	var route *tunnel.Route
	eventually(r.tb, r.name+" finds "+cluster, func() (ok bool) {
		var err error
		route, err = r.Reach(r.tb.Context(), cluster)
		return err == nil
	})
	r.tb.Cleanup(route.Release)
	return route
}

func TestAnyReplicaReachesAnyCluster(t *testing.T) {
	j := join(t)
	agents := map[string]*agent{}
	for i, hub := range j.hubs {
		cluster := fmt.Sprintf("edge-%d", i)
		agents[cluster] = j.agent(t, cluster, []*replica{hub})
		eventually(t, cluster+" is connected", func() bool { return len(hub.Connections()) == 1 })
	}
	for _, hub := range j.hubs {
		for cluster, a := range agents {
			route := hub.found(cluster)
			if boot, err := asks(t.Context(), route); err != nil || boot != a.boot {
				t.Errorf("%s asks %s: %q, %v", hub.name, cluster, boot, err)
			}
			if route.Replica != strings.Replace(cluster, "edge", "hub", 1) || route.Hello.GetAgentVersion() != "1.0.0" || route.Connection == "" {
				t.Errorf("%s reaches %s over %s, %s, %v", hub.name, cluster, route.Replica, route.Connection, route.Hello)
			}
		}
	}
	stream, err := j.hubs[0].found("edge-1").Objects(t.Context(), &tunnelapi.ObjectsRequest{Service: "5000"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		if event, err := stream.Recv(); err != nil || event.GetChanged()[0].GetUid() != fmt.Sprint(i) {
			t.Fatalf("event %d: %v, %v", i, event, err)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
	if err := j.hubs[0].Sync(t.Context(), "edge-2", []string{"web"}); err != nil {
		t.Error(err)
	}
	if got := <-agents["edge-2"].synced; !slices.Equal(got, []string{"web"}) {
		t.Errorf("pass over %q", got)
	}
}

func TestAnAbsentClusterIsSaidToBeAbsentAtOnce(t *testing.T) {
	j := join(t)
	best := time.Hour
	for range 10 { // the best of some: the machine may be busy
		began := time.Now()
		if _, err := j.hubs[0].Reach(t.Context(), "nobody"); !errors.Is(err, tunnel.ErrAbsent) {
			t.Fatalf("Reach: %v", err)
		}
		best = min(best, time.Since(began))
	}
	if best > 50*time.Millisecond {
		t.Errorf("it took %v, as if somebody had been waited for", best)
	}
	a := j.agent(t, "edge", j.hubs[1:2])
	j.hubs[0].found("edge")
	a.stop()
	eventually(t, "it is absent again", func() bool {
		route, err := j.hubs[0].Reach(t.Context(), "edge")
		if err == nil {
			route.Release()
		}
		return errors.Is(err, tunnel.ErrAbsent)
	})
}

func TestCancellingReachesTheAgentOverAnotherReplica(t *testing.T) {
	j := join(t)
	a := j.agent(t, "edge", j.hubs[1:2])
	ended := make(chan error, 1)
	route := j.hubs[0].found("edge")
	ctx, cancel := contextWithCancel(t)
	go func() {
		_, err := route.Diff(ctx, &tunnelapi.DiffRequest{Service: "slow"})
		ended <- err
	}()
	eventually(t, "the call is under way", func() bool { return a.diffs.Load() == 1 })
	if n := j.hubs[1].streams(); n != 1 {
		t.Errorf("%d streams are counted", n)
	}
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("the call: %v", err)
	}
	eventually(t, "the stream is gone", func() bool { return j.hubs[1].streams() == 0 })
}

func TestWhoHoldsTheOtherConnectionIsAskedWhenOneCannotBeReached(t *testing.T) {
	t.Parallel()
	j := join(t)
	a := j.agent(t, "edge", j.hubs[1:])
	j.hubs[1].connected(1)
	j.hubs[2].connected(1)
	for _, away := range []string{"hub-1", "hub-2"} {
		t.Run(away, func(t *testing.T) {
			j.hubs[0].found("edge")
			j.network.Cut("hub-0", away) // hub-0 does not reach it, while NATS does
			defer j.network.Heal()
			for range 10 {
				route := j.hubs[0].found("edge")
				if route.Replica != away {
					if boot, err := asks(t.Context(), route); err != nil || boot != a.boot {
						t.Errorf("over %s: %q, %v", route.Replica, boot, err)
					}
				}
			}
			eventually(t, "the way leads over the other", func() bool {
				route, err := j.hubs[0].Reach(t.Context(), "edge")
				if err != nil {
					return false
				}
				defer route.Release()
				return route.Replica != away
			})
		})
	}
}

func TestWhenTheReplicaWithTheConnectionDiesAnotherHasOne(t *testing.T) {
	t.Parallel()
	j := join(t)
	a := j.agent(t, "edge", j.hubs)
	held := func() (names []string) {
		for _, hub := range j.hubs {
			if len(hub.Connections()) > 0 {
				names = append(names, hub.name)
			}
		}
		return names
	}
	eventually(t, "two hold a connection", func() bool { return len(held()) == 2 })
	i := slices.IndexFunc(j.hubs, func(r *replica) bool { return len(r.Connections()) == 1 })
	j.hubs[i].stop()
	rest := slices.Delete(slices.Clone(j.hubs), i, i+1)
	for _, hub := range rest {
		if boot, err := asks(t.Context(), hub.found("edge")); err != nil || boot != a.boot {
			t.Errorf("%s: %q, %v", hub.name, boot, err)
		}
	}
	eventually(t, "two hold a connection again", func() bool { return len(held()) == 2 })
}

func TestOnlyReplicasAreServedOnThePeersPath(t *testing.T) {
	j := join(t)
	a := newAuthority(t)
	address := j.hubs[0].peers.Listener.Addr().String()
	for name, certificates := range map[string]*tls.Config{
		"no certificate":  {InsecureSkipVerify: true},
		"somebody else's": {InsecureSkipVerify: true, Certificates: a.replica(t).Certificates},
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: certificates}}
		if response, err := client.Get("https://" + address + tunnel.PeerPath); err == nil {
			t.Errorf("%s: %s", name, response.Status)
		}
		client.CloseIdleConnections()
	}
	// The same where somebody wires it without verification, or to the port of agents.
	for remote, r := range map[string]*http.Request{
		"TLS, unverified":     {RemoteAddr: "127.0.0.1:1", TLS: new(tls.ConnectionState)},
		"plain, from outside": {RemoteAddr: "192.0.2.1:1"},
	} {
		w := httptest.NewRecorder()
		j.hubs[0].PeerHandler().ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", remote, w.Code)
		}
	}
}

// An agent, or a replica that was taken over, asks for what does not pass between replicas.
func TestStreamsBetweenReplicasAreDeniedByDefault(t *testing.T) {
	j := join(t)
	j.agent(t, "edge", j.hubs[1:2])
	j.hubs[1].connected(1)
	client, err := tunnel.DialPeer(t, j.hubs[1].peers.Listener.Addr().String(), j.hubs[1].PeerTLS)
	if err != nil {
		t.Fatal(err)
	}
	right := metadata.Pairs("plural-cluster", "edge", "plural-hops", "1")
	for name, test := range map[string]struct {
		method string
		with   metadata.MD
		want   codes.Code
	}{
		"as it should be":   {tunnelapi.Cluster_Diff_FullMethodName, right, codes.OK},
		"control":           {tunnelapi.Cluster_Control_FullMethodName, right, codes.PermissionDenied},
		"another service":   {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", right, codes.PermissionDenied},
		"no cluster":        {tunnelapi.Cluster_Diff_FullMethodName, metadata.Pairs("plural-hops", "1"), codes.InvalidArgument},
		"two clusters":      {tunnelapi.Cluster_Diff_FullMethodName, metadata.Pairs("plural-cluster", "edge", "plural-cluster", "prod", "plural-hops", "1"), codes.InvalidArgument},
		"a second hop":      {tunnelapi.Cluster_Diff_FullMethodName, metadata.Pairs("plural-cluster", "edge", "plural-hops", "2"), codes.InvalidArgument},
		"an absent cluster": {tunnelapi.Cluster_Diff_FullMethodName, metadata.Pairs("plural-cluster", "prod", "plural-hops", "1"), tunnelapi.NotPassedOn},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := metadata.NewOutgoingContext(t.Context(), test.with)
			err := client.Invoke(ctx, test.method, &tunnelapi.DiffRequest{}, new(tunnelapi.DiffReply))
			if status.Code(err) != test.want {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
}

// Each replica has a NATS server of its own: who listens where has to be known on all of them.
func TestReplicasWithTheirOwnServersFindWhatTheOthersHold(t *testing.T) {
	t.Parallel()
	f := newFleet()
	var listen []string
	for range 3 {
		listen = append(listen, unused(t))
	}
	var hubs []*replica
	for i := range 3 {
		name := fmt.Sprintf("hub-%d", i)
		server, err := natsd.Start(t.Context(), natsd.Options{
			Dir: t.TempDir(), Name: name, Log: slog.New(slog.DiscardHandler),
			Cluster: &natsd.Cluster{Name: "hub", Listen: listen[i], Routes: listen},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		hubs = append(hubs, f.hub(t, name, func(s *settings) {
			s.Conn = server.Conn()
			s.Peer = func(to string) (string, bool) {
				for _, hub := range hubs {
					if hub.name == to {
						return hub.peers.Listener.Addr().String(), true
					}
				}
				return "", false
			}
		}))
	}
	a := f.agent(t, "edge", hubs[2:])
	hubs[2].connected(1)
	for _, hub := range hubs {
		if boot, err := asks(t.Context(), hub.found("edge")); err != nil || boot != a.boot {
			t.Errorf("%s: %q, %v", hub.name, boot, err)
		}
		if _, err := hub.Reach(t.Context(), "nobody"); !errors.Is(err, tunnel.ErrAbsent) || strings.Contains(err.Error(), "does not answer") {
			t.Errorf("%s: %v", hub.name, err)
		}
	}
}

// What other replicas' people watch by way of a replica would keep it for as long as it may take.
func TestAReplicaThatLeavesEndsWhatIsWatchedFromOthers(t *testing.T) {
	j := join(t)
	a := j.agent(t, "edge", j.hubs[1:2], func(o *agenttunnel.Options) {
		o.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	})
	route := j.hubs[0].found("edge")
	call := httpstream.Call{ID: "1", Class: tunnelapi.Class_WATCH}
	watch, err := route.Proxy(httpstream.WithCall(t.Context(), call))
	if err == nil {
		err = watch.Send(&tunnelapi.Frame{Request: &tunnelapi.RequestHead{Id: call.ID, Class: call.Class, Method: http.MethodGet, Target: "/api/v1/pods?watch=1"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	log, err := route.Logs(t.Context(), &tunnelapi.LogsRequest{Follow: true})
	if err == nil {
		_, err = log.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are under way", func() bool { return j.hubs[1].streams() == 2 })
	unary := make(chan error, 1)
	go func() {
		_, err := route.Diff(t.Context(), &tunnelapi.DiffRequest{Service: "slow"})
		unary <- err
	}()
	eventually(t, "the call is under way", func() bool { return a.diffs.Load() == 1 })
	drained := make(chan struct{})
	go func() { j.hubs[1].Drain(t.Context()); close(drained) }()
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v", err)
	}
	if _, err := log.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the log ended with %v", err)
	}
	close(a.release)
	if err := <-unary; err != nil {
		t.Errorf("the call: %v", err)
	}
	<-drained
}
