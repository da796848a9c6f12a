package update

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// feed gives an answer, and tells of each time that it is asked.
func feed(t *testing.T, answer string) (url string, asked chan struct{}) {
	t.Helper()
	asked = make(chan struct{}, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		for header := range r.Header {
			switch header {
			case "User-Agent", "Accept", "Accept-Encoding":
			default:
				t.Errorf("the request carries %s", header)
			}
		}
		if r.UserAgent() != "plural" || r.URL.RawQuery != "" {
			t.Errorf("the request says who asks: %q %q", r.UserAgent(), r.URL)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

const newest = `{"tag_name": "v1.4.0", "html_url": "https://example.com/v1.4.0", "published_at": "2026-01-01T00:00:00Z"}`

func TestTheNewestReleaseIsAskedForOnceADay(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	url, asked := feed(t, newest)
	c := &Checker{Feed: url, Version: "1.3.9", Dir: filepath.Join(t.TempDir(), "state"), Now: func() time.Time { return now }}
	want := &Release{"1.4.0", "https://example.com/v1.4.0", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	got, err := c.Check(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatal(err, diff)
	}
	now = now.Add(every - time.Minute)
	if diff := cmp.Diff(want, c.Watch(t.Context())()); diff != "" || len(asked) != 1 {
		t.Errorf("within a day: asked %d times, %s", len(asked), diff)
	}
	<-asked
	now = now.Add(2 * time.Minute)
	known := c.Watch(t.Context())
	<-asked // it is under way
	if diff := cmp.Diff(want, known()); diff != "" {
		t.Errorf("after a day: %s", diff)
	}
}

func TestACommandThatEndsBreaksTheQuestionOff(t *testing.T) {
	asked, gone := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	defer server.Close()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &Checker{Feed: server.URL, Version: "1.0.0", Dir: t.TempDir(), Now: func() time.Time { return now }}
	brokenOff := func() {
		t.Helper()
		known := c.Watch(t.Context())
		<-asked
		if r := known(); r != nil {
			t.Errorf("got %v", r)
		}
		<-gone
	}
	brokenOff()
	now = now.Add(again - time.Second)
	if c.Watch(t.Context())(); !c.recall().Asked.Equal(now.Add(time.Second - again)) {
		t.Error("the next command asks again")
	}
	now = now.Add(time.Second)
	brokenOff()
}

func TestWhatIsNoReleaseIsRefused(t *testing.T) {
	for _, answer := range []string{"", "[]", `{"tag_name": "latest"}`, `{"tag_name": 1}`} {
		url, _ := feed(t, answer)
		c := &Checker{Feed: url, Dir: t.TempDir(), Now: time.Now}
		if r, err := c.Check(t.Context()); err == nil {
			t.Errorf("%q became %v", answer, r)
		}
	}
	if _, err := (&Checker{}).Check(context.Background()); err == nil {
		t.Error("a program without a feed asked")
	}
}

func TestOnlyReleasesHaveNewerOnes(t *testing.T) {
	for _, tt := range []struct {
		own, other string
		want       bool
	}{
		{"1.2.3", "1.2.4", true},
		{"1.2.3", "1.2.3", false},
		{"1.10.0", "1.9.0", false},
		{"1.2.3-rc.1", "1.2.3", true},
		{"dev", "1.2.3", false},
		{"dev-0123456789ab", "1.2.3", false},
		{"1.2.3", "none", false},
	} {
		if got := (&Checker{Version: tt.own}).Newer(&Release{Version: tt.other}); got != tt.want {
			t.Errorf("%s, %s: got %v", tt.own, tt.other, got)
		}
	}
}

func TestAFileThatCannotBeReadIsAskedForAnew(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Checker{Version: "1.0.0", Dir: dir, Now: time.Now}
	if r := c.Watch(t.Context())(); r != nil {
		t.Errorf("got %v", r)
	}
}
