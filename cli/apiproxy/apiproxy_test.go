package apiproxy

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
)

// fakeHub is a hub with one cluster, edge, whose API is api.
type fakeHub struct {
	*httptest.Server
	api http.HandlerFunc
	// asked counts tokens, seq is the number of the newest; only that one opens the cluster.
	asked, seq atomic.Int64
	// refuse, when set, is the status of every token.
	refuse int
	life   time.Duration
}

func newHub(t *testing.T, api http.HandlerFunc) *fakeHub {
	t.Helper()
	h := &fakeHub{api: api, life: 10 * time.Minute}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/kube/token" {
		h.token(w, r)
		return
	}
	if r.Header.Get("Authorization") != fmt.Sprintf("Bearer edge-%d", h.seq.Load()) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	h.api(w, r)
}

func (h *fakeHub) token(w http.ResponseWriter, r *http.Request) {
	var question struct{ Cluster string }
	_ = json.NewDecoder(r.Body).Decode(&question)
	if h.refuse != 0 || r.Header.Get("Authorization") != "Bearer person" || question.Cluster != "edge" || r.Method != http.MethodPost {
		w.WriteHeader(cmp.Or(h.refuse, http.StatusForbidden))
		_, _ = io.WriteString(w, `{"message": "not you", "fix": "plural auth login"}`)
		return
	}
	h.asked.Add(1)
	_ = json.NewEncoder(w).Encode(v1.KubeToken{Token: fmt.Sprintf("edge-%d", h.seq.Add(1)), Expires: time.Now().Add(h.life)})
}

// tokens are those of a process of its own, which shares a folder with others.
func (h *fakeHub) tokens(t *testing.T, person, dir string) *Tokens {
	t.Helper()
	hub, err := client.New(h.URL, person, "test")
	if err != nil {
		t.Fatal(err)
	}
	return NewTokens(hub, "edge", dir, time.Now)
}

