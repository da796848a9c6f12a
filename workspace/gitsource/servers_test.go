package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/snapshot"
)

func TestExpiredCredentialsAreNamedAndWorkAgainOnceTheServerTakesThem(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	f := r.serve()
	var status atomic.Int64
	f.behave(func(w http.ResponseWriter, req *http.Request, git http.Handler) {
		if _, password, _ := req.BasicAuth(); password != "hunter2" {
			t.Errorf("no credentials on %s", req.URL)
		}
		if code := int(status.Load()); code != 0 {
			w.WriteHeader(code)
			return
		}
		git.ServeHTTP(w, req)
	})
	o := f.options()
	o.Credentials = httpclient.Credentials{Username: "ada", Password: "hunter2"}
	m := follow(t, o)
	m.fetch("main")
	r.commit("a", "2")
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		status.Store(int64(code))
		before := m.src.Traffic().Requests
		_, err := m.try("main")
		m.says(err, fmt.Sprint(code), "username, password")
		if strings.Contains(err.Error(), "hunter2") || m.src.Traffic().Requests-before != 1 {
			t.Errorf("%v, after %d requests", err, m.src.Traffic().Requests-before)
		}
		m.want("main", "a", "1")
	}
	status.Store(0)
	m.fetch("main")
	m.want("main", "a", "2")
}

func TestAServerThatNeverAnswersIsGivenUpAtTheDeadline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	key, public := newKey(t)
	s := &sshServer{t: t, address: listener.Addr().String(), key: key}
	s.hostKeys = map[string]ssh.PublicKey{"host": public}
	for _, o := range []Options{
		{URL: "http://user:hunter2@" + s.address + "/x"},
		{URL: "ssh://git@" + s.address + "/x", Credentials: httpclient.Credentials{SSHKey: key, KnownHosts: []byte(s.knownHosts())}},
	} {
		m := follow(t, o)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = m.Fetch(ctx, m.src, []string{"main"})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want the deadline", o.URL, err)
		}
	}
}

// stalling passes on some bytes of an answer, and then nothing.
type stalling struct {
	http.ResponseWriter
	left    int
	release <-chan struct{}
}

func (s *stalling) Write(b []byte) (int, error) {
	if s.left -= len(b); s.left < 0 {
		_ = http.NewResponseController(s.ResponseWriter).Flush()
		<-s.release
		return 0, errors.New("released")
	}
	return s.ResponseWriter.Write(b)
}

func TestAServerThatStallsInTheMiddleOfAPackIsGivenUp(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	f := r.serve()
	o := f.options()
	o.Stall = 200 * time.Millisecond
	m := follow(t, o)
	m.fetch("main")
	r.commit("noise", noise(1<<20))
	release := make(chan struct{})
	f.behave(func(w http.ResponseWriter, req *http.Request, git http.Handler) {
		git.ServeHTTP(&stalling{w, 300 << 10, release}, req)
	})
	_, err := m.try("main")
	close(release)
	m.says(err, "fell silent")
	m.want("main", "a", "1")
	f.behave(nil)
	m.fetch("main")
	m.want("main", "noise", noise(1<<20))
}

// noise is incompressible, and the same each time.
func noise(n int) string {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return string(b)
}

func TestASlowServerIsWaitedFor(t *testing.T) {
	r := newRepo(t)
	r.commit("noise", noise(64<<10))
	f := r.serve()
	o := f.options()
	o.Stall = 2 * time.Second
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	f.behave(func(w http.ResponseWriter, req *http.Request, git http.Handler) {
		rec := httptest.NewRecorder()
		git.ServeHTTP(rec, req)
		for key, values := range rec.Header() {
			w.Header()[key] = values
		}
		w.WriteHeader(rec.Code)
		for rec.Body.Len() > 0 {
			<-tick.C
			_, _ = io.CopyN(w, rec.Body, 1000)
			_ = http.NewResponseController(w).Flush()
		}
	})
	m := follow(t, o)
	m.fetch("main")
	m.want("main", "noise", noise(64<<10))
}

func TestAConnectionThatTheServerHasClosedIsMadeAnew(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	f := r.serve()
	m := follow(t, f.options())
	for range 5 {
		m.fetch("main")
		f.CloseClientConnections()
	}
}

func TestARedirectToAnotherHostIsRefused(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") }))
	t.Cleanup(other.Close)
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	t.Cleanup(first.Close)
	m := follow(t, Options{URL: strings.Replace(first.URL, "//", "//user:hunter2@", 1) + "/x"})
	_, err := m.try("main")
	m.says(err, "another host")
	if strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

func TestARepositoryThatMovedOnItsHostIsFollowedThere(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	f := r.serve()
	f.behave(func(w http.ResponseWriter, req *http.Request, git http.Handler) {
		if rest, ok := strings.CutPrefix(req.URL.Path, "/before"); ok {
			http.Redirect(w, req, "/repo/.git"+rest+"?"+req.URL.RawQuery, http.StatusMovedPermanently)
			return
		}
		git.ServeHTTP(w, req)
	})
	m := follow(t, Options{URL: f.URL + "/before/"})
	m.fetch("main")
	r.commit("a", "2")
	m.fetch("main")
	m.want("main", "a", "2")
}

func TestRetryAfterReachesWhoeverPolls(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	f := r.serve()
	m := follow(t, f.options())
	m.fetch("main")
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		f.behave(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(code)
		})
		before := m.src.Traffic().Requests
		_, err := m.try("main")
		var retry *mirror.RetryError
		if !errors.As(err, &retry) || retry.After != 10*time.Minute || m.src.Traffic().Requests-before != 1 {
			t.Errorf("%d: %v, after %d requests", code, err, m.src.Traffic().Requests-before)
		}
		m.says(err, "left alone for 10m0s")
		m.want("main", "a", "1")
	}
}

