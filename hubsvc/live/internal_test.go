package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/internal/quota"
)

// FuzzPlace checks that a place that is let through is, to whoever judges requests, the same place.
func FuzzPlace(f *testing.F) {
	f.Add("apps", "v1", "deployments", "shop", "web")
	f.Add("", "", "pods", "", "a.b:c")
	f.Add("", "v1", "..", "a/b", "%2e%2e")
	f.Fuzz(func(t *testing.T, group, version, resource, namespace, name string) {
		at, err := newPlace(group, version, resource, namespace)
		if err != nil || !word().MatchString(name) {
			return
		}
		q, err := kubeaccess.Parse(http.MethodGet, at.path(name), nil)
		if err != nil {
			return // what cannot be read in one way only is refused on the way
		}
		got := place{q.Group, q.Version, q.Kind, q.Namespace}
		if namespace == "" && resource == "namespaces" || resource == "watch" || resource == "proxy" || version == "watch" {
			return // these words mean something else to every API server
		}
		if got != at || q.Name != name || q.Subresource != "" {
			t.Errorf("%q is %+v named %q, to others %+v named %q", at.path(name), at, name, got, q.Name)
		}
	})
}

// FuzzLogText checks that a line stays one line that steers no terminal.
func FuzzLogText(f *testing.F) {
	f.Add("message\x1b[31m", "a=b\nc")
	f.Add("\u2028\u009b", "")
	f.Fuzz(func(t *testing.T, message, attribute string) {
		text := safe(message) + safe(attribute)
		for _, r := range text {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%q has %q", text, r)
			}
		}
		if !utf8.ValidString(text) && utf8.ValidString(message+attribute) {
			t.Errorf("%q is no text", text)
		}
	})
}

// FuzzProtocols checks that no token is passed on, whatever it is called.
func FuzzProtocols(f *testing.F) {
	f.Add("v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.YWxpY2U")
	f.Add("base64url.bearer.authorization.k8s.io., ,v4.channel.k8s.io")
	f.Fuzz(func(t *testing.T, header string) {
		r := &http.Request{Header: http.Header{"Sec-Websocket-Protocol": {header}}}
		protocols, _ := withToken(r)
		for _, name := range protocols {
			if strings.Contains(name, "bearer") || !strings.HasSuffix(name, ".channel.k8s.io") {
				t.Errorf("%q is passed on", name)
			}
		}
	})
}

func TestFeedsAreBounded(t *testing.T) {
	fs := newFeeds(nil, 0)
	f := &feed{feeds: fs, objects: newInventory(), readings: map[*reading]bool{}}
	if err := f.fits(maxShown, maxSize); err != nil {
		t.Error(err)
	}
	var no *Refusal
	if err := f.fits(maxShown+1, 1); !errors.As(err, &no) || no.Status != http.StatusTooManyRequests {
		t.Error(err)
	}
	if err := f.fits(1, maxSize+1); !errors.As(err, &no) || no.Status != http.StatusTooManyRequests {
		t.Error(err)
	}
	idle := &feed{feeds: fs, subject: subject{cluster: "idle"}, stop: func() {}}
	fs.all[idle.subject] = idle
	if err := idle.fits(1, maxSize); err != nil {
		t.Error(err)
	}
	fs.kept, f.size = maxKept, 0
	if err := f.fits(1, maxSize); err != nil || fs.count() != 0 {
		t.Errorf("%v; %d feeds that nobody looks at are left", err, fs.count())
	}
	fs.kept = maxKept
	f.size = 0
	if err := f.fits(1, 1); err == nil {
		t.Error("there is no bound for all feeds")
	}
}

// A message of the channel may have a megabyte: sixty thousand objects of that size ended the replica.
func TestWhatAnAgentSaysOfAnObjectIsBounded(t *testing.T) {
	long := strings.Repeat("é", tunnelapi.MaxMessage/2)
	object := func() *tunnelapi.Object {
		o := &tunnelapi.Object{
			Uid: "1", Owner: long, Group: long, Version: long, Kind: long, Resource: long, Namespace: long, Name: long, Health: long,
			Message: long, ResourceVersion: long, CreatedUnixMs: 7, Applied: true, Deleting: true,
		}
		o.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), long))
		return o
	}
	f := &feed{feeds: newFeeds(nil, 0), ready: make(chan struct{}), objects: newInventory(), readings: map[*reading]bool{}}
	fresh := newInventory()
	if _, err := f.gather(&fresh, &tunnelapi.ObjectsEvent{Changed: []*tunnelapi.Object{object()}, Snapshot: true}); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		got := f.objects.byUID["1"]
		if size := proto.Size(got); size > maxMessage+10*maxName || f.objects.size != size+perObject {
			t.Errorf("%s the object has %d bytes, of which %d are counted", when, size, f.objects.size-perObject)
		}
		if !utf8.ValidString(got.GetMessage()) || got.GetCreatedUnixMs() != 7 || !got.GetApplied() || !got.GetDeleting() {
			t.Errorf("%s the object is %v", when, got)
		}
	}
	check("when it is new")
	if err := f.change(&tunnelapi.ObjectsEvent{Changed: []*tunnelapi.Object{object()}}); err != nil {
		t.Fatal(err)
	}
	check("when it changes")
	r := f.read()
	if err := f.change(&tunnelapi.ObjectsEvent{Deleted: []string{"1", long}}); err != nil || f.objects.size != 0 {
		t.Errorf("%v; %d bytes are counted of nothing", err, f.objects.size)
	}
	if _, deleted, _ := f.take(r); len(deleted) != 1 {
		t.Errorf("%d objects are told to be gone, of the one that was there", len(deleted))
	}
}

