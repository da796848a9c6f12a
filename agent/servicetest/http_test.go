package servicetest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pluralsh/plural/agent/servicetest"
)

// echo answers with what it was asked, except where a path says otherwise.
func echo(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/teapot":
		w.WriteHeader(http.StatusTeapot)
	case "/away":
		http.Redirect(w, r, "/teapot", http.StatusFound)
	case "/slow":
		<-r.Context().Done()
	case "/large":
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20)+"end")
	}
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s host=%s color=%s auth=%s impersonate=%s body=%s",
		r.Method, r.URL.RequestURI(), r.Host, r.Header.Get("Color"), r.Header.Get("Authorization"), r.Header.Get("Impersonate-User"), body)
}

func TestAServiceIsAskedThroughTheAPIServer(t *testing.T) {
	w := start(t)
	w.serve("web", false, http.HandlerFunc(echo))
	w.serve("secure", true, http.HandlerFunc(echo))
	for _, tt := range []struct {
		name string
		http servicetest.HTTP
		want string // in the message; empty: it passes
	}{
		{"by number", servicetest.HTTP{Service: "web", Port: "80"}, ""},
		{"by name", servicetest.HTTP{Service: "web", Port: "web"}, ""},
		{"with TLS", servicetest.HTTP{Service: "secure", Port: "web", Scheme: "https"}, ""},
		{"path and query", servicetest.HTTP{Service: "web", Port: "80", Path: "/a/b/?x=1&y=%20", Contains: "GET /a/b/?x=1&y=%20"}, ""},
		{"method, header and body", servicetest.HTTP{Service: "web", Port: "80", Method: "POST", Headers: map[string]string{"color": "red"}, Body: "hello", Contains: "color=red"}, ""},
		{"no credentials of ours", servicetest.HTTP{Service: "web", Port: "80", Contains: "auth= impersonate= "}, ""},
		{"a status that is wanted", servicetest.HTTP{Service: "web", Port: "80", Path: "/teapot", Status: 418}, ""},
		{"a status that is not", servicetest.HTTP{Service: "web", Port: "80", Path: "/teapot"}, "it answers 418 I'm a teapot, not 2xx"},
		{"another status than wanted", servicetest.HTTP{Service: "web", Port: "80", Status: 204}, "it answers 200 OK, not 204"},
		{"a redirect is not followed", servicetest.HTTP{Service: "web", Port: "80", Path: "/away", Status: 302}, ""},
		{"an answer without the words", servicetest.HTTP{Service: "web", Port: "80", Contains: "hello"}, `does not contain "hello"`},
		{"an answer with the words too far", servicetest.HTTP{Service: "web", Port: "80", Path: "/large", Contains: "end"}, "the answer of 1048576 bytes"},
		{"no such Service", servicetest.HTTP{Service: "wep", Port: "80", Status: 404}, `services "wep" not found`},
		{"no such port", servicetest.HTTP{Service: "web", Port: "81"}, "the API server answers"},
		{"another namespace", servicetest.HTTP{Service: "web", Namespace: "default", Port: "80"}, `services "web" not found`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.try(servicetest.Test{Name: tt.name, HTTP: &tt.http})
			if got.Passed != (tt.want == "") || !strings.Contains(got.Message, tt.want) || got.Name != tt.name || got.Tries != 1 {
				t.Errorf("result %+v, want %q", got, tt.want)
			}
			if len(got.Log) > 4096 {
				t.Errorf("%d bytes of log", len(got.Log))
			}
		})
	}
}

func TestAnAnswerThatIsCutWhereItIsReadShowsNoBeginningOfASecret(t *testing.T) {
	w := start(t)
	const secret = "correct-horse-battery-staple"
	w.target.Mask = func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	web := w.serve("web", false, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = io.WriteString(rw, strings.Repeat("noise ", 1<<20)[:1<<20-len("correct")]+secret)
			return
		}
		rw.Header().Set("Content-Length", "9999")
		_, _ = io.WriteString(rw, "noise\n"+secret[:len("correct")])
	}))
	w.DialWith(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, web)
	})
	for path, passes := range map[string]bool{"/large": true, "/broken-off": false} {
		got := w.try(servicetest.Test{Name: "asked", HTTP: &servicetest.HTTP{Service: "web", Port: "80", Path: path, ByName: true}})
		if got.Passed != passes || !strings.Contains(got.Log, "noise") || strings.Contains(got.Log, "c") {
			t.Errorf("%s: result %+v", path, got)
		}
	}
}

