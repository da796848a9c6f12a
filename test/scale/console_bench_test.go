package scale

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	hubapi "github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/person"
)

const (
	consoleKeys    = 400
	consoleUpdates = 1000 // rows a second
	consoleStorm   = 20 * time.Second
	// quietFor is how long a console may be silent until it has nothing more to say.
	quietFor = 700 * time.Millisecond
)

// BenchmarkConsole runs the shipped `plural tui` on a terminal of 200x60 before a hub's /v1 with 10,000 clusters of 10 services each,
// and prints a line "bench NAME VALUE UNIT" for each figure, beside its target. It runs once. The hub is in this process, so that
// what is measured of the console is the console's alone.
func BenchmarkConsole(b *testing.B) {
	if b.N > 1 {
		return
	}
	l := newListed()
	l.view.Summary()
	hub := newConsoleHub(b, l)
	var first []float64
	for range 5 {
		s := startScreen(b, hub)
		s.until(regexp.MustCompile(`edge-\d{5}`))
		first = append(first, ms(s.last().Sub(hub.met())))
		s.close()
	}
	slices.Sort(first)
	figure("tui_10000_first_rows_ms", first[len(first)/2], "ms", 300)

	s := startScreen(b, hub)
	defer s.close()
	s.until(regexp.MustCompile(`edge-\d{5}`))
	hub.listed(b)
	s.quiet()
	figure("tui_10000_rss_mb", s.memory("VmRSS"), "MB", 150)
	figure("tui_key_to_frame_p99_ms", s.keys(slices.Repeat([]string{"j", "j", "j", "k", "\x04", "\x15"}, consoleKeys/6)), "ms", 16)
	s.press("/")
	word := []string{"e", "d", "g", "e", "-", "0", "1", "\x7f", "\x7f", "\x7f", "\x7f", "\x7f", "\x7f", "\x7f"}
	regular := []string{"^", "e", "d", "g", "e", ".", "*", "9", "\x7f", "\x7f", "\x7f", "\x7f", "\x7f", "\x7f", "\x7f", "\x7f"}
	figure("tui_filter_p99_ms", s.keys(slices.Repeat(append(word, regular...), consoleKeys/30)), "ms", 50)
	s.press("\x1b")
	s.quiet()

	ctx, cancel := context.WithTimeout(b.Context(), consoleStorm)
	defer cancel()
	before, began := s.cpu(), time.Now()
	frames, rows := s.count(), hub.rows.Load()
	l.flip(ctx)
	cores := (s.cpu() - before).Seconds() / time.Since(began).Seconds()
	figure("tui_1000_updates_cores", cores, "cores", 1)
	told := float64(hub.rows.Load()-rows) / time.Since(began).Seconds()
	b.Logf("%.0f rows a second were told, and drawn with %d writes to the terminal in %s", told, s.count()-frames, consoleStorm)
	if told < 0.9*consoleUpdates {
		b.Errorf("the hub told %.0f rows a second, and was to tell %d", told, consoleUpdates)
	}
	figure("tui_10000_peak_mb", s.memory("VmHWM"), "MB", 150)
}

// flip has one row of another cluster change, so often a second, until ctx ends.
func (l *listed) flip(ctx context.Context) {
	tick := time.NewTicker(time.Second / 100)
	defer tick.Stop()
	for round := 0; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for i := range consoleUpdates / 100 {
				l.view.Reported(l.turn((round*(consoleUpdates/100)+i)%listedClusters, round), false)
			}
		}
	}
}

// turn makes a cluster's agent say something else of one service.
func (l *listed) turn(cluster, round int) string {
	name := fmt.Sprintf("edge-%05d", cluster)
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.reports[name].GetServices()
	services := slices.Clone(said)
	at := round % listedServices
	s := &api.ServiceReport{
		Service: said[at].GetService(), Key: "key-2", AppliedKey: "key-2", AppliedVersion: "1.2.3", Phase: api.Phase_HEALTHY,
		Objects: 12, Ready: 12,
	}
	if said[at].GetPhase() == api.Phase_HEALTHY {
		s.Phase, s.Ready, s.Message = api.Phase_DEGRADED, 11, "Deployment web: 1 of 3 replicas are ready on "+name
	}
	services[at] = s
	l.reports[name] = &api.Report{AgentVersion: "v0.12.0", KubernetesVersion: "v1.36.1", ReceivedUnixMs: time.Now().UnixMilli(), Services: services}
	return name
}

// consoleHub is /v1 on this machine, which knows when it was asked.
type consoleHub struct {
	*httptest.Server
	rows atomic.Int64 // that were sent

	mu   sync.Mutex // guards what follows
	at   time.Time  // of the first request of a console
	seen time.Time  // of the last one for a list
}

