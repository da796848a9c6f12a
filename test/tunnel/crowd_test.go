package tunnel

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	agenttunnel "github.com/pluralsh/plural/agent/tunnel"
)

// Where a process of many agents finds the hub.
const (
	crowdURL = "PLURAL_TEST_CROWD_URL"
	crowdCA  = "PLURAL_TEST_CROWD_CA"
)

const crowdSize = 1000

// crowd is a process of many agents, which ends with its input.
func crowd(url string) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range crowdSize {
		o := dialled(url, []byte(os.Getenv(crowdCA)), fmt.Sprintf("edge-%d", i), http.NotFoundHandler(), nil)
		running.Go(func() { _ = agenttunnel.Run(ctx, o) })
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	running.Wait()
}

// BenchmarkIdle is what a hub pays for agents of which nobody asks anything, TLS included, and how long it takes until all are
// back when all connections were lost. The agents are in another process.
func BenchmarkIdle(b *testing.B) {
	if b.N > 1 {
		return
	}
	h := newHub(b)
	var mu sync.Mutex
	taken := map[net.Conn]bool{}
	h.Config.ConnState = func(c net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if state == http.StateHijacked {
			taken[c] = true
		}
	}
	before := resident(b)
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	agents := exec.CommandContext(b.Context(), program)
	agents.Env = append(os.Environ(), crowdURL+"="+h.URL, crowdCA+"="+string(authority(h.Server)))
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
	h.await(b, crowdSize)
	report("tunnel_idle_kib_per_agent", float64(resident(b)-before)/crowdSize/1024, "KiB")
	mu.Lock()
	for conn := range taken {
		_ = conn.Close()
	}
	clear(taken)
	mu.Unlock()
	began := time.Now()
	for deadline := began.Add(time.Minute); ; {
		mu.Lock()
		back := len(taken)
		mu.Unlock()
		if back >= crowdSize && len(h.channels.Connections()) == crowdSize {
			break
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d are back", len(h.channels.Connections()), crowdSize)
		}
		<-time.After(5 * time.Millisecond)
	}
	report("tunnel_1000_reconnect_s", time.Since(began).Seconds(), "s")
}

// resident is this process's memory, in bytes, without garbage.
func resident(b *testing.B) int64 {
	b.Helper()
	for range 4 { // stacks shrink by half each time, as they do on a hub that idles
		runtime.GC()
	}
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("memory is read from /proc: ", err)
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}
