package peer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/workspace/mirror"
)

// files is an upstream whose refs are folders.
type files map[string]fstest.MapFS

func (f files) Traffic() mirror.Traffic { return mirror.Traffic{} }

func (f files) Fetch(ctx context.Context, refs []string, into mirror.Receiver) (mirror.Answer, error) {
	answer := mirror.Answer{Tips: map[string]mirror.Tip{}}
	for _, ref := range refs {
		about := mirror.About{Author: "Ada <ada@example.org>", Message: ref, Time: time.Unix(1, 0)}
		commit, err := into.Tree(ctx, f[ref], about)
		if err != nil {
			return answer, err
		}
		answer.Tips[ref] = mirror.Tip{ID: commit, Commit: commit, Revision: commit}
	}
	return answer, nil
}

func one(content string) fstest.MapFS {
	return fstest.MapFS{"a/file": {Data: []byte(content), Mode: 0o644}}
}

// owned is the mirror of a replica that owns a repository, as the others see it.
type owned struct {
	*mirror.Mirror
	note atomic.Pointer[string]
	// listed happens when somebody has read the manifest.
	listed func()
	opened atomic.Int32
}

func (o *owned) Note() json.RawMessage {
	if note := o.note.Load(); note != nil {
		return json.RawMessage(*note)
	}
	return nil
}

func (o *owned) Manifest() mirror.Manifest {
	m := o.Mirror.Manifest()
	if o.listed != nil {
		o.listed()
	}
	return m
}

func (o *owned) OpenPack(name string) (*os.File, error) {
	o.opened.Add(1)
	return o.Mirror.OpenPack(name)
}

