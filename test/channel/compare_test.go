package channel

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// differing are the headers of answers that need not be the same on both ways.
var differing = []string{
	"Date",
	"Audit-Id", // of each request; through the hub it is the request's id there
}

// added are the headers that the hub puts on every answer: nothing that a cluster says is a page for a browser.
var added = map[string]string{
	"X-Content-Type-Options":       "nosniff",
	"Content-Security-Policy":      "default-src 'none'; sandbox; frame-ancestors 'none'",
	"Cross-Origin-Resource-Policy": "same-origin",
}

// request is what is asked of both sides.
type request struct {
	method string // GET
	target string // path and query as written
	header http.Header
	body   string
}

func get(target string, header ...string) request {
	return request{target: target, header: headers(header...)}
}

// headers makes headers of names and values that alternate.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for pair := range slices.Chunk(pairs, 2) {
		h.Add(pair[0], pair[1])
	}
	return h
}

// answer is what came back.
type answer struct {
	Status   int
	Protocol string
	Header   http.Header
	Trailer  http.Header
	Length   int64
	Body     string
}

// do asks one side, and reads the whole answer.
func (s side) do(t testing.TB, client *http.Client, r request) answer {
	t.Helper()
	response := s.open(t, client, r)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %s %s: read answer: %v", s.name, r.method, r.target, err)
	}
	// Trailers that are announced and do not come are the same as none.
	maps.DeleteFunc(response.Trailer, func(_ string, values []string) bool { return len(values) == 0 })
	if len(response.Trailer) == 0 {
		response.Trailer = nil
	}
	return answer{response.StatusCode, response.Proto, s.comparable(t, response.Header), response.Trailer, response.ContentLength, string(body)}
}

// open asks one side.
func (s side) open(t testing.TB, client *http.Client, r request) *http.Response {
	t.Helper()
	if r.method == "" {
		r.method = http.MethodGet
	}
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	out, err := http.NewRequestWithContext(t.Context(), r.method, s.base+r.target, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range r.header {
		out.Header[name] = values
	}
	response, err := client.Do(out)
	if err != nil {
		t.Fatalf("%s: %s %s: %v", s.name, r.method, r.target, err)
	}
	return response
}

// comparable takes out what need not be the same, and checks what the hub adds.
func (s side) comparable(t testing.TB, header http.Header) http.Header {
	t.Helper()
	h := header.Clone()
	for _, name := range differing {
		delete(h, name)
	}
	for name, want := range added {
		if got := h.Get(name); s.mount != "" && got != want {
			t.Errorf("the hub's answer has %s: %q, want %q", name, got, want)
		}
		delete(h, name)
	}
	if s.mount == "" {
		return h
	}
	if location := h.Get("Location"); location != "" {
		path, below := strings.CutPrefix(location, s.mount)
		if !below {
			t.Errorf("the hub's answer leads to %q, out of %q", location, s.mount)
		}
		h.Set("Location", path)
	}
	return h
}

// same asks both sides by HTTP/2 and HTTP/1.1, and compares byte for byte. It returns the answer that came directly.
func (w *world) same(t *testing.T, r request) answer {
	t.Helper()
	var want answer
	for _, old := range []bool{false, true} {
		client := func(s side) *http.Client {
			if old {
				return s.one
			}
			return s.client
		}
		want = w.direct.do(t, client(w.direct), r)
		got := w.through.do(t, client(w.through), r)
		// The cluster may have become another between the two: a table tells ages in seconds, and nodes report.
		for range 10 {
			again := w.direct.do(t, client(w.direct), r)
			if cmp.Equal(want, again) {
				break
			}
			want, got = again, w.through.do(t, client(w.through), r)
		}
		if want.Length < 0 || old && got.Length < 0 {
			unframe(&want)
			unframe(&got)
		}
		report(t, r, want, got)
	}
	return want
}

// unframe forgets how an answer's end was told. By HTTP/1.1 an API server says the length of short answers alone; by HTTP/2, and
// through the agent, of longer ones too. What comes in pieces that fit into one message has a length through the agent.
func unframe(a *answer) {
	a.Length = 0
	a.Header.Del("Content-Length")
}

// report tells what differs; of long bodies, where.
func report(t *testing.T, r request, want, got answer) {
	t.Helper()
	wanted, had := want, got
	if len(want.Body)+len(got.Body) > 2<<10 && want.Body != got.Body {
		at := firstDifference(want.Body, got.Body)
		t.Errorf("%s %s: bodies of %d and %d bytes differ from byte %d on:\n%q\n%q", r.method, r.target, len(want.Body), len(got.Body), at,
			excerpt(want.Body, at), excerpt(got.Body, at))
		wanted.Body, had.Body = "", ""
	}
	if diff := cmp.Diff(wanted, had); diff != "" {
		t.Errorf("%s %s (-direct +through):\n%s", r.method, r.target, diff)
	}
}

func firstDifference(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func excerpt(s string, at int) string { return s[max(0, at-100):min(len(s), at+100)] }

// varying is what each object, and each moment, has of its own.
var varying = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`"(uid|resourceVersion|creationTimestamp|deletionTimestamp|time|lastTransitionTime|lastUpdateTime|clusterIP|continue)":"[^"]*"`), `"$1":"..."`},
	{regexp.MustCompile(`"clusterIPs":\["[^"]*"\]`), `"clusterIPs":["..."]`},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), `uuid`},
}

// Lines of a watch that say how far it is, and the one of them that ends what was there at the beginning.
var (
	bookmark   = regexp.MustCompile(`\{"type":"BOOKMARK".*\n`)
	initialEnd = regexp.MustCompile(`k8s.io/initial-events-end`)
)

// aged is the last cell of a table's row of a ConfigMap, which tells its age in seconds.
var aged = regexp.MustCompile(`("cells":\["[^"]*","?\d+"?,)"[^"]*"`)

// alike is a text without what varies, and with one name for the namespace.
func alike(text, namespace string) string {
	text = strings.ReplaceAll(text, namespace, "NAMESPACE")
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.by)
	}
	return text
}

// lines reads n lines of a stream.
func lines(t testing.TB, from io.Reader, n int) []string {
	t.Helper()
	var got []string
	var line bytes.Buffer
	one := make([]byte, 1)
	for len(got) < n {
		if _, err := io.ReadFull(from, one); err != nil {
			t.Fatalf("after %d of %d lines: %v; %q", len(got), n, err, &line)
		}
		if one[0] != '\n' {
			line.WriteByte(one[0])
			continue
		}
		got = append(got, line.String())
		line.Reset()
	}
	return got
}