func newConsoleHub(b *testing.B, l *listed) *consoleHub {
	b.Helper()
	mux := http.NewServeMux()
	hubapi.New(hubapi.Options{
		View: l.view, Sources: l.view.Sources, Now: time.Now,
		Allow: func(*http.Request, string) (person.Person, error) { return person.Person{Name: "bench"}, nil },
		Follow: func(since string, kinds []v1.ChangeKind, filters func(v1.ChangeKind) string) (hubapi.Follower, error) {
			return l.view.Follow(since, kinds, filters)
		},
	}).Routes(mux)
	h := &consoleHub{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.seen = time.Now()
		if h.at.IsZero() {
			h.at = h.seen
		}
		h.mu.Unlock()
		mux.ServeHTTP(&counting{w, &h.rows}, r)
	}))
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.view.Run(ctx) }()
	b.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		cancel()
		<-ended
	})
	return h
}

// counting counts the deployments that are sent.
type counting struct {
	http.ResponseWriter
	rows *atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	c.rows.Add(int64(bytes.Count(p, []byte(`"appliedKey":"key-2"`))))
	return c.ResponseWriter.Write(p)
}

// Unwrap is what a ResponseController asks for.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (h *consoleHub) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = time.Time{}
}

func (h *consoleHub) met() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

// listed waits until nothing was asked for a while: all is listed.
func (h *consoleHub) listed(b *testing.B) {
	b.Helper()
	deadline, tick := time.After(2*time.Minute), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-deadline:
			b.Fatal("the console lists on and on")
		case <-tick.C:
			h.mu.Lock()
			rest := time.Since(h.seen)
			h.mu.Unlock()
			if rest > 2*time.Second {
				return
			}
		}
	}
}

// screen is a console on a terminal.
type screen struct {
	b    *testing.B
	tty  *os.File
	cmd  *exec.Cmd
	came chan time.Time // when something was drawn

	mu    sync.Mutex // guards what follows
	text  bytes.Buffer
	at    time.Time
	reads int
}

func startScreen(b *testing.B, hub *consoleHub) *screen {
	b.Helper()
	program, err := filepath.Abs("../../bin/plural")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		b.Skipf("SKIPPED: bin/plural is not built: run make plural first: %v", err)
	}
	hub.forget()
	dir := b.TempDir()
	s := &screen{b: b, cmd: exec.CommandContext(b.Context(), program, "-C", dir, "--hub", hub.URL, "tui"), came: make(chan time.Time, 1)}
	s.cmd.Env = append(os.Environ(), "HOME="+dir, "PLURAL_CONFIG_DIR="+dir, "PLURAL_TOKEN=bench", "TERM=xterm-256color", "LANG=C.UTF-8", "NO_COLOR=", "CI=")
	if s.tty, err = pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 60, Cols: 200}); err != nil {
		b.Fatal(err)
	}
	go s.read()
	return s
}

func (s *screen) read() {
	room := make([]byte, 64<<10)
	for {
		n, err := s.tty.Read(room)
		now := time.Now()
		s.mu.Lock()
		s.text.Write(room[:n])
		s.at = now
		s.reads++
		s.mu.Unlock()
		select {
		case s.came <- now:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (s *screen) last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *screen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// until waits until something was drawn.
func (s *screen) until(what *regexp.Regexp) {
	s.b.Helper()
	deadline := time.After(30 * time.Second)
	for {
		s.mu.Lock()
		found := what.Match(s.text.Bytes())
		s.mu.Unlock()
		if found {
			return
		}
		select {
		case <-s.came:
		case <-deadline:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.b.Fatalf("%s is never drawn:\n%q", what, s.text.String())
		}
	}
}

// quiet waits until nothing is drawn any more.
func (s *screen) quiet() {
	for {
		select {
		case <-s.came:
		case <-time.After(quietFor):
			return
		}
	}
}

func (s *screen) press(key string) {
	s.b.Helper()
	if _, err := s.tty.WriteString(key); err != nil {
		s.b.Fatal(err)
	}
}

// keys presses keys, each when the screen has been still for a while, and gives the 99th percentile of what passes until something
// is drawn, in milliseconds.
func (s *screen) keys(keys []string) float64 {
	s.b.Helper()
	var took []time.Duration
	for _, key := range keys {
		for still := false; !still; {
			select {
			case <-s.came:
			case <-time.After(30 * time.Millisecond):
				still = true
			}
		}
		began := time.Now()
		s.press(key)
		select {
		case at := <-s.came:
			took = append(took, at.Sub(began))
		case <-time.After(500 * time.Millisecond): // the cursor is at an end
		}
	}
	if len(took) < len(keys)/2 {
		s.b.Fatalf("of %d keys %d changed something", len(keys), len(took))
	}
	slices.Sort(took)
	s.b.Logf("%d keys: median %s, p99 %s, worst %s", len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	return ms(took[len(took)*99/100])
}

// memory is a figure of the console's, in megabytes.
func (s *screen) memory(field string) float64 {
	s.b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kilobytes, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				s.b.Fatal(err)
			}
			return kilobytes * 1024 / 1e6
		}
	}
	s.b.Fatalf("no %s", field)
	return 0
}

// cpu is the time that the console has computed for.
func (s *screen) cpu() time.Duration {
	s.b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		s.b.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] { // in user mode and in the kernel's
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			s.b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100)
}

func (s *screen) close() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	ended := make(chan struct{})
	go func() {
		_ = s.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-ended
	}
	_ = s.tty.Close()
}