func TestAReaderThatIsFarBehindIsToldToBeginAnew(t *testing.T) {
	f := &feed{objects: newInventory(), readings: map[*reading]bool{}}
	r := f.read()
	for i := range maxBehind + 10 {
		f.tell(strconv.Itoa(i))
	}
	if _, _, err := f.take(r); err == nil || len(r.changed) > maxBehind+1 {
		t.Errorf("%d changes are kept, %v", len(r.changed), err)
	}
}

func TestATreeIsShownWhateverOwnersSay(t *testing.T) {
	loop := []*tunnelapi.Object{{Uid: "a", Owner: "b", Kind: "A"}, {Uid: "b", Owner: "a", Kind: "B"}, {Uid: "c", Owner: "gone", Kind: "C"}}
	paths := pathsOf(loop, "path")
	if len(paths) != 3 || len(paths["a"]) > 200 {
		t.Errorf("paths %q", paths)
	}
	if diff := cmp.Diff("C\x01\x01", paths["c"]); diff != "" {
		t.Error(diff)
	}
}

// endless is a program that prints without an end.
type endless struct{ closed chan struct{} }

func (e *endless) Read(p []byte) (int, error) {
	select {
	case <-e.closed:
		return 0, io.EOF
	default:
		return len(p), nil
	}
}

func (e *endless) Write(p []byte) (int, error) { return len(p), nil }

func (e *endless) Close() error {
	close(e.closed)
	return nil
}

// TestAClientThatReadsNothingDoesNotHoldAProgramUp: a hub that is about to end waits for all connections, and so would for one
// whose client never reads.
func TestAClientThatReadsNothingDoesNotHoldAProgramUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		began := time.Now()
		relay(&client{near, bufio.NewReader(near)}, &endless{make(chan struct{})})
		if took := time.Since(began); took > 2*stalled {
			t.Errorf("it held for %v", took)
		}
	})
}

// A8: the times that an agent says are shown as far as there is a way to write them.
func TestATimeThatCannotBeWrittenIsNotShown(t *testing.T) {
	for said, want := range map[int64]bool{0: false, -5: false, 1_790_000_000_000: true, math.MaxInt64: false, 253_402_300_800_000: false} {
		shown := shownObject(&tunnelapi.Object{Name: "web", CreatedUnixMs: said})
		if _, err := json.Marshal(shown); err != nil || (shown.Created != nil) != want {
			t.Errorf("%d: %v, %v", said, shown.Created, err)
		}
	}
}

func TestWhatBecameOfAConnectionIsNotTold(t *testing.T) {
	err := status.Error(codes.Unavailable, "error reading from server: read tcp 10.0.0.5:443->192.0.2.7:5311: read: connection reset by peer")
	if no := refusalOf(err); no.Status != http.StatusServiceUnavailable || strings.Contains(no.Error(), "10.0.0.5") || strings.Contains(no.Error(), "192.0.2.7") {
		t.Errorf("told: %v", no)
	}
}

// P15: what somebody does in a cluster by way of the hub's own API is on record with where they did it from, as kubectl's requests
// are.
func TestWhatIsDoneForSomebodySaysWhereTheyAre(t *testing.T) {
	var passed []*http.Request
	a := New(Options{
		Person: func(*http.Request) (principal.Person, error) {
			return principal.Person{Name: "alice", Credential: "c"}, nil
		},
		Allow: func(principal.Person, string) error { return nil }, Sees: func(principal.Person, string) bool { return true },
		Do: func(_ context.Context, _ principal.Person, _ string, r *http.Request) (*http.Response, error) {
			passed = append(passed, r)
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		},
	})
	mux := http.NewServeMux()
	a.Routes(mux)
	ref := `{"group":"apps","version":"v1","resource":"deployments","namespace":"shop","name":"web"}`
	for target, body := range map[string]string{
		"POST /v1/clusters/edge/objects/restart": ref, "GET /v1/clusters/edge/pods/shop/web/logs": "",
		"POST /v1/clusters/edge/objects/scale": strings.TrimSuffix(ref, "}") + `,"replicas":1}`,
	} {
		passed = nil
		method, path, _ := strings.Cut(target, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("User-Agent", "a browser")
		r.Header.Set("X-Forwarded-For", "198.51.100.4")
		r.Header.Set("Cookie", "session=1")
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		if answer.Code != http.StatusOK || len(passed) == 0 {
			t.Errorf("%s: %d %s", target, answer.Code, answer.Body)
		}
		for _, p := range passed {
			if p.RemoteAddr != r.RemoteAddr || p.UserAgent() != "a browser" || p.Header.Get("X-Forwarded-For") != "198.51.100.4" || p.Header.Get("Cookie") != "" {
				t.Errorf("%s passes on %s %v", target, p.RemoteAddr, p.Header)
			}
		}
	}
}

func TestWhoeverHasNoStreamIsNotToldToCloseTheirOwn(t *testing.T) {
	a := &API{streams: quota.Streams()}
	for n := range 2048 {
		if _, err := a.open(t.Context(), principal.Person{Name: strconv.Itoa(n / 16)}); err != nil {
			t.Fatalf("stream %d: %v", n, err)
		}
	}
	_, err := a.open(t.Context(), principal.Person{Name: "ana"})
	if err == nil || err.Error() != "too many streams at a time: close some, or try again later" {
		t.Errorf("ana, who has none open, is told: %v", err)
	}
}
