package tunnel_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	agenttunnel "github.com/pluralsh/plural/agent/tunnel"
	"github.com/pluralsh/plural/api/channel"
	"github.com/pluralsh/plural/api/token"
)

// Where a process of many agents finds the hub.
const (
	crowdURL = "PLURAL_TEST_CROWD_URL"
	crowdCA  = "PLURAL_TEST_CROWD_CA"
)

const crowdSize = 1000

func crowdName(i int) string { return fmt.Sprintf("edge-%d", i) }

// crowdKey is a cluster's, the same in both processes.
func crowdKey(cluster string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(cluster))
	return ed25519.NewKeyFromSeed(seed[:])
}

// crowd is a process of many agents, which ends with its input.
func crowd(url string) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range crowdSize {
		cluster := crowdName(i)
		running.Go(func() {
			_ = agenttunnel.Run(ctx, agenttunnel.Options{
				URL: url, CA: []byte(os.Getenv(crowdCA)), UserAgent: "bench", Log: slog.New(slog.DiscardHandler),
				Token: token.NewSigner(crowdKey(cluster), cluster, hubURL, time.Now).Token,
				Hello: func() *channel.Hello { return &channel.Hello{Cluster: cluster, Boot: "1"} },
			})
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	running.Wait()
}

// BenchmarkIdleTunnels is what a hub pays for agents of which nobody asks anything, TLS included, and how long it takes until
// all are back when all connections were lost. The agents are in another process.
func BenchmarkIdleTunnels(b *testing.B) {
	f := newFleet()
	for i := range crowdSize {
		f.public[crowdName(i)] = crowdKey(crowdName(i)).Public().(ed25519.PublicKey)
	}
	var mu sync.Mutex
	taken := map[net.Conn]bool{}
	hub := f.hub(b, "hub-0", func(s *settings) {
		s.Log = slog.New(slog.DiscardHandler)
		s.bare = func(server *http.Server) {
			server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout = 10*time.Second, time.Minute, 2*time.Minute
			server.ConnState = func(c net.Conn, state http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				if state == http.StateHijacked {
					taken[c] = true
				}
			}
		}
	})
	before, rssBefore := held(), rss(b)
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	agents := exec.CommandContext(b.Context(), program)
	agents.Env = append(os.Environ(), crowdURL+"="+hub.server.URL, crowdCA+"="+string(ca(hub.server)))
	agents.Stderr = os.Stderr
	input, err := agents.StdinPipe()
	if err == nil {
		err = agents.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = input.Close()
		_ = agents.Wait()
	}()
	hub.connected(crowdSize)
	b.ReportMetric(float64(held()-before)/crowdSize/1024, "KiB/agent")
	b.ReportMetric(float64(rss(b)-rssBefore)/crowdSize/1024, "KiB-RSS/agent")

	began := time.Now()
	hub.Changed("1-1", nil)
	b.ReportMetric(float64(time.Since(began).Microseconds()), "us/hints")

	mu.Lock()
	for conn := range taken {
		_ = conn.Close()
	}
	mu.Unlock()
	began = time.Now()
	eventually(b, fmt.Sprintf("all are back: %d", hub.arrived.Load()), func() bool { return hub.arrived.Load() >= 2*crowdSize && len(hub.Connections()) == crowdSize })
	b.ReportMetric(time.Since(began).Seconds(), "s/1000-reconnects")
}

// held are the bytes that are in use, without garbage.
func held() uint64 {
	for range 4 { // stacks shrink by half each time, as they do on a hub that idles
		runtime.GC()
	}
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapInuse + stats.StackInuse
}

func rss(b *testing.B) uint64 {
	b.Helper()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	var kib uint64
	_, after, _ := bytes.Cut(status, []byte("VmRSS:"))
	_, _ = fmt.Sscan(string(after), &kib)
	return kib << 10
}

// BenchmarkCall is a call over the channel, by what it gets through with, and over another replica.
func BenchmarkCall(b *testing.B) {
	for name, change := range map[string]func(*settings){
		"websocket": func(*settings) {},
		"upgrade":   refusing(isWebSocket),
		"pipe":      refusing(func(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }),
	} {
		b.Run(name, func(b *testing.B) {
			f := newFleet()
			hub := f.hub(b, "hub-0", change)
			f.agent(b, "edge", []*replica{hub})
			hub.connected(1)
			b.ReportAllocs()
			for b.Loop() {
				route, err := hub.Reach(b.Context(), "edge")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := asks(b.Context(), route); err != nil {
					b.Fatal(err)
				}
				route.Release()
			}
		})
	}
}
