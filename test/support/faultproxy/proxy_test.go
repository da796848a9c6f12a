package faultproxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/test/support/faultproxy"
)

// road is a server that counts, a proxy before it, and a client.
type road struct {
	*testing.T
	proxy  *faultproxy.Proxy
	served atomic.Int32
	client *http.Client
}

func newRoad(t *testing.T) *road {
	t.Helper()
	r := &road{T: t, client: &http.Client{Timeout: 300 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		n := r.served.Add(1)
		if q.URL.Query().Get("watch") != "" {
			_, _ = io.WriteString(w, "event\n")
			_ = http.NewResponseController(w).Flush()
			<-q.Context().Done()
			return
		}
		_, _ = io.WriteString(w, strings.Repeat(string('a'+n-1), 100))
	}))
	t.Cleanup(server.Close)
	proxy, err := faultproxy.New(t.Context(), &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	r.proxy = proxy
	return r
}

// ask returns the code and the body, and whether all of it came.
func (r *road) ask(method, path string) (code int, body string, err error) {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), method, r.proxy.Config().Host+path, nil)
	if err != nil {
		r.Fatal(err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func TestEachFaultDoesWhatItSays(t *testing.T) {
	whole := strings.Repeat("a", 100)
	for name, test := range map[string]struct {
		fault  faultproxy.Fault
		path   string
		code   int
		body   string
		broken bool
		served int32
	}{
		"refuse":            {faultproxy.Refuse(metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "slow down"}), "/x", 429, "slow down", false, 0},
		"answer":            {faultproxy.Answer(200, "text/html", "<html>"), "/x", 200, "<html>", false, 0},
		"hang":              {faultproxy.Hang(), "/x", 0, "", true, 0},
		"delay":             {faultproxy.Delay(time.Millisecond), "/x", 200, whole, false, 1},
		"delay too long":    {faultproxy.Delay(time.Minute), "/x", 0, "", true, 0},
		"reset":             {faultproxy.Reset(), "/x", 0, "", true, 0},
		"lose":              {faultproxy.Lose(), "/x", 0, "", true, 1},
		"break":             {faultproxy.BreakAfter(30), "/x", 200, whole[:30], true, 1},
		"truncate":          {faultproxy.Truncate(30), "/x", 200, whole[:30], false, 1},
		"trickle":           {faultproxy.Trickle(time.Millisecond), "/x", 200, whole, false, 1},
		"trickle too long":  {faultproxy.Trickle(time.Second), "/x", 200, "", true, 1},
		"stale":             {faultproxy.Stale(), "/x", 200, whole, false, 1},
		"expire":            {faultproxy.Expire(), "/x?watch=1", 200, `"ERROR"`, false, 0},
		"cut":               {faultproxy.Cut(time.Second), "/x?watch=true", 200, "event\n", true, 1},
		"silence":           {faultproxy.Silence(time.Minute), "/x?watch=true", 200, "", true, 0},
		"silence that ends": {faultproxy.Silence(time.Millisecond), "/x?watch=true", 200, "", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoad(t)
			lift := r.proxy.Add(faultproxy.Rule{Fault: test.fault})
			code, body, err := r.ask(http.MethodGet, test.path)
			if code != test.code || !strings.Contains(body, test.body) || (err != nil) != test.broken || r.served.Load() != test.served {
				t.Errorf("answer %d %q, %v; the server served %d", code, body, err, r.served.Load())
			}
			lift()
			if _, again, err := r.ask(http.MethodGet, "/x"); err != nil || len(again) != 100 {
				t.Errorf("after the fault was lifted: %q, %v", again, err)
			}
		})
	}
}

func TestStaleAnswersStayAsTheyWere(t *testing.T) {
	r := newRoad(t)
	r.proxy.Add(faultproxy.Rule{Fault: faultproxy.Stale()})
	_, first, _ := r.ask(http.MethodGet, "/x")
	_, other, _ := r.ask(http.MethodGet, "/y")
	_, again, _ := r.ask(http.MethodGet, "/x")
	if again != first || other == first {
		t.Errorf("answers %q, %q, %q", first[:1], other[:1], again[:1])
	}
}

func TestARuleMeetsTheRequestsItNames(t *testing.T) {
	r := newRoad(t)
	r.proxy.Add(faultproxy.Rule{Method: http.MethodPatch, Path: regexp.MustCompile(`^/ns/one/`), Skip: 1, Times: 2, Fault: faultproxy.Answer(418, "text/plain", "")})
	r.proxy.Add(faultproxy.Rule{Method: faultproxy.Watch, Fault: faultproxy.Answer(410, "text/plain", "")})
	var codes []int
	for _, request := range [][2]string{
		{"PATCH", "/ns/one/a"},
		{"GET", "/ns/one/a"},
		{"PATCH", "/ns/two/a"},
		{"PATCH", "/ns/one/a"},
		{"PATCH", "/ns/one/b"},
		{"PATCH", "/ns/one/c"},
		{"GET", "/ns?watch=1"},
	} {
		code, _, _ := r.ask(request[0], request[1])
		codes = append(codes, code)
	}
	if diff := cmp.Diff([]int{200, 200, 200, 418, 418, 200, 410}, codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	last := r.proxy.Requests()[6]
	if diff := cmp.Diff(faultproxy.Request{Method: faultproxy.Watch, Path: "/ns?watch=1", Faulty: true}, last); diff != "" {
		t.Errorf("the last request (-want +got):\n%s", diff)
	}
}

func TestAServerThatIsAwayBreaksConnections(t *testing.T) {
	proxy, err := faultproxy.New(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	r := &road{T: t, proxy: proxy, client: http.DefaultClient}
	if code, _, err := r.ask(http.MethodGet, "/x"); err == nil {
		t.Errorf("answer %d", code)
	}
}