func TestARequestThatWouldBeAnotherIsRefusedAndNotTriedAgain(t *testing.T) {
	w := start(t)
	w.target.Namespaces = []string{w.Namespace, "web-jobs"}
	for name, http := range map[string]servicetest.HTTP{
		"path out of the Service":           {Service: "web", Port: "80", Path: "/../../secrets"},
		"path out of the Service, in code":  {Service: "web", Port: "80", Path: "/a/%2e%2e/%2E%2E/secrets"},
		"path out of the Service, in slash": {Service: "web", Port: "80", Path: `/a\..\..`},
		"path without a root":               {Service: "web", Port: "80", Path: "secrets"},
		"path to a host":                    {Service: "web", Port: "80", Path: "//example.com/"},
		"service with a path":               {Service: "web/proxy", Port: "80"},
		"service with a scheme":             {Service: "https:web", Port: "80"},
		"namespace with a path":             {Service: "web", Namespace: "a/b", Port: "80"},
		"namespace of others":               {Service: "web", Namespace: "kube-system", Port: "80"},
		"no port":                           {Service: "web"},
		"port out of range":                 {Service: "web", Port: "70000"},
		"port with a path":                  {Service: "web", Port: "80/proxy"},
		"another scheme":                    {Service: "web", Port: "80", Scheme: "ftp"},
		"method of two words":               {Service: "web", Port: "80", Method: "GET /"},
		"credentials for the API server":    {Service: "web", Port: "80", Headers: map[string]string{"authorization": "Bearer x"}},
		"another user":                      {Service: "web", Port: "80", Headers: map[string]string{"Impersonate-User": "admin"}},
		"another user behind a proxy":       {Service: "web", Port: "80", Headers: map[string]string{"X-Remote-User": "admin"}},
		"another host":                      {Service: "web", Port: "80", Headers: map[string]string{"Host": "x"}},
		"another protocol":                  {Service: "web", Port: "80", ByName: true, Headers: map[string]string{"Upgrade": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.try(servicetest.Test{Name: name, HTTP: &http, Retries: 5})
			if got.Passed || got.Tries != 1 || strings.Contains(got.Message, "API server answers") {
				t.Errorf("result %+v", got)
			}
		})
	}
}

func TestAServiceIsAskedByItsName(t *testing.T) {
	w := start(t)
	plain, secure := w.serve("web", false, http.HandlerFunc(echo)), w.serve("secure", true, http.HandlerFunc(echo))
	w.create("services", `{apiVersion: v1, kind: Service, metadata: {name: lost}, spec: {ports: [{port: 80}]}}`)
	w.DialWith(func(ctx context.Context, network, address string) (net.Conn, error) {
		at, known := map[string]string{"web." + w.Namespace + ".svc:80": plain, "secure." + w.Namespace + ".svc:80": secure}[address]
		if !known {
			return nil, fmt.Errorf("nobody is at %s", address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, at)
	})
	for _, tt := range []struct {
		name string
		http servicetest.HTTP
		want string
	}{
		{"by number", servicetest.HTTP{Service: "web", Port: "80", Contains: "host=web." + w.Namespace + ".svc:80"}, ""},
		{"by name", servicetest.HTTP{Service: "web", Port: "web"}, ""},
		{"with TLS", servicetest.HTTP{Service: "secure", Port: "web", Scheme: "https"}, ""},
		{"headers of any kind", servicetest.HTTP{Service: "web", Port: "80", Headers: map[string]string{"authorization": "Bearer x", "host": "example.com"}, Contains: "host=example.com color= auth=Bearer x"}, ""},
		{"nothing of ours", servicetest.HTTP{Service: "web", Port: "80", Contains: "auth= impersonate= "}, ""},
		{"a redirect is not followed", servicetest.HTTP{Service: "web", Port: "80", Path: "/away", Status: 302}, ""},
		{"no such port", servicetest.HTTP{Service: "web", Port: "metrics"}, `no port with name "metrics"`},
		{"no such Service", servicetest.HTTP{Service: "wep", Port: "web"}, "there is no Service"},
		{"nobody there", servicetest.HTTP{Service: "lost", Port: "80"}, "nobody is at"},
		{"no such Service, by number", servicetest.HTTP{Service: "wep", Port: "80"}, "there is no Service"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.http.ByName = true
			got := w.try(servicetest.Test{Name: tt.name, HTTP: &tt.http})
			if got.Passed != (tt.want == "") || !strings.Contains(got.Message, tt.want) {
				t.Errorf("result %+v, want %q", got, tt.want)
			}
		})
	}
}