// open is a door to the cluster of hub.
func open(t *testing.T, h *fakeHub, secret bool) (door *LocalListener, end context.CancelFunc) {
	t.Helper()
	tokens := h.tokens(t, "person", t.TempDir())
	p, err := New(tokens.hub, tokens, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	door, err = Open(ctx, p, 0, secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(door.Close)
	return door, end
}

func TestATokenServesManyProcesses(t *testing.T) {
	h, dir := newHub(t, nil), filepath.Join(t.TempDir(), "tokens")
	for range 3 {
		token, err := h.tokens(t, "person", dir).Token(t.Context())
		if err != nil || token.Token != "edge-1" {
			t.Fatalf("got %+v, %v", token, err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("got %v, %v", files, err)
	}
	info, err := files[0].Info()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kept with mode %v, %v", info.Mode(), err)
	}
	if folder, err := os.Stat(dir); err != nil || folder.Mode().Perm() != 0o700 {
		t.Errorf("in a folder of mode %v, %v", folder.Mode(), err)
	}
}

func TestATokenIsOfOnePersonAlone(t *testing.T) {
	h, dir := newHub(t, nil), t.TempDir()
	if _, err := h.tokens(t, "person", dir).Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	if token, err := h.tokens(t, "another", dir).Token(t.Context()); err == nil {
		t.Errorf("another person got %q", token.Token)
	}
}

func TestATokenAboutToEndIsNotShown(t *testing.T) {
	h, dir := newHub(t, nil), t.TempDir()
	h.life = margin - time.Second
	tokens := h.tokens(t, "person", dir)
	for range 2 {
		if _, err := tokens.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestADamagedFileIsAskedOver(t *testing.T) {
	h, dir := newHub(t, nil), t.TempDir()
	tokens := h.tokens(t, "person", dir)
	if err := os.WriteFile(filepath.Join(dir, tokens.file()), []byte(`{"token": 7`), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := tokens.Token(t.Context()); err != nil || token.Token != "edge-1" {
		t.Errorf("got %+v, %v", token, err)
	}
}

func TestWhatIsKeptForNothingGoes(t *testing.T) {
	h, dir := newHub(t, nil), t.TempDir()
	old := filepath.Join(dir, "old.json")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-forgotten - time.Hour)
	if err := os.Chtimes(old, then, then); err != nil {
		t.Fatal(err)
	}
	if _, err := h.tokens(t, "person", dir).Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("it is still there")
	}
}

func TestRequestsArriveAsTheyWereWritten(t *testing.T) {
	got := make(chan *http.Request, 1)
	h := newHub(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r
		_, _ = io.WriteString(w, "answer")
	})
	door, _ := open(t, h, true)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, door.URL+"/apis/a%2Fb/x?q=a;b&watch=1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer mine")
	req.Header.Set("Cookie", "a=b")
	req.Header.Set("User-Agent", "kubectl/v1")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	r := <-got
	if r.RequestURI != "/k8s/edge/apis/a%2Fb/x?q=a;b&watch=1" || string(body) != "answer" {
		t.Errorf("got %q, answered %q", r.RequestURI, body)
	}
	if r.Header.Get("Cookie") != "" || r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("User-Agent") != "kubectl/v1" {
		t.Errorf("got %v", r.Header)
	}
}

func TestAWatchComesEventByEvent(t *testing.T) {
	next := make(chan struct{})
	h := newHub(t, func(w http.ResponseWriter, r *http.Request) {
		for i := 0; ; i++ {
			fmt.Fprintf(w, "event %d\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	door, end := open(t, h, false)
	resp, err := http.Get(door.URL + "/api/v1/pods?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for i := range 3 {
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("event %d\n", i) {
			t.Fatalf("got %q, %v", line, err)
		}
		next <- struct{}{}
	}
	end()
	if _, err := io.ReadAll(lines); err == nil {
		t.Error("the watch ended as if it were complete")
	}
}

// TestAConnectionGoesBothWaysAndHalfCloses speaks the oldest of the protocols that kubectl exec has; the way is the same for
// all of them.
func TestAConnectionGoesBothWaysAndHalfCloses(t *testing.T) {
	h := newHub(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
		said, _ := io.ReadAll(buffered)
		fmt.Fprintf(conn, "you said %q", said) // after the other side has closed its half
	})
	door, _ := open(t, h, false)
	conn, err := net.Dial("tcp", strings.TrimPrefix(door.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /exec HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n", conn.RemoteAddr())
	answer := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answer, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %+v, %v", resp, err)
	}
	_, _ = io.WriteString(conn, "hello")
	_ = conn.(*net.TCPConn).CloseWrite()
	if text, err := io.ReadAll(answer); err != nil || string(text) != `you said "hello"` {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestAnOpenConnectionEndsWithTheDoor(t *testing.T) {
	h := newHub(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.ReadAll(conn)
	})
	door, end := open(t, h, false)
	conn, err := net.Dial("tcp", strings.TrimPrefix(door.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /exec HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", conn.RemoteAddr())
	answer := bufio.NewReader(conn)
	if _, err := http.ReadResponse(answer, nil); err != nil {
		t.Fatal(err)
	}
	end()
	if _, err := io.ReadAll(answer); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestAWithdrawnTokenIsAskedOver(t *testing.T) {
	h := newHub(t, func(http.ResponseWriter, *http.Request) {})
	door, _ := open(t, h, false)
	var codes []int
	for i := range 3 {
		if i == 1 {
			h.seq.Add(1) // the hub takes no older token any more
		}
		resp, err := http.Get(door.URL + "/version")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		codes = append(codes, resp.StatusCode)
	}
	if fmt.Sprint(codes) != "[200 401 200]" {
		t.Errorf("got %v", codes)
	}
}

func TestRefusalsAreTheAPIServers(t *testing.T) {
	h := newHub(t, nil)
	door, _ := open(t, h, false)
	for _, test := range []struct {
		about string
		set   func()
		code  int32
		says  string
	}{
		{"a person whom the hub does not know", func() { h.refuse = http.StatusUnauthorized }, http.StatusUnauthorized, "not you; plural auth login"},
		{"a hub that is gone", h.Close, http.StatusServiceUnavailable, "reach hub"},
	} {
		test.set()
		resp, err := http.Get(door.URL + "/version")
		if err != nil {
			t.Fatal(err)
		}
		var status metav1.Status
		err = json.NewDecoder(resp.Body).Decode(&status)
		_ = resp.Body.Close()
		if err != nil || int32(resp.StatusCode) != test.code || status.Code != test.code || !strings.Contains(status.Message, test.says) {
			t.Errorf("%s: got %d %+v, %v", test.about, resp.StatusCode, status, err)
		}
	}
}

func TestADoorIsShutToWebPages(t *testing.T) {
	h := newHub(t, func(http.ResponseWriter, *http.Request) {})
	door, _ := open(t, h, false)
	address := strings.TrimPrefix(door.URL, "http://")
	_, port, _ := strings.Cut(address, ":")
	for name, test := range map[string]struct {
		host   string
		header map[string]string
		want   int
	}{
		"a tool":                                 {address, nil, 200},
		"a tool that says localhost":             {"localhost:" + port, nil, 200},
		"a name that was made to lead here":      {"evil.example.com:" + port, nil, 403},
		"a name without a port":                  {"localhost", nil, 403},
		"another port":                           {"127.0.0.1:1", nil, 403},
		"a page's script":                        {address, map[string]string{"Origin": "https://evil.example.com"}, 403},
		"a script without an origin":             {address, map[string]string{"Origin": "null"}, 403},
		"a page's picture":                       {address, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"a link on what the cluster served":      {address, map[string]string{"Sec-Fetch-Site": "same-origin"}, 403},
		"an address that was typed in a browser": {address, map[string]string{"Sec-Fetch-Site": "none"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, door.URL+"/version", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = test.host
			for key, value := range test.header {
				req.Header.Set(key, value)
			}
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != test.want {
				t.Errorf("got %d", resp.StatusCode)
			}
		})
	}
}

func TestASecretDoorIsShutToOtherPrograms(t *testing.T) {
	h := newHub(t, func(http.ResponseWriter, *http.Request) {})
	door, _ := open(t, h, true)
	other, _, _ := strings.Cut(strings.TrimPrefix(door.URL, "http://"), "/")
	for url, want := range map[string]int{
		door.URL + "/version": 200, door.URL: 200, "http://" + other + "/version": 403, "http://" + other + "/": 403,
		door.URL[:len(door.URL)-1] + "/version": 403, door.URL + "x/version": 403,
	} {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: got %d", url, resp.StatusCode)
		}
	}
	if h.asked.Load() != 1 {
		t.Errorf("asked for %d tokens", h.asked.Load())
	}
}
