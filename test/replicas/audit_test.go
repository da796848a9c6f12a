package replicas

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/audit"
)

// archive is what a receiver of audit records keeps: each line once, in the order in which it came, by replica.
type archive struct {
	mu    sync.Mutex // guards what follows
	lines map[string][]string
	seen  map[string]bool
	again int
	wrong []error
}

func (a *archive) take(entry []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok, err := audit.ParseEntry(entry)
	if !ok || err != nil {
		a.wrong = append(a.wrong, fmt.Errorf("%.200q: %w", entry, err))
		return
	}
	hash := audit.Hash(e.Line)
	if a.seen[hash] {
		a.again++
		return
	}
	a.seen[hash] = true
	a.lines[e.Replica] = append(a.lines[e.Replica], string(e.Line))
}

// has is what came from a replica.
func (a *archive) has(replica string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.lines[replica])
}

func newArchive() *archive { return &archive{lines: map[string][]string{}, seen: map[string]bool{}} }

// webhook is a receiver whose first answers are lost.
func (a *archive) webhook(t *testing.T) string {
	var answers int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var message struct{ Entries []json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, entry := range message.Entries {
			a.take(entry)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if answers++; answers <= 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// syslog is a receiver of RFC 5424 over TCP.
func (a *archive) syslog(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				for from := bufio.NewReader(conn); ; {
					text, err := from.ReadString(' ')
					if err != nil {
						return
					}
					length, err := strconv.Atoi(strings.TrimSpace(text))
					message := make([]byte, max(0, length))
					if _, failed := io.ReadFull(from, message); err != nil || failed != nil {
						return // a replica that was killed sends it again
					}
					_, entry, _ := bytes.Cut(message, []byte(" - audit - "))
					a.take(entry)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return "tcp://" + listener.Addr().String()
}

// acting is people who have replicas do something, until it is stopped; who is refused, or finds nobody, goes on.
func (w *world) acting(t *testing.T) (stop func()) {
	t.Helper()
	pem, err := os.ReadFile(w.pki.ca)
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(w.dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}, Timeout: 5 * time.Second}
	ctx, cancel := context.WithCancel(t.Context())
	var people sync.WaitGroup
	for _, r := range w.replicas {
		people.Go(func() {
			for ctx.Err() == nil {
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.address(r.main)+"/v1/clusters/c-00/sync", http.NoBody)
				if err != nil {
					return
				}
				request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
				if answer, err := client.Do(request); err == nil {
					_ = answer.Body.Close()
				}
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond): // what people do, and not a test of load
				}
			}
		})
	}
	stop = func() {
		cancel()
		people.Wait()
		client.CloseIdleConnections()
	}
	t.Cleanup(stop)
	return stop
}

// chain is a replica's record as it stands on its disk.
func (r *replica) chain(t *testing.T) (lines []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.world.dir, r.name, "audit", "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var chain audit.Chain
	err = audit.Lines(bytes.NewReader(content), func(_ int, line []byte) error {
		lines = append(lines, string(line))
		return chain.Add(line)
	})
	if err != nil {
		t.Errorf("%s: %v", r.name, err)
	}
	return lines
}

// missing is which replicas a replica says are missing from its list of who did what.
func (r *replica) missing(t *testing.T) (missing []string, known bool) {
	t.Helper()
	var list v1.AuditList
	if err := r.get("/v1/audit?limit=1", &list); err != nil {
		r.world.why = err.Error()
		return nil, false
	}
	return list.Missing, true
}

// plural runs the program against a replica.
func (r *replica) plural(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command(r.world.bin, append(args, "--hub", "https://"+r.address(r.main))...)
	cmd.Env = append(os.Environ(), "PLURAL_CA_FILE="+r.world.pki.ca, "PLURAL_TOKEN_FILE="+filepath.Join(r.world.dir, "token"), "PLURAL_CONFIG_DIR="+t.TempDir())
	said, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return string(said), err
}

