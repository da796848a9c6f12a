package scale

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
)

const (
	consoleKeys    = 400
	consoleUpdates = 1000 // rows a second
	consoleStorm   = 20 * time.Second
	// quietFor is how long a console may be silent until it has nothing more to say.
	quietFor = 700 * time.Millisecond
)

// BenchmarkConsole runs the shipped `plural tui` on a terminal of 200x60 before the shipped hub with a simulated fleet of 10,000
// clusters of 10 services each, and prints a line "bench NAME VALUE UNIT" for each figure, beside its target. It runs once, and takes
// some five minutes. What the console costs is its own process's. Hub and simulator share the processors with it: what is not about
// changes is measured while the agents rest, between polls and reports that are two minutes apart; then a thousand rows a second change.
// What follows, the hub's lists, is measured while they go on changing. A machine that has other work to do shows in the percentiles,
// and where the hub is left less than half a core a thousand changes a second wait for it: that fails the benchmark.
func BenchmarkConsole(b *testing.B) {
	if b.N > 1 {
		return
	}
	f := newSimulated(b)
	name := func(rest string) string { return fmt.Sprintf("tui_%d_%s", *fleetClusters, rest) }
	hub := newTap(b, strings.TrimPrefix(f.url, "https://"))
	first := make([]float64, 0, 5)
	for range cap(first) {
		s := startScreen(b, f, hub)
		s.until(anyRow)
		first = append(first, ms(s.last().Sub(hub.met())))
		s.close()
	}
	slices.Sort(first)
	b.Logf("first rows: %.0f ms", first)
	figure(name("first_rows_ms"), first[len(first)/2], "ms", 300)

	s := startScreen(b, f, hub)
	defer s.close()
	s.until(anyRow)
	hub.settled(b)
	s.quiet()
	b.Logf("memory: %.0f MB of its own, %.0f MB of files, the program's", s.memory("RssAnon"), s.memory("RssFile"))
	figure(name("rss_mb"), s.memory("VmRSS"), "MB", 150)
	figure("tui_key_to_frame_p99_ms", s.keys(slices.Repeat([]string{"j", "j", "j", "k", "\x04", "\x15"}, consoleKeys/6)), "ms", 16)
	s.press("/")
	word := []string{"c", "-", "0", "0", "1", "\x7f", "\x7f", "\x7f", "\x7f", "\x7f"}
	regular := []string{"^", "c", "-", ".", "*", "9", "\x7f", "\x7f", "\x7f", "\x7f", "\x7f", "\x7f"}
	figure("tui_filter_p99_ms", s.keys(slices.Repeat(append(word, regular...), consoleKeys/20)), "ms", 50)
	s.press("\x1b")
	s.quiet()

	var rows atomic.Int64
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.follow(ctx, &rows) }()
	f.change()
	<-time.After(time.Second) // the first of them have come
	before, frames, told, began := s.cpu(), s.count(), rows.Load(), time.Now()
	<-time.After(consoleStorm)
	took := time.Since(began).Seconds()
	figure("tui_1000_updates_cores", (s.cpu()-before).Seconds()/took, "cores", 1)
	rate := float64(rows.Load()-told) / took
	b.Logf("the hub told %.0f rows a second, and they were drawn with %d writes to the terminal in %.0f s", rate, s.count()-frames, took)
	if rate < 0.9*consoleUpdates {
		b.Errorf("the hub told %.0f rows a second, and was to tell %d", rate, consoleUpdates)
	}
	figure(name("peak_mb"), s.memory("VmHWM"), "MB", 150)
	s.close()
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}

	lists(b, f)
	seen := f.changed()
	b.Logf("meanwhile the hub: %.2f cores, %.0f MB", seen.Cores, seen.RSS)
	if seen.Failures > 0 || seen.Turns < int(0.9*consoleUpdates*changesLast.Seconds()) {
		b.Errorf("%d changes were reported, %d requests failed again: %s", seen.Turns, seen.Failures, seen.Errors)
	}
}

// anyRow is drawn with the first rows.
var anyRow = regexp.MustCompile(`c-\d{5}`)

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

func startScreen(b *testing.B, f *simulated, hub *tap) *screen {
	b.Helper()
	hub.forget()
	dir := b.TempDir()
	var err error
	s := &screen{b: b, cmd: exec.CommandContext(b.Context(), plural(b), "-C", dir, "--hub", "https://"+hub.address(), "tui"), came: make(chan time.Time, 1)}
	s.cmd.Env = append(os.Environ(), "HOME="+dir, "PLURAL_CONFIG_DIR="+dir, "PLURAL_TOKEN="+f.token, "SSL_CERT_FILE="+f.cert,
		"TERM=xterm-256color", "LANG=C.UTF-8", "NO_COLOR=", "CI=")
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
	if s.cmd.ProcessState != nil {
		return // it was closed before
	}
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
