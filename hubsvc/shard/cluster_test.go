package shard_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/shard"
	"github.com/pluralsh/plural/test/support/relay"
)

// TestMain lets more tests wait side by side than there are processors: these wait for elections and for leases to run
// out.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "5"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// patience bounds every wait of these tests. Elections take up to 9 s, and the machine may be busy.
const patience = 60 * time.Second

// repos are what is divided among the replicas.
var repos = func() []string {
	list := make([]string, 1000)
	for i := range list {
		list[i] = fmt.Sprintf("repo-%d", i)
	}
	return list
}()

// fleet is a hub of several replicas, each of which reaches the others through a network that can be disturbed.
type fleet struct {
	t        *testing.T
	ttl      time.Duration
	network  *relay.Network
	replicas []*replica
}

// replica is a server with a shard, or neither while it is down.
type replica struct {
	fleet  *fleet
	name   string
	dir    string
	listen string
	routes []string

	server *natsd.Server
	shard  *shard.Shard
	stop   context.CancelFunc
	ended  chan error
}

// newFleet starts three replicas and waits until they agree.
func newFleet(t *testing.T, ttl time.Duration) *fleet {
	t.Helper()
	t.Parallel()
	f := &fleet{t: t, ttl: ttl, network: new(relay.Network)}
	t.Cleanup(f.network.Close)
	for i := range 3 {
		f.replicas = append(f.replicas, &replica{fleet: f, name: fmt.Sprintf("hub-%d", i), dir: t.TempDir(), listen: free(t)})
	}
	for _, r := range f.replicas {
		for _, other := range f.replicas {
			address := other.listen
			if other != r {
				var err error
				if address, err = f.network.Link(t.Context(), r.name, other.name, other.listen); err != nil {
					t.Fatal(err)
				}
			}
			r.routes = append(r.routes, address)
		}
	}
	var starting sync.WaitGroup
	for _, r := range f.replicas {
		starting.Go(r.start)
	}
	starting.Wait()
	t.Cleanup(func() {
		var stopping sync.WaitGroup
		for _, r := range f.replicas {
			stopping.Go(r.kill)
		}
		stopping.Wait()
	})
	if t.Failed() {
		t.FailNow()
	}
	f.agreed(f.replicas...)
	return f
}

// free is an address that nobody listens on, nor will: connections and the network's listeners are given ports of
// another address.
func free(t *testing.T) string {
	t.Helper()
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = fmt.Sprintf("127.%d.%d.%d", 1+rand.N(250), rand.N(250), 1+rand.N(250))
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (r *replica) start() {
	t := r.fleet.t
	r.fleet.network.Heal()
	var err error
	r.server, err = natsd.Start(t.Context(), natsd.Options{
		Dir: r.dir, Name: r.name, Log: testLog(t, r.name),
		// gossip would have the servers find each other past the network
		Cluster: &natsd.Cluster{Listen: r.listen, Routes: r.routes, Advertise: "127.0.0.1:9"},
	})
	if err != nil {
		t.Error(err)
		return
	}
	r.join()
}

// join runs a shard on the replica's server.
func (r *replica) join() {
	t := r.fleet.t
	r.shard = shard.Open(shard.Options{
		Conn: r.server.Conn(), JetStream: r.server.JetStream(), Replicas: r.server.Replicas(), TTL: r.fleet.ttl,
		Self: shard.Member{ID: r.name, Peer: r.listen, Version: "test"},
		Log:  testLog(t, r.name), Metrics: prometheus.NewRegistry(),
	})
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.ended = stop, make(chan error, 1)
	go func(s *shard.Shard, ended chan<- error) { ended <- s.Run(ctx) }(r.shard, r.ended)
}

// leave stops the shard, which gives its lease back.
func (r *replica) leave() {
	if r.shard == nil {
		return
	}
	r.stop()
	if err := <-r.ended; err != nil {
		r.fleet.t.Errorf("%s: %v", r.name, err)
	}
	r.shard = nil
}

// close stops the replica as it should be.
func (r *replica) close() {
	r.leave()
	r.server.Close()
	r.server = nil
}

// kill takes the replica away without a word to the others: their connections end, and nothing is given back.
func (r *replica) kill() {
	if r.server == nil {
		return
	}
	for _, other := range r.fleet.replicas {
		r.fleet.network.Cut(r.name, other.name)
	}
	r.server.Close()
	r.server = nil
	r.leave()
}

// owners gives the one owner of each repository that all the given replicas name and that holds it, or why there is
// none.
func (f *fleet) owners(among ...*replica) (map[string]string, error) {
	owners := make(map[string]string, len(repos))
	for _, repo := range repos {
		held := ""
		for _, r := range among {
			owner, ok := r.shard.Owner(repo)
			if !ok {
				return nil, fmt.Errorf("%s does not know the owner of %s", r.name, repo)
			}
			if last, ok := owners[repo]; ok && last != owner.ID {
				return nil, fmt.Errorf("%s is owned by %s and %s", repo, last, owner.ID)
			}
			owners[repo] = owner.ID
			if r.shard.Mine(repo) {
				held = r.name
			}
		}
		if held != owners[repo] {
			return nil, fmt.Errorf("%s is owned by %s and held by %q", repo, owners[repo], held)
		}
	}
	return owners, nil
}

// agreed waits until the given replicas, and no others, own the repositories between them.
func (f *fleet) agreed(among ...*replica) map[string]string {
	f.t.Helper()
	var owners map[string]string
	f.eventually(func() (err error) {
		if owners, err = f.owners(among...); err != nil {
			return err
		}
		for _, r := range among {
			if !slices.Contains(values(owners), r.name) {
				return fmt.Errorf("%s owns nothing", r.name)
			}
		}
		for _, owner := range values(owners) {
			if !slices.ContainsFunc(among, func(r *replica) bool { return r.name == owner }) {
				return fmt.Errorf("%s still owns something", owner)
			}
		}
		return nil
	})
	return owners
}

func values(m map[string]string) []string {
	var list []string
	for _, v := range m {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

func (f *fleet) eventually(condition func() error) {
	f.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("still after %s: %v", patience, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// guard looks all the time for a repository that two replicas hold at once, until stop is called.
func (f *fleet) guard() (stop func()) {
	shards := make([]*shard.Shard, len(f.replicas))
	for i, r := range f.replicas {
		shards[i] = r.shard
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			repo, held := repos[i%len(repos)], 0
			for _, s := range shards {
				if s.Mine(repo) {
					held++
				}
			}
			if held > 1 {
				f.t.Errorf("%s is held by %d replicas at once", repo, held)
				return
			}
			select {
			case <-quit:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// testLog passes what is said to the test's log while it runs.
func testLog(t *testing.T, name string) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(&lines{t: t}, nil)).With("replica", name)
}

type lines struct{ t *testing.T }

func (l *lines) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// ownsNothing says why not.
func (r *replica) ownsNothing() error {
	for _, repo := range repos {
		if r.shard.Mine(repo) {
			return fmt.Errorf("%s still owns %s", r.name, repo)
		}
	}
	return nil
}
