package live_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
)

// lineReader returns a function for the next line, which is empty at the end.
func lineReader(from io.Reader) func() string {
	scanner := bufio.NewScanner(from)
	return func() string {
		if !scanner.Scan() {
			return ""
		}
		return scanner.Text()
	}
}

func (w *world) kubelets(handler http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backend = handler
}

func TestAPodsLogIsStreamedAsItIsPrinted(t *testing.T) {
	w := newWorld(t)
	proceed := make(chan struct{})
	asked := make(chan url.Values, 1)
	w.kubelets(func(out http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query()
		if r.URL.Path != "/api/v1/namespaces/"+w.Namespace+"/pods/web-1/log" {
			t.Errorf("path %s", r.URL.Path)
		}
		out.Header().Set("Content-Type", "text/html")
		fmt.Fprintln(out, "one")
		_ = http.NewResponseController(out).Flush()
		<-proceed
		fmt.Fprintln(out, "two")
	})
	resp := w.send(t.Context(), "alice", http.MethodGet, "{at}/pods/{ns}/web-1/logs?container=web&follow=true&tail=10&since=90s&previous=1", "")
	if got := resp.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", resp.Header)
	}
	next := lineReader(resp.Body)
	if got := next(); got != "one" {
		t.Errorf("first %q", got)
	}
	close(proceed)
	if got := next(); got != "two" {
		t.Errorf("second %q", got)
	}
	want := url.Values{"container": {"web"}, "follow": {"true"}, "tailLines": {"10"}, "sinceSeconds": {"90"}, "previous": {"true"}}
	if diff := cmp.Diff(want, <-asked); diff != "" {
		t.Error(diff)
	}
}

func TestAPodsLogThatIsRefusedOrBrokenOffIsNoWholeLog(t *testing.T) {
	w := newWorld(t)
	if code, text := w.get("alice", "{at}/pods/{ns}/web-1/logs"); code != http.StatusForbidden || !strings.Contains(text, "cannot get resource") {
		t.Errorf("%d %s", code, text)
	}
	for _, target := range []string{"{at}/pods/{ns}/..%2Fx/logs", "{at}/pods/{ns}/a/logs?tail=x", "{at}/pods/{ns}/a/logs?since=-1s", "{at}/pods/{ns}/a/logs?container=a%2Fb"} {
		if code, text := w.get("alice", target); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", target, code, text)
		}
	}
	w.kubelets(func(out http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(out, "one")
		_ = http.NewResponseController(out).Flush()
		panic(http.ErrAbortHandler)
	})
	resp := w.send(t.Context(), "alice", http.MethodGet, "{at}/pods/{ns}/web-1/logs", "")
	if text, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%q ends as if it were whole", text)
	}
}

const execTarget = "/v1/clusters/edge-1/exec?namespace=shop&pod=web-1&container=web&command=sh&command=-c&command=echo&stdin=1&tty=1"

func (w *world) dial(ctx context.Context, header http.Header, protocols ...string) (*websocket.Conn, *http.Response, error) {
	return websocket.Dial(ctx, w.hub.URL+execTarget, &websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols})
}

func TestExecPassesAWebsocketOn(t *testing.T) {
	w := newWorld(t)
	asked := make(chan *http.Request, 1)
	w.kubelets(func(out http.ResponseWriter, r *http.Request) {
		asked <- r
		conn, err := websocket.Accept(out, r, &websocket.AcceptOptions{Subprotocols: []string{"v5.channel.k8s.io"}})
		if err != nil {
			return
		}
		for {
			kind, data, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			if string(data) == "\x00exit" {
				_ = conn.Close(websocket.StatusNormalClosure, "done")
				return
			}
			_ = conn.Write(context.Background(), kind, append([]byte("\x01"), data[1:]...))
		}
	})
	token := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("alice"))
	conn, resp, err := w.dial(t.Context(), nil, "v5.channel.k8s.io", token)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Sec-Websocket-Protocol"); got != "v5.channel.k8s.io" {
		t.Errorf("protocol %q", got)
	}
	r := <-asked
	want := url.Values{"command": {"sh", "-c", "echo"}, "container": {"web"}, "stdin": {"true"}, "stdout": {"true"}, "tty": {"true"}}
	if diff := cmp.Diff(want, r.URL.Query()); diff != "" || r.URL.Path != "/api/v1/namespaces/shop/pods/web-1/exec" {
		t.Errorf("path %s: %s", r.URL.Path, diff)
	}
	if text := fmt.Sprint(r.Header); strings.Contains(text, "Authorization") || strings.Contains(text, "bearer") {
		t.Errorf("the token goes on: %s", text)
	}
	for _, text := range []string{"hello", strings.Repeat("x", 20<<10)} {
		if err := conn.Write(t.Context(), websocket.MessageBinary, []byte("\x00"+text)); err != nil {
			t.Fatal(err)
		}
		if _, data, err := conn.Read(t.Context()); err != nil || string(data) != "\x01"+text {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
	}
	if err := conn.Write(t.Context(), websocket.MessageBinary, []byte("\x00exit")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("it ends with %v", err)
	}
}