func TestATipBeyondTheLimitsIsRefusedOnceAndHoldsUpNoOther(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	m := follow(t, r.serve().options())
	m.fetch("main")
	r.git("checkout", "-q", "-b", "big")
	r.run(strings.Repeat("words\n", snapshot.MaxBlob/5), "commit", "-q", "--allow-empty", "-F", "-")
	r.git("checkout", "-q", "main")
	r.commit("a", "2")
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	_, err := m.try("main", "big")
	runtime.ReadMemStats(&end)
	var limit *snapshot.LimitError
	if !errors.As(err, &limit) || limit.Max != snapshot.MaxBlob {
		t.Errorf("Fetch: %v, want a LimitError", err)
	}
	m.says(err, `"big"`)
	m.want("main", "a", "2")
	if grown := end.TotalAlloc - start.TotalAlloc; grown > 32<<20 {
		t.Errorf("allocated %d MiB", grown>>20)
	}
	before := m.src.Traffic()
	_, err = m.try("main", "big")
	m.says(err, `"big"`)
	if after := m.src.Traffic(); after.Requests-before.Requests != 1 || after.Bytes-before.Bytes > 1000 {
		t.Errorf("the next poll took %d requests, %d bytes", after.Requests-before.Requests, after.Bytes-before.Bytes)
	}
	r.git("branch", "-f", "big", "main")
	m.fetch("main", "big")
	m.want("big", "a", "2")
}

func TestAHugeFileHoldsUpNothing(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	noise := make([]byte, snapshot.MaxBlob+1)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	must(t, os.WriteFile(filepath.Join(r.dir, "noise"), noise, 0o600))
	r.git("-c", "core.bigFileThreshold=1m", "add", "noise")
	r.git("commit", "-q", "-m", "noise")
	served := r.serve()
	for name, c := range map[string]struct {
		options          Options
		filters, refuses bool // what the server says that it can, and what it does then
		behave           func(http.ResponseWriter, *http.Request, http.Handler)
		sends            bool // the huge file, too
	}{
		"a server that leaves it out":       {served.options(), true, false, nil, false},
		"one that cannot":                   {served.options(), false, false, nil, true},
		"one that says it can, and refuses": {served.options(), true, true, nil, true},
		"git's first protocol":              {served.options(), true, false, old, true},
		"this machine's disk":               {Options{URL: "file://" + r.dir, AllowFile: true}, false, false, nil, false},
	} {
		r.git("config", "uploadpack.allowFilter", strconv.FormatBool(c.filters))
		r.git("config", "uploadpackfilter.blob:limit.allow", strconv.FormatBool(!c.refuses))
		served.behave(c.behave)
		m := follow(t, c.options)
		if _, err := m.try("main"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m.want("main", "a", "1")
		if bytes := m.src.Traffic().Bytes; bytes > 1<<20 != c.sends {
			t.Errorf("%s: %d bytes came", name, bytes)
		}
		snap, err := m.Snapshot("main")
		must(t, err)
		id, _, err := snap.Hash("noise")
		must(t, err)
		if limit := new(snapshot.LimitError); !errors.As(snap.TooLarge(id), &limit) || limit.Max != snapshot.MaxBlob {
			t.Errorf("%s: the file is not told as too large: %v", name, snap.TooLarge(id))
		}
		r.commit("b", name)
		m.fetch("main")
		m.want("main", "b", name)
	}
}

func TestABadTreeIsRefusedOnceAndTheLastGoodCommitStays(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	m := follow(t, r.serve().options())
	m.fetch("main")
	line := "100644 blob " + r.git("rev-parse", "HEAD:a") + "\ta\\b\n"
	r.git("update-ref", "refs/heads/main", r.git("commit-tree", "-p", "HEAD", "-m", "bad", r.run(line, "mktree")))
	for range 2 {
		before := m.src.Traffic().Requests
		_, err := m.try("main")
		m.says(err, `"a\\b"`)
		m.want("main", "a", "1")
		t.Logf("%d requests", m.src.Traffic().Requests-before)
	}
	before := m.src.Traffic().Requests
	_, err := m.try("main")
	m.says(err, `"a\\b"`)
	if requests := m.src.Traffic().Requests - before; requests > 2 {
		t.Errorf("%d requests for what was refused before", requests)
	}
}

func TestTwoHundredThousandRefsCostOnlyWhatIsAskedFor(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	id := r.git("rev-parse", "HEAD")
	var packed strings.Builder
	packed.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for i := range 200_000 {
		fmt.Fprintf(&packed, "%s refs/pull/%06d/head\n", id, i)
	}
	must(t, os.WriteFile(filepath.Join(r.dir, ".git", "packed-refs"), []byte(packed.String()), 0o600))
	for way, o := range plain(r) {
		m := follow(t, o)
		var start, end runtime.MemStats
		runtime.ReadMemStats(&start)
		m.fetch("main")
		runtime.ReadMemStats(&end)
		m.want("main", "a", "1")
		if held := int64(end.HeapSys) - int64(start.HeapSys); held > 32<<20 {
			t.Errorf("%s: the heap grew by %d MiB", way, held>>20)
		}
		before := m.src.Traffic()
		m.fetch("main")
		bytes := m.src.Traffic().Bytes - before.Bytes
		if bytes > 1000 && way != "http, first protocol" || bytes > 20<<20 {
			t.Errorf("%s: a poll takes %d bytes", way, bytes)
		}
	}
}
