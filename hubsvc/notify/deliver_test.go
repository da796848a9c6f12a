package notify

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func deliverer(sink Sink) *Notifier {
	sink.Name = "s"
	return New(Options{
		Self: "hub-1", Workspace: func() string { return "acme" }, Table: func() *Table { return &Table{Sinks: map[string]Sink{"s": sink}} },
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
}

// someLines hold what encoders would change.
func someLines() []Line {
	var lines []Line
	for i, text := range []string{`{"record":{"path":"a<b>&c",  "n":1.0}}`, `{"record":{}}`} {
		sum := sha256.Sum256([]byte(text))
		lines = append(lines, Line{Time: time.Date(2026, 11, 22, 10, 0, i, 123456789, time.UTC), Denied: i == 1, JSON: []byte(text), ID: hex.EncodeToString(sum[:])})
	}
	return lines
}

func TestAWebhookGetsLinesByteByByteInOneSignedMessage(t *testing.T) {
	var got http.Header
	var body []byte
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
	}))
	defer server.Close()
	key := []byte("key")
	n := deliverer(Sink{Kind: Webhook, Target: server.URL, Secret: key})
	lines := someLines()
	if err := n.Deliver(t.Context(), "s", lines); err != nil {
		t.Fatal(err)
	}
	var message struct {
		ID, Workspace, Replica string
		Entries                []json.RawMessage
	}
	if err := json.Unmarshal(body, &message); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if message.ID != lines[1].ID || got.Get("Plural-Message") != message.ID || message.Workspace != "acme" || message.Replica != "hub-1" {
		t.Errorf("%s", body)
	}
	for i, entry := range message.Entries {
		if !bytes.Equal(entry, lines[i].JSON) {
			t.Errorf("%s is not %s", entry, lines[i].JSON)
		}
	}
	seconds, _, _ := strings.Cut(strings.TrimPrefix(got.Get(SignatureHeader), "t="), ",")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || got.Get(SignatureHeader) != sign(key, time.Unix(at, 0), body) {
		t.Errorf("the signature is %q", got.Get(SignatureHeader))
	}
	status = http.StatusTooManyRequests
	if err := n.Deliver(t.Context(), "s", lines); After(err) != 7*time.Second {
		t.Errorf("%v is to be waited for %s", err, After(err))
	}
	status = http.StatusBadRequest
	if err := n.Deliver(t.Context(), "s", lines); err == nil {
		t.Error("what was refused counts as taken")
	}
	if err := n.Deliver(t.Context(), "gone", lines); err == nil {
		t.Error("a sink that is not there takes lines")
	}
}

func TestAFileGetsLinesByteByByte(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	n := deliverer(Sink{Kind: File, Target: name})
	lines := someLines()
	for range 2 {
		if err := n.Deliver(t.Context(), "s", lines); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Repeat(string(lines[0].JSON)+"\n"+string(lines[1].JSON)+"\n", 2)
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

// syslogServer gives what each connection said.
func syslogServer(t *testing.T, listener net.Listener) <-chan string {
	t.Helper()
	said := make(chan string, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			text, _ := io.ReadAll(conn)
			said <- string(text)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return said
}

// messages reads octet-counted frames.
func messages(t *testing.T, text string) (all []string) {
	t.Helper()
	for from := bufio.NewReader(strings.NewReader(text)); ; {
		length, err := from.ReadString(' ')
		if err != nil {
			return all
		}
		n, err := strconv.Atoi(strings.TrimSpace(length))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		message := make([]byte, n)
		if _, err := io.ReadFull(from, message); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all = append(all, string(message))
	}
}

func TestASyslogServerGetsLinesAsRFC5424HasThem(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := syslogServer(t, plain)
	n := deliverer(Sink{Kind: Syslog, Target: "tcp://" + plain.Addr().String()})
	if err := n.Deliver(t.Context(), "s", someLines()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`<110>1 2026-11-22T10:00:00.123456Z hub-1 plural-hub - audit - {"record":{"path":"a<b>&c",  "n":1.0}}`,
		`<108>1 2026-11-22T10:00:01.123456Z hub-1 plural-hub - audit - {"record":{}}`,
	}
	if diff := cmp.Diff(want, messages(t, <-said)); diff != "" {
		t.Error(diff)
	}
	sink := &Sink{Kind: Syslog, Target: "tcp://" + plain.Addr().String()}
	if err := n.courier.bring(t.Context(), sink, &Message{ID: "x", Event: Event{Reason: "Failed", Warning: true}}); err != nil {
		t.Fatal(err)
	}
	if got := messages(t, <-said); len(got) != 1 || !strings.HasPrefix(got[0], "<28>1 - hub-1 plural-hub - event - {") {
		t.Errorf("an event is %q", got)
	}
}

func TestWhatASyslogServerHasNotReadIsNotTaken(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	go func() {
		for {
			conn, err := deaf.Accept()
			if err != nil {
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset, with all of it unread
			_ = conn.Close()
		}
	}()
	n := deliverer(Sink{Kind: Syslog, Target: "tcp://" + deaf.Addr().String()})
	if err := n.Deliver(t.Context(), "s", someLines()); err == nil {
		t.Error("a server that is reset has taken lines")
	}
	talker, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer talker.Close()
	go func() {
		conn, err := talker.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write(make([]byte, 1<<20)) // until the other end has enough
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}()
	n = deliverer(Sink{Kind: Syslog, Target: "tcp://" + talker.Addr().String()})
	if err := n.Deliver(t.Context(), "s", someLines()); err == nil || !strings.Contains(err.Error(), "talks without end") {
		t.Errorf("a server that talks in place of reading: %v", err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections wait for somebody to accept them
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	n = deliverer(Sink{Kind: Syslog, Target: "tcp://" + silent.Addr().String()})
	if err := n.Deliver(ctx, "s", someLines()); err == nil {
		t.Error("a server that reads nothing has taken lines")
	}
}

// The authorities that the system trusts are read once a process: this test is one of its own.
func TestSyslogOverTLSTrustsWhomTheSystemDoes(t *testing.T) {
	if target := os.Getenv("SYSLOG_TEST_TARGET"); target != "" {
		if err := deliverer(Sink{Kind: Syslog, Target: target}).Deliver(t.Context(), "s", someLines()); err != nil {
			t.Fatal(err)
		}
		return
	}
	web := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer web.Close()
	secure, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	said := syslogServer(t, secure)
	target := "tls://" + secure.Addr().String()
	if err := deliverer(Sink{Kind: Syslog, Target: target}).Deliver(t.Context(), "s", someLines()); !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that nobody vouches for: %v", err)
	}
	if got := <-said; got != "" {
		t.Errorf("it was told %q", got)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pemOf(web.Certificate()), 0o600); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), "SYSLOG_TEST_TARGET="+target, "SSL_CERT_FILE="+ca)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := messages(t, <-said); len(got) != 2 {
		t.Errorf("it was told %q", got)
	}
}

func pemOf(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}