func TestAServiceThatLeadsOutOfTheClusterIsNotAsked(t *testing.T) {
	w := start(t)
	w.create("services", `{apiVersion: v1, kind: Service, metadata: {name: away}, spec: {type: ExternalName, externalName: metadata.example.com, ports: [{name: web, port: 80}]}}`)
	w.DialWith(func(_ context.Context, _, address string) (net.Conn, error) {
		t.Errorf("%s was dialled", address)
		return nil, fmt.Errorf("nobody is at %s", address)
	})
	for _, port := range []string{"80", "web"} {
		got := w.try(servicetest.Test{Name: "away", Retries: 5, HTTP: &servicetest.HTTP{Service: "away", Port: port, ByName: true}})
		if got.Passed || got.Tries != 1 || !strings.Contains(got.Message, "type ExternalName") {
			t.Errorf("port %s: %+v", port, got)
		}
		got = w.try(servicetest.Test{Name: "away", HTTP: &servicetest.HTTP{Service: "away", Port: port}})
		if got.Passed || !strings.Contains(got.Message, "the API server answers") {
			t.Errorf("port %s, by proxy: %+v", port, got)
		}
	}
}

func TestNoServiceIsAtTheAddressesOfMachinesThemselves(t *testing.T) {
	w := start(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	w.serve("web", false, http.HandlerFunc(echo))
	real := w.Dial()
	for _, at := range []string{"169.254.169.254:80", "[fd00:ec2::254]:80", "224.0.0.1:80", "127.0.0.1:" + port, "localhost:" + port} {
		w.DialWith(func(ctx context.Context, network, _ string) (net.Conn, error) { return real(ctx, network, at) }) // what DNS may say
		got := w.try(servicetest.Test{Name: "smoke", HTTP: &servicetest.HTTP{Service: "web", Port: "80", ByName: true}})
		if got.Passed || !strings.Contains(got.Message, ": refused") {
			t.Errorf("%s: %+v", at, got)
		}
	}
}

func TestATestIsTriedAgainUntilItPasses(t *testing.T) {
	w := start(t)
	var asked atomic.Int32
	w.serve("web", false, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	probe := &servicetest.HTTP{Service: "web", Port: "80"}
	if got := w.try(servicetest.Test{Name: "smoke", HTTP: probe, Retries: 1}); got.Passed || got.Tries != 2 || !strings.Contains(got.Message, "503") {
		t.Errorf("result %+v", got)
	}
	if got := w.try(servicetest.Test{Name: "smoke", HTTP: probe, Retries: 5}); !got.Passed || got.Tries != 1 || got.Message != "" || got.Took <= 0 {
		t.Errorf("result %+v", got)
	}
}

func TestATryEndsWithItsTimeAndWithItsCaller(t *testing.T) {
	w := start(t)
	w.serve("web", false, http.HandlerFunc(echo))
	slow := &servicetest.HTTP{Service: "web", Port: "80", Path: "/slow"}
	if got := w.try(servicetest.Test{HTTP: slow, Timeout: time.Second}); got.Passed || got.Message != "not done after 1s" {
		t.Errorf("result %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if got := w.Runner.Run(ctx, w.target, servicetest.Test{HTTP: slow, Retries: 100}); got.Passed || got.Tries != 1 {
		t.Errorf("result %+v", got)
	}
}
