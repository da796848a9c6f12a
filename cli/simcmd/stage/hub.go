package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Hub is a hub's process. Its methods are not safe for concurrent use.
type Hub struct {
	// URL is where agents find it, CA what they trust it by.
	URL string
	CA  []byte

	options HubOptions
	listen  string
	remote  *Remote
	cmd     *exec.Cmd
	stdin   io.WriteCloser // its end is the hub's: no hub outlives its simulation
	gone    chan struct{}  // closed once the process has ended
}

// HubOptions say what a hub is run with.
type HubOptions struct {
	// Program is the plural program; Args are further ones for `plural hub serve`.
	Program string
	Args    []string
	// Dir is for the hub's data, its certificate and its log.
	Dir string
	// PollInterval and ReportInterval are what the hub asks of agents.
	PollInterval, ReportInterval time.Duration
}

// NewHub chooses an address, and makes a certificate for it. Start runs the hub.
func NewHub(o HubOptions) (*Hub, error) {
	probe, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it asks nobody
	if err != nil {
		return nil, fmt.Errorf("choose the hub's address: %w", err)
	}
	h := &Hub{options: o, listen: probe.Addr().String()}
	if err := probe.Close(); err != nil {
		return nil, fmt.Errorf("choose the hub's address: %w", err)
	}
	h.URL = "https://" + h.listen
	if h.CA, err = certificate(o.Dir); err != nil {
		return nil, err
	}
	h.remote, err = NewRemote(h.URL, "", h.CA)
	return h, err
}

// Start starts the hub on the origin, and waits until it is ready to serve.
func (h *Hub) Start(ctx context.Context, origin string) error {
	data := filepath.Join(h.options.Dir, "data")
	args := append([]string{
		"hub", "serve", "--with-parent", "--repo", "file://" + origin, "--allow-file-sources", "--allow-loopback", "--data", data,
		"--listen", h.listen, "--url", h.URL,
		"--tls-cert", filepath.Join(h.options.Dir, "tls.crt"), "--tls-key", filepath.Join(h.options.Dir, "tls.key"),
		"--poll-interval", h.options.PollInterval.String(), "--report-interval", h.options.ReportInterval.String(),
	}, h.options.Args...)
	log, err := os.OpenFile(h.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the hub's log: %w", err)
	}
	defer log.Close()                                // the process has its own
	h.cmd = exec.Command(h.options.Program, args...) //nolint:noctx // it ends with its standard input
	h.cmd.Stdout, h.cmd.Stderr = log, log
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start hub: %w", err)
	}
	if err := h.cmd.Start(); err != nil {
		return fmt.Errorf("start hub: %w", err)
	}
	h.gone = make(chan struct{})
	go func(cmd *exec.Cmd, gone chan struct{}) { // ends with the process
		_ = cmd.Wait() // how it ended stands in its log
		close(gone)
	}(h.cmd, h.gone)
	return h.ready(ctx)
}

// Log is the file that the hub's words go to.
func (h *Hub) Log() string { return filepath.Join(h.options.Dir, "hub.log") }

// PID is the hub's process.
func (h *Hub) PID() int { return h.cmd.Process.Pid }

func (h *Hub) ready(ctx context.Context) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if h.remote.Ready(ctx) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the hub is not ready: %w", ctx.Err())
		case <-h.gone:
			return fmt.Errorf("the hub ended: %s", h.lastWords())
		case <-ticker.C:
		}
	}
}

// lastWords are the last lines of the log.
func (h *Hub) lastWords() string {
	text, err := os.ReadFile(h.Log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// Hint tells the hub that somebody pushed.
func (h *Hub) Hint(ctx context.Context) error {
	token, err := os.ReadFile(filepath.Join(h.options.Dir, "data", "token"))
	if err != nil {
		return fmt.Errorf("read the hub's token: %w", err)
	}
	h.remote.token = strings.TrimSpace(string(token))
	return h.remote.Hint(ctx)
}

// Usage is what the system says of the hub's process.
func (h *Hub) Usage(context.Context) (Usage, error) { return UsageOf(h.PID()) }

// Kill ends the process without a warning, and waits for its end.
func (h *Hub) Kill() error { return h.end(syscall.SIGKILL) }

// Stop asks the process to end, and waits until it has.
func (h *Hub) Stop() error { return h.end(syscall.SIGTERM) }

func (h *Hub) end(signal syscall.Signal) error {
	if h.cmd == nil || h.cmd.Process == nil {
		return nil
	}
	if err := h.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end hub: %w", err)
	}
	<-h.gone
	_ = h.stdin.Close() // it may have gone with the process
	return nil
}
