package live

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/api/channel"
	"github.com/pluralsh/plural/internal/kubeaccess"
)

// FuzzPlace checks that a place that is let through is, to whoever judges requests, the same place.
func FuzzPlace(f *testing.F) {
	f.Add("apps", "v1", "deployments", "shop", "web")
	f.Add("", "", "pods", "", "a.b:c")
	f.Add("", "v1", "..", "a/b", "%2e%2e")
	f.Fuzz(func(t *testing.T, group, version, resource, namespace, name string) {
		at, err := newPlace(group, version, resource, namespace)
		if err != nil || !word.MatchString(name) {
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
	f := &feed{feeds: fs, objects: map[string]*channel.Object{}, readings: map[*reading]bool{}}
	if err := f.fits(maxShown); err != nil {
		t.Error(err)
	}
	var no *Refusal
	if err := f.fits(maxShown + 1); !errors.As(err, &no) || no.Status != http.StatusTooManyRequests {
		t.Error(err)
	}
	idle := &feed{feeds: fs, subject: subject{cluster: "idle"}, stop: func() {}}
	fs.all[idle.subject] = idle
	if err := idle.fits(maxShown); err != nil {
		t.Error(err)
	}
	fs.kept, f.size = maxKept, 0
	if err := f.fits(maxShown); err != nil || fs.count() != 0 {
		t.Errorf("%v; %d feeds that nobody looks at are left", err, fs.count())
	}
	fs.kept = maxKept
	f.size = 0
	if err := f.fits(1); err == nil {
		t.Error("there is no bound for all feeds")
	}
}

func TestAReaderThatIsFarBehindIsToldToBeginAnew(t *testing.T) {
	f := &feed{objects: map[string]*channel.Object{}, readings: map[*reading]bool{}}
	r := f.read()
	for i := range maxBehind + 10 {
		f.tell(strconv.Itoa(i))
	}
	if _, _, err := f.take(r); err == nil || len(r.changed) > maxBehind+1 {
		t.Errorf("%d changes are kept, %v", len(r.changed), err)
	}
}

func TestATreeIsShownWhateverOwnersSay(t *testing.T) {
	loop := []*channel.Object{{Uid: "a", Owner: "b", Kind: "A"}, {Uid: "b", Owner: "a", Kind: "B"}, {Uid: "c", Owner: "gone", Kind: "C"}}
	paths := pathsOf(loop, "path")
	if len(paths) != 3 || len(paths["a"]) > 200 {
		t.Errorf("paths %q", paths)
	}
	if diff := cmp.Diff("C\x01\x01", paths["c"]); diff != "" {
		t.Error(diff)
	}
}