func newMirror(t *testing.T) *mirror.Mirror {
	t.Helper()
	m, err := mirror.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func fetch(t *testing.T, m *mirror.Mirror, from mirror.Upstream, refs ...string) {
	t.Helper()
	if _, err := m.Fetch(t.Context(), from, refs); err != nil {
		t.Fatal(err)
	}
}

// pair is an owner with a follower that asks it over mutual TLS.
type pair struct {
	t        *testing.T
	owner    *owned
	follower *mirror.Mirror
	mirror.Upstream
	notes []string
	// refused is what the follower makes of a note.
	refused error
}

func newPair(t *testing.T, wrap func(net.Listener) net.Listener) *pair {
	t.Helper()
	p := &pair{t: t, owner: &owned{Mirror: newMirror(t)}, follower: newMirror(t)}
	replicas := newAuthority(t)
	holds := func(id string) (Repo, bool) { return p.owner, id == "fleet/main" }
	addr := serveAt(t, Options{Repo: holds}, replicas.replica(), wrap)
	note := func(note json.RawMessage) error {
		p.notes = append(p.notes, string(note))
		return p.refused
	}
	owner := func() (string, bool) { return addr, true }
	p.Upstream = newClient(t, replicas.replica()).Upstream("fleet/main", owner, note)
	return p
}

func (p *pair) follow(refs ...string) {
	p.t.Helper()
	fetch(p.t, p.follower, p, refs...)
}

// read gives the one file of a ref as the follower has it.
func (p *pair) read(ref string) string {
	p.t.Helper()
	snap, err := p.follower.Snapshot(ref)
	if err != nil {
		p.t.Fatal(err)
	}
	data, err := fs.ReadFile(snap.FS(), "a/file")
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

func TestFollowerHoldsWhatItsOwnerHolds(t *testing.T) {
	p := newPair(t, nil)
	fetch(t, p.owner.Mirror, files{"main": one("1"), "v1": one("2")}, "main", "v1")
	note := `{"url":"https://git.example.com/fleet.git"}`
	p.owner.note.Store(&note)
	p.follow("main", "v1")
	if p.read("main") != "1" || p.read("v1") != "2" {
		t.Errorf("the follower holds %q and %q", p.read("main"), p.read("v1"))
	}
	if diff := cmp.Diff(p.owner.Tips(), p.follower.Tips()); diff != "" {
		t.Error(diff)
	}
	if !p.follower.Fetched().Equal(p.owner.Fetched()) {
		t.Errorf("the upstream answered at %v, says the follower; the owner %v", p.follower.Fetched(), p.owner.Fetched())
	}
	before := p.Traffic()
	p.follow("main", "v1")
	if after := p.Traffic(); after.Requests != before.Requests+1 || after.Bytes != before.Bytes {
		t.Errorf("nothing new cost %+v after %+v", after, before)
	}
	if want := []string{note, note}; !slices.Equal(p.notes, want) {
		t.Errorf("notes %q, want %q", p.notes, want)
	}
}

func TestOnlyNewPacksAreCopied(t *testing.T) {
	p := newPair(t, nil)
	large := make([]byte, 1<<20)
	_, _ = rand.Read(large)
	fetch(t, p.owner.Mirror, files{"main": {"large": {Data: large}, "a/file": {Data: []byte("1")}}}, "main")
	p.follow("main")
	before := p.Traffic()
	fetch(t, p.owner.Mirror, files{"main": {"large": {Data: large}, "a/file": {Data: []byte("2")}}}, "main")
	p.follow("main")
	if after := p.Traffic(); after.Requests != before.Requests+2 || after.Bytes > before.Bytes+4<<10 {
		t.Errorf("one changed file cost %+v after %+v", after, before)
	}
	if p.read("main") != "2" {
		t.Errorf("the follower holds %q", p.read("main"))
	}
}

func TestOwnerThatCompactsMeanwhileIsFollowed(t *testing.T) {
	p := newPair(t, nil)
	n := 0
	next := func() {
		n++
		fetch(t, p.owner.Mirror, files{"main": one(fmt.Sprint(n))}, "main")
	}
	for range 5 {
		next()
	}
	p.owner.listed = func() {
		p.owner.listed = nil
		packs := p.owner.Mirror.Manifest().Packs
		for range 100 {
			if next(); !slices.Contains(p.owner.Mirror.Manifest().Packs, packs[0]) {
				return
			}
		}
		t.Error("the owner never compacted")
	}
	p.follow("main")
	if p.read("main") != fmt.Sprint(n) {
		t.Errorf("the follower holds %q of %d", p.read("main"), n)
	}
}

func TestCommitThatSomebodyPinnedIsFollowed(t *testing.T) {
	p := newPair(t, nil)
	fetch(t, p.owner.Mirror, files{"main": one("1")}, "main")
	pinned := p.owner.Tips()["main"].Commit
	fetch(t, p.owner.Mirror, files{"main": one("2")}, "main")
	p.follow("main", pinned)
	if p.read("main") != "2" || p.read(pinned) != "1" {
		t.Errorf("the follower holds %q and %q", p.read("main"), p.read(pinned))
	}
}

func TestRefThatTheOwnerLacksHoldsUpNoOther(t *testing.T) {
	p := newPair(t, nil)
	fetch(t, p.owner.Mirror, files{"main": one("1")}, "main")
	_, err := p.follower.Fetch(t.Context(), p, []string{"main", "v2", strings.Repeat("ab", 20)})
	if err == nil || strings.Count(err.Error(), "its owner has not fetched it") != 2 {
		t.Errorf("Fetch: %v", err)
	}
	if p.read("main") != "1" {
		t.Errorf("the follower holds %q", p.read("main"))
	}
}

func TestOwnerWhoseNoteIsRefusedIsNotFollowed(t *testing.T) {
	p := newPair(t, nil)
	fetch(t, p.owner.Mirror, files{"main": one("1")}, "main")
	p.refused = errors.New("it is behind")
	for range 2 { // the second answer is a 304
		if _, err := p.follower.Fetch(t.Context(), p, []string{"main"}); !errors.Is(err, p.refused) {
			t.Errorf("Fetch: %v", err)
		}
	}
	if tips := p.follower.Tips(); len(tips) != 0 {
		t.Errorf("the follower took %v", tips)
	}
}

func TestOwnerThatCannotBeFollowedIsSaidToBeSo(t *testing.T) {
	p := newPair(t, nil)
	_, err := p.follower.Fetch(t.Context(), p, []string{"main"})
	if err == nil || !strings.Contains(err.Error(), "has not fetched the repository yet") {
		t.Errorf("an owner that is not warm: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := listener.Addr().String()
	_ = listener.Close()
	addr := serveAt(t, Options{Repo: nothing}, nil, nil)
	c := newClient(t, nil)
	for want, owner := range map[string]func() (string, bool){
		"no replica is known to own":       func() (string, bool) { return "", false },
		"does not hold the repository yet": func() (string, bool) { return addr, true },
		"connection refused":               func() (string, bool) { return gone, true },
	} {
		from := c.Upstream("fleet/main", owner, func(json.RawMessage) error { return nil })
		_, err := p.follower.Fetch(t.Context(), from, []string{"main"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// cutting closes its connections after so many bytes were sent, for the first few of them.
type cutting struct {
	net.Listener
	cuts  atomic.Int32
	after int64
}

func (c *cutting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return &cutConn{Conn: conn, by: c, left: c.after}, err
}

type cutConn struct {
	net.Conn
	by   *cutting
	left int64
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.left -= int64(len(p)); c.left < 0 && c.by.cuts.Add(-1) >= 0 {
		_ = c.Close()
	}
	return c.Conn.Write(p)
}

func TestPackWhoseConnectionBreaksGoesOnWhereItBroke(t *testing.T) {
	large := make([]byte, 2<<20)
	_, _ = rand.Read(large)
	for cuts, good := range map[int32]bool{1: true, resumes: true, 100: false} {
		t.Run(fmt.Sprint(cuts), func(t *testing.T) {
			cut := &cutting{after: 300 << 10}
			p := newPair(t, func(l net.Listener) net.Listener { cut.Listener = l; return cut })
			cut.cuts.Store(cuts)
			fetch(t, p.owner.Mirror, files{"main": {"large": {Data: large}}}, "main")
			_, err := p.follower.Fetch(t.Context(), p, []string{"main"})
			if (err == nil) != good {
				t.Fatalf("Fetch: %v", err)
			}
			if bytes := p.Traffic().Bytes; good && bytes > 3<<20 {
				t.Errorf("%d bytes were sent for a pack of 2 MiB", bytes)
			}
		})
	}
}

// pipes is a network of one listener in memory, so that a test can move the clock.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.ended) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

func TestPeerThatStopsSendingIsGivenUp(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"before its answer": func(http.ResponseWriter) {},
		"within it": func(w http.ResponseWriter) {
			w.Header().Set(digestHeader, "sha-256=:"+strings.Repeat("A", 43)+"=:")
			_, _ = w.Write(make([]byte, 100<<10))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := &pipes{conns: make(chan net.Conn), ended: make(chan struct{})}
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					answer(w)
					<-r.Context().Done()
				})}
				go func() { _ = server.Serve(network) }()
				transport := &http.Transport{DialContext: network.dial}
				c := &Client{plain: true, http: &http.Client{Transport: transport}}
				began := time.Now()
				body, err := c.Bundle(t.Context(), "127.0.0.1:1", "b1-a")
				if err == nil {
					_, err = io.ReadAll(body)
					_ = body.Close()
				}
				if !errors.Is(err, errStalled) || time.Since(began) > 2*stallTime {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				transport.CloseIdleConnections()
				_ = server.Close()
			})
		})
	}
}
