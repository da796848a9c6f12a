package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/logstream"
	"github.com/pluralsh/plural/cli/ui"
)

// hub answers as a hub does.
type hub struct {
	mu sync.Mutex
	// pods are web's, by cluster; logs are texts by path.
	pods map[string][]string
	logs map[string]string
	// asked are the questions for logs, without what is asked for twice.
	asked []string
	// services and clusters are names in the fleet's lists.
	services, clusters []string
	// endless logs end with the reader.
	endless bool
	// says is what is said of pods that are not well.
	says map[string]string
	// hidden says that the person may not list pods.
	hidden bool
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	path := strings.Split(r.URL.Path, "/")
	switch {
	case r.URL.Path == "/v1/services":
		picked(w, r, h.services, func(name string) v1.Service { return v1.Service{Name: name} })
	case r.URL.Path == "/v1/clusters":
		picked(w, r, h.clusters, func(name string) v1.Cluster { return v1.Cluster{Name: name} })
	case r.URL.Path == "/v1/services/web":
		s := v1.Service{Name: "web"}
		for cluster := range h.pods {
			s.Deployments = append(s.Deployments, v1.Deployment{Service: "web", Cluster: cluster})
		}
		_ = json.NewEncoder(w).Encode(s)
	case strings.HasSuffix(r.URL.Path, "/services/web/objects"):
		list := v1.List[v1.Object]{Items: []v1.Object{{Kind: "Deployment", Group: "apps", Name: "web"}, {Kind: "Pod", Group: "example.com", Name: "other"}}}
		pods := h.pods[path[3]]
		if pods == nil {
			refuse(w, http.StatusServiceUnavailable, "cluster "+path[3]+" is not connected")
			return
		}
		if h.hidden {
			list.Items[0].Namespace, pods = "shop", nil
		}
		for _, name := range pods {
			list.Items = append(list.Items, v1.Object{Kind: "Pod", Namespace: "shop", Name: name, Message: h.says[name]})
		}
		_ = json.NewEncoder(w).Encode(list)
	case strings.HasSuffix(r.URL.Path, "/objects"):
		if h.hidden {
			refuse(w, http.StatusForbidden, `you may not list `+r.FormValue("resource")+` in namespace "`+r.FormValue("namespace")+`"`)
			return
		}
		_ = json.NewEncoder(w).Encode(v1.List[v1.Object]{Items: []v1.Object{}})
	default:
		h.log(w, r)
	}
}