func TestExecEndsAtTheBackendWhenTheClientGoes(t *testing.T) {
	w := newWorld(t)
	ended := make(chan error, 1)
	w.kubelets(func(out http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(out, r, &websocket.AcceptOptions{Subprotocols: []string{"v5.channel.k8s.io"}})
		if err == nil {
			_, _, err = conn.Read(context.Background())
		}
		ended <- err
	})
	conn, _, err := w.dial(t.Context(), http.Header{"Authorization": {"Bearer alice"}}, "v5.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.CloseNow()
	if err := <-ended; err == nil {
		t.Error("the backend read something")
	}
}

func TestExecIsRefusedBeforeAnythingIsPassedOn(t *testing.T) {
	w := newWorld(t)
	w.kubelets(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("container") == "web" {
			http.Error(out, `{"kind":"Status","message":"pods \"web-1\" is forbidden","code":403}`, http.StatusForbidden)
			return
		}
		fmt.Fprint(out, "an answer that is none")
	})
	alice := http.Header{"Authorization": {"Bearer alice"}}
	with := func(name, value string) http.Header {
		h := alice.Clone()
		h.Set(name, value)
		return h
	}
	for _, tt := range []struct {
		name     string
		header   http.Header
		protocol string
		code     int
	}{
		{"a page of somebody else's", with("Origin", "https://evil.example.com"), "v5.channel.k8s.io", http.StatusForbidden},
		{"a page without an origin", with("Origin", "null"), "v5.channel.k8s.io", http.StatusForbidden},
		{"nobody", nil, "v5.channel.k8s.io", http.StatusUnauthorized},
		{"a stranger", http.Header{"Authorization": {"Bearer stranger"}}, "v5.channel.k8s.io", http.StatusNotFound},
		{"another protocol", alice, "chat", http.StatusBadRequest},
		{"the cluster says no", alice, "v5.channel.k8s.io", http.StatusForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, resp, err := w.dial(t.Context(), tt.header, tt.protocol)
			if err == nil || resp == nil || resp.StatusCode != tt.code {
				t.Errorf("%v, %v", resp, err)
			}
		})
	}
	if code, _ := w.get("alice", execTarget); code != http.StatusUpgradeRequired {
		t.Errorf("no websocket: %d", code)
	}
	for name, target := range map[string]string{
		"a pod elsewhere": strings.Replace(execTarget, "web-1", "..%2F..%2Fsecrets", 1),
		"no command":      strings.ReplaceAll(execTarget, "command", "c"),
	} {
		_, resp, err := websocket.Dial(t.Context(), w.hub.URL+target, &websocket.DialOptions{HTTPHeader: alice, Subprotocols: []string{"v5.channel.k8s.io"}})
		if err == nil || resp == nil || resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
	target := strings.Replace(execTarget, "container=web", "container=other", 1)
	_, resp, err := websocket.Dial(t.Context(), w.hub.URL+target, &websocket.DialOptions{HTTPHeader: alice, Subprotocols: []string{"v5.channel.k8s.io"}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusBadGateway {
		t.Errorf("an answer that is no switch: %v, %v", resp, err)
	}
}