// TestSinksGetEveryLineOfTheAuditLogWhenAReplicaIsKilled has one of the replicas end at once in the middle of what people do.
func TestSinksGetEveryLineOfTheAuditLogWhenAReplicaIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, here())
	hook, server := newArchive(), newArchive()
	commit := w.origin.push("fleet", map[string]string{
		"notify/sinks.yaml": fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: Sink\nmetadata: {name: hook}\nspec: {webhook: {url: %q}, audit: true}\n---\n"+
			"apiVersion: plural.sh/v1alpha1\nkind: Sink\nmetadata: {name: server}\nspec: {syslog: {url: %q}, audit: true}\n", hook.webhook(t), server.syslog(t)),
	})
	until(t, 2*time.Minute, "all replicas serve the sinks", func() bool { return w.settled(commit) })
	stop := w.acting(t)
	asked, lost := w.replicas[0], w.replicas[1]
	until(t, time.Minute, "the first lines have come", func() bool { return len(hook.has(lost.name)) > 20 && len(server.has(lost.name)) > 20 })
	lost.kill()
	until(t, time.Minute, "the others name the one that is missing", func() bool {
		missing, known := asked.missing(t)
		return known && slices.Equal(missing, []string{lost.name})
	})
	if _, err := asked.plural(t, "audit", "verify"); err == nil || !strings.Contains(err.Error(), lost.name) {
		t.Errorf("without %s, plural audit verify says %v", lost.name, err)
	}
	lost.start()
	until(t, 2*time.Minute, "all is there again", func() bool {
		missing, known := asked.missing(t)
		return known && len(missing) == 0
	})
	before := len(lost.chain(t))
	until(t, time.Minute, "it goes on writing", func() bool { return len(lost.chain(t)) > before })
	stop()
	w.exported(t, asked)
	for _, r := range w.replicas {
		for name, a := range map[string]*archive{"webhook": hook, "syslog": server} {
			until(t, 2*time.Minute, "the "+name+" has all of "+r.name, func() bool { return len(a.has(r.name)) >= len(r.chain(t)) })
			if diff := cmp.Diff(r.chain(t), a.has(r.name)); diff != "" {
				t.Errorf("%s: the %s got other lines than there are: %.2000s", r.name, name, diff)
			}
			a.mu.Lock()
			if len(a.wrong) > 0 {
				t.Error(a.wrong[0])
			}
			a.mu.Unlock()
		}
	}
	if hook.again == 0 {
		t.Error("no line came twice, where the answers to some were lost")
	}
}

// exported takes the whole record out, and has it checked, with a head that was noted before.
func (w *world) exported(t *testing.T, by *replica) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if _, err := by.plural(t, "audit", "export", "--file", file); err != nil {
		t.Fatal(err)
	}
	head := audit.Hash([]byte(w.replicas[1].chain(t)[3]))
	for _, args := range [][]string{{"audit", "verify", file}, {"audit", "verify"}} {
		out, err := by.plural(t, append(args, "-o", "json", "--expect", w.replicas[1].name+"="+head)...)
		var said struct {
			Items []struct {
				Replica string
				Lines   int
				Whole   bool
			}
		}
		if err == nil {
			err = json.Unmarshal([]byte(out), &said)
		}
		if err != nil || len(said.Items) != len(w.replicas) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		for _, r := range said.Items {
			if !r.Whole || r.Lines < 20 {
				t.Errorf("%v: %+v", args, r)
			}
		}
	}
	out, err := by.plural(t, "audit", "list", "--verb", "post", "--limit", "300", "-o", "json")
	var list v1.AuditList
	if err == nil {
		err = json.Unmarshal([]byte(out), &list)
	}
	from := map[string]int{}
	for i := range list.Items {
		from[list.Items[i].Replica]++
	}
	newestFirst := slices.IsSortedFunc(list.Items, func(a, b v1.AuditEntry) int {
		if a.Replica != b.Replica { // the clock is one, but lines are not written in the order of their times
			return 0
		}
		return b.Record.Written().Compare(a.Record.Written())
	})
	if err != nil || len(list.Items) != 300 || len(from) != len(w.replicas) || !newestFirst {
		t.Errorf("%d records of %v, in order: %t, %v", len(list.Items), from, newestFirst, err)
	}
}