// picked answers with what a filter of names picks: name:"exactly" or name~"contained".
func picked[T any](w http.ResponseWriter, r *http.Request, names []string, item func(string) T) {
	filter := r.URL.Query().Get("filter")
	list := v1.List[T]{Items: []T{}}
	for _, name := range names {
		quoted, contained := strings.CutPrefix(filter, "name~")
		part, _ := strconv.Unquote(quoted)
		if filter == "name:"+strconv.Quote(name) || contained && strings.Contains(name, part) {
			list.Items = append(list.Items, item(name))
		}
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (h *hub) log(w http.ResponseWriter, r *http.Request) {
	h.asked = append(h.asked, r.URL.RequestURI())
	text, ok := h.logs[r.URL.Path]
	if !ok && r.FormValue("previous") != "" {
		refuse(w, http.StatusBadRequest, `previous terminated container "web" in pod "web-a" not found`)
		return
	}
	if !ok {
		refuse(w, http.StatusBadRequest, `container "web" in pod "web-a" is waiting to start: trying and failing to pull image`)
		return
	}
	_, _ = io.WriteString(w, text)
	if h.endless {
		_ = http.NewResponseController(w).Flush()
		h.mu.Unlock()
		<-r.Context().Done()
		h.mu.Lock()
	}
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v1.Error{Message: message})
}

// output can be read while it is written.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// logs runs `plural logs ARGS`.
func logs(t *testing.T, ctx context.Context, h http.Handler, args ...string) (out, errOut *output, err error) {
	t.Helper()
	out, errOut = new(output), new(output)
	return out, errOut, run(t, ctx, h, out, errOut, args...)
}

func run(t *testing.T, ctx context.Context, h http.Handler, out, errOut io.Writer, args ...string) error {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	env := map[string]string{"PLURAL_HUB": server.URL, "PLURAL_CONFIG_DIR": t.TempDir()}
	f := &cmdutil.Factory{
		IO: &ui.Streams{In: strings.NewReader(""), Out: out, ErrOut: errOut}, Version: "test", Now: time.Now,
		Getenv: func(name string) string { return env[name] },
	}
	cmd := NewCmdLogs(f)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

// TestANameAloneIsWhatIsCalledSo is plural logs web.
func TestANameAloneIsWhatIsCalledSo(t *testing.T) {
	h := &hub{
		services: []string{"web", "edge-2", "shop-web-api"}, clusters: []string{
			"edge-1",
			"edge-2",
		}, pods: map[string][]string{"edge-1": {"web-0"}},
		logs: map[string]string{"/v1/clusters/edge-1/pods/shop/web-0/logs": "hello\n", "/v1/clusters/edge-1/agent/logs": "synced\n"},
	}
	for name, want := range map[string]string{"web": "hello\n", "edge-1": "synced\n"} {
		if out, errOut, err := logs(t, t.Context(), h, name); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, %s", name, out, err, errOut)
		}
	}
	for name, want := range map[string]ui.Err{
		"edge-2": {Msg: `"edge-2" is a service and a cluster`, Fix: "plural logs svc/edge-2\nplural logs agent/edge-2"},
		"api":    {Msg: `there is no service "api"`, Fix: "plural logs svc/shop-web-api"},
		"edge":   {Msg: `there is no service "edge"`, Fix: "plural logs svc/edge-2\nplural logs agent/edge-1\nplural logs agent/edge-2"},
		"db":     {Msg: `there is no service "db"`, Fix: "plural service list"},
	} {
		out, _, err := logs(t, t.Context(), h, name)
		var told *ui.Err
		if !errors.As(err, &told) || told.Msg != want.Msg || told.Fix != want.Fix || out.String() != "" {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
}

func TestOneLogIsPrintedLineByLine(t *testing.T) {
	h := &hub{logs: map[string]string{"/v1/hub/logs": "one\ttab\r\ntwo", "/v1/clusters/edge-1/agent/logs": "agent\n"}}
	for subject, want := range map[string]string{"hub": "one\ttab\ntwo\n", "agent/edge-1": "agent\n"} {
		if out, _, err := logs(t, t.Context(), h, subject); err != nil || out.String() != want {
			t.Errorf("%s: got %q, %v", subject, out, err)
		}
	}
}

func TestOfALogWithTimesWhatIsOlderIsLeftOut(t *testing.T) {
	stamp := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format("2006-01-02T15:04:05.000Z") }
	h := &hub{logs: map[string]string{"/v1/hub/logs": stamp(time.Hour) + " info old\n" + stamp(time.Minute) + " info new\nno time\n"}}
	out, _, err := logs(t, t.Context(), h, "hub", "--since", "10m")
	if err != nil || strings.Contains(out.String(), "old") || !strings.Contains(out.String(), "new\nno time\n") {
		t.Errorf("got %q, %v", out, err)
	}
	if want := []string{"/v1/hub/logs?tail=2000"}; !slices.Equal(h.asked, want) {
		t.Errorf("got %q", h.asked)
	}
}

func TestALogSteersNoTerminal(t *testing.T) {
	h := &hub{logs: map[string]string{"/v1/hub/logs": "\x1b]0;owned\x07 \x9b31m \u202e red\rover \xff\n"}}
	out, _, err := logs(t, t.Context(), h, "hub")
	if want := "\\x1b]0;owned\\a \ufffd31m \\u202e red\\rover \ufffd\n"; err != nil || out.String() != want {
		t.Errorf("got %q, want %q, %v", out, want, err)
	}
}

func TestALineWithoutEndIsBroken(t *testing.T) {
	h := &hub{logs: map[string]string{"/v1/hub/logs": strings.Repeat("x", 3*(64<<10)) + "\nlast\n"}}
	out, _, err := logs(t, t.Context(), h, "hub")
	if lines := strings.Split(out.String(), "\n"); err != nil || len(lines) < 5 || lines[len(lines)-2] != "last" {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

func TestAServicesLinesSayWhoseTheyAre(t *testing.T) {
	h := &hub{
		pods: map[string][]string{"edge-2": {"web-c"}, "edge-1": {"web-b", "web-a"}},
		logs: map[string]string{
			"/v1/clusters/edge-1/pods/shop/web-a/logs": "a1\na2\n", "/v1/clusters/edge-1/pods/shop/web-b/logs": "b1\n",
			"/v1/clusters/edge-2/pods/shop/web-c/logs": "c1\n",
		},
	}
	out, _, err := logs(t, t.Context(), h, "svc/web")
	if want := "edge-1/web-a a1\nedge-1/web-a a2\nedge-1/web-b b1\nedge-2/web-c c1\n"; err != nil || out.String() != want {
		t.Errorf("got %q, %v", out, err)
	}
	if out, _, err := logs(t, t.Context(), h, "service/web", "--cluster", "edge-2"); err != nil || out.String() != "c1\n" {
		t.Errorf("of one pod: got %q, %v", out, err)
	}
}

func TestTheHubIsAskedForWhatTheFlagsSay(t *testing.T) {
	h := &hub{pods: map[string][]string{"edge-1": {"web-a"}}, logs: map[string]string{"/v1/clusters/edge-1/pods/shop/web-a/logs": ""}}
	if _, _, err := logs(t, t.Context(), h, "svc/web", "--since", "90s", "--tail", "-1", "--previous", "-c", "main"); err != nil {
		t.Fatal(err)
	}
	want := "/v1/clusters/edge-1/pods/shop/web-a/logs?" + url.Values{"container": {"main"}, "previous": {"true"}, "since": {"1m30s"}}.Encode()
	if !slices.Equal(h.asked, []string{want}) {
		t.Errorf("got %q", h.asked)
	}
}

func TestWhatDoesNotAnswerIsToldAndTheRestIsRead(t *testing.T) {
	h := &hub{
		pods: map[string][]string{"edge-1": {"web-a", "web-b"}, "edge-2": nil},
		logs: map[string]string{"/v1/clusters/edge-1/pods/shop/web-a/logs": "a1\n"},
	}
	out, errOut, err := logs(t, t.Context(), h, "svc/web")
	if err != nil || out.String() != "edge-1/web-a a1\n" {
		t.Errorf("got %q, %v", out, err)
	}
	for _, want := range []string{
		"edge-2: cluster edge-2 is not connected",
		`edge-1/web-b: container "web" in pod "web-a" is waiting to start`,
	} {
		if strings.Count(errOut.String(), want) != 1 {
			t.Errorf("got %q, want %q once", errOut, want)
		}
	}
}

func TestPodsThatMayNotBeListedAreNotTakenForNone(t *testing.T) {
	const why = `you may not list pods in namespace "shop"`
	one := &hub{pods: map[string][]string{"edge-1": {"web-a"}}, hidden: true}
	out, errOut, err := logs(t, t.Context(), one, "svc/web")
	if err == nil || !strings.Contains(err.Error(), why) || out.String()+errOut.String() != "" {
		t.Errorf("got %v, %q, %q", err, out, errOut)
	}
	two := &hub{pods: map[string][]string{"edge-1": {"web-a"}, "edge-2": {"web-b"}}, hidden: true}
	_, errOut, err = logs(t, t.Context(), two, "svc/web")
	if ui.CodeOf(err) != ui.ExitFailed || strings.Count(errOut.String(), why) != 2 {
		t.Errorf("got %v, %q", err, errOut)
	}
	idle := &hub{pods: map[string][]string{"edge-1": {}}}
	if _, errOut, err = logs(t, t.Context(), idle, "svc/web"); err != nil || !strings.Contains(errOut.String(), "has no lines there") {
		t.Errorf("got %v, %q", err, errOut)
	}
}

func TestAPodThatNeverStartedIsToldWithWhyItHasNoLog(t *testing.T) {
	h := &hub{pods: map[string][]string{"edge-1": {"web-a"}}, says: map[string]string{
		"web-a": `container web: ImagePullBackOff: Back-off pulling image "shop/web:9"`,
	}}
	_, errOut, err := logs(t, t.Context(), h, "svc/web")
	const want = `edge-1/web-a: it has no log, for it has not started: container web: ImagePullBackOff: ` +
		`Back-off pulling image "shop/web:9"; plural service events web says more` + "\n"
	if ui.CodeOf(err) != ui.ExitFailed || errOut.String() != want {
		t.Errorf("got %v, %q", err, errOut)
	}
}

func TestAPodWithoutEarlierContainersIsToldAsThat(t *testing.T) {
	h := &hub{pods: map[string][]string{"edge-1": {"web-a"}}}
	_, errOut, err := logs(t, t.Context(), h, "svc/web", "--previous")
	const want = "edge-1/web-a: no container ran before this one, or its node has not kept what it printed\n"
	if ui.CodeOf(err) != ui.ExitFailed || errOut.String() != want {
		t.Errorf("got %v, %q", err, errOut)
	}
}

func TestNothingToReadIsAnError(t *testing.T) {
	away := &hub{pods: map[string][]string{"edge-1": nil}}
	if _, _, err := logs(t, t.Context(), away, "svc/web"); err == nil || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("got %v", err)
	}
	waiting := &hub{pods: map[string][]string{"edge-1": {"web-a"}}}
	if _, _, err := logs(t, t.Context(), waiting, "svc/web"); ui.CodeOf(err) != ui.ExitFailed {
		t.Errorf("got %v", err)
	}
	many := &hub{pods: map[string][]string{"edge-1": make([]string, logstream.MaxLogs+1)}}
	if _, _, err := logs(t, t.Context(), many, "svc/web"); err == nil || !strings.Contains(err.Error(), "in one go") {
		t.Errorf("got %v", err)
	}
}

func TestMistakesAreSaid(t *testing.T) {
	for _, args := range []string{"", "web", "pod/x", "svc/", "agent/", "hub/x", "hub --previous", "agent/edge-1 --cluster edge-1", "hub --since -1s", "svc/web --cluster edge-9"} {
		h := &hub{pods: map[string][]string{"edge-1": {}}}
		_, _, err := logs(t, t.Context(), h, strings.Fields(args)...)
		var told *ui.Err
		if !errors.As(err, &told) || told.Fix == "" {
			t.Errorf("%q: got %v", args, err)
		}
	}
}

func TestFollowingTakesInPodsThatStart(t *testing.T) {
	t.Parallel()
	h := &hub{
		endless: true, pods: map[string][]string{"edge-1": {"web-a"}},
		logs: map[string]string{"/v1/clusters/edge-1/pods/shop/web-a/logs": "a1\n"},
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, errOut, ended := new(output), new(output), make(chan error, 1)
	go func() { ended <- run(t, ctx, h, out, errOut, "svc/web", "-f") }()
	await(t, out, "edge-1/web-a a1\n")
	h.mu.Lock()
	h.pods["edge-1"] = []string{"web-a", "web-b"}
	h.logs["/v1/clusters/edge-1/pods/shop/web-b/logs"] = "b1\n"
	h.mu.Unlock()
	await(t, out, "edge-1/web-b b1\n")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if strings.Count(out.String(), "a1") != 1 || errOut.String() != "" {
		t.Errorf("got %q, %q", out, errOut)
	}
}

// TestAContainerThatStartsAgainIsReadOn has a log that ends, and of which only what is new may come the second time.
func TestAContainerThatStartsAgainIsReadOn(t *testing.T) {
	t.Parallel()
	h := &hub{pods: map[string][]string{"edge-1": {"web-a"}}, logs: map[string]string{"/v1/clusters/edge-1/pods/shop/web-a/logs": "a1\n"}}
	ctx, cancel := context.WithCancel(t.Context())
	out, errOut, ended := new(output), new(output), make(chan error, 1)
	go func() { ended <- run(t, ctx, h, out, errOut, "svc/web", "-f", "--tail", "5") }()
	await(t, out, "a1\nedge-1/web-a a1\n")
	cancel()
	<-ended
	first, err := url.Parse(h.asked[0])
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(h.asked[1])
	if err != nil {
		t.Fatal(err)
	}
	if got := first.Query(); got.Get("tail") != "5" || got.Has("since") {
		t.Errorf("at first: %v", got)
	}
	if got := second.Query(); got.Has("tail") || !got.Has("since") {
		t.Errorf("then: %v", got)
	}
}

func await(t *testing.T, out fmt.Stringer, want string) {
	t.Helper()
	tick, deadline := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !strings.Contains(out.String(), want) {
		select {
		case <-deadline:
			t.Fatalf("never came: %q in %q", want, out)
		case <-tick.C:
		}
	}
}
