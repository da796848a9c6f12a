package replicas

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// hub asks one replica about the hub; nil when it does not answer.
func (r *replica) hub() *v1.Hub {
	var out v1.Hub
	if r.get("/v1/hub", &out) != nil {
		return nil
	}
	return &out
}

// owner is who fetches a source, as this replica sees it.
func (r *replica) owner(source string) string {
	var out v1.List[v1.Source]
	if r.get("/v1/sources", &out) != nil {
		return ""
	}
	for _, s := range out.Items {
		if s.Name == source {
			return s.Owner
		}
	}
	return ""
}

func (r *replica) get(path string, into any) error {
	w := r.world
	token, err := os.ReadFile(filepath.Join(w.dir, "token"))
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(w.pki.ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+r.address(r.main)+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", r.name, response.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(into)
}

// settled says whether all replicas see three live ones, agree on who owns each source, and serve the same commit.
func (w *world) settled(commit string) bool {
	owner := w.replicas[0].owner(".")
	for _, r := range w.replicas {
		h := r.hub()
		if h == nil || h.Commit.ID != commit || live(h) != len(w.replicas) || owner == "" || r.owner(".") != owner {
			w.why = fmt.Sprintf("%s says %+v and that %q owns the fleet, not %q", r.name, h, r.owner("."), owner)
			return false
		}
	}
	return true
}

func live(h *v1.Hub) (n int) {
	for _, r := range h.Replicas {
		if r.Live && !r.Draining {
			n++
		}
	}
	return n
}

// named finds a replica.
func (w *world) named(name string) *replica {
	w.t.Helper()
	for _, r := range w.replicas {
		if r.name == name {
			return r
		}
	}
	w.t.Fatalf("no replica %q", name)
	return nil
}

// change commits a new value to the fleet's own service web.
func (w *world) change(value string) string {
	return w.origin.push("fleet", map[string]string{"apps/web/app.yaml": configMap("web", value)})
}

// begin waits until the hub serves its first commit, and lets agents loose on it.
func (w *world) begin() *load {
	w.t.Helper()
	commit := w.origin.git(filepath.Join(w.origin.dir, "fleet-work"), "rev-parse", "HEAD")
	w.t.Logf("settled after %s", until(w.t, time.Minute, "three replicas serve the first commit", func() bool { return w.settled(commit) }))
	l := newLoad(w, w.balancer.url())
	until(w.t, time.Minute, "every agent has everything", func() bool {
		for _, service := range []string{"web", "api", "from-source-0", "from-source-1", "from-source-2"} {
			if !l.all(service, "") {
				return false
			}
		}
		return true
	})
	return l
}

// undisturbed compares what agents were told in the end with what a hub of one replica tells that has seen nothing else.
func (w *world) undisturbed(l *load) {
	w.t.Helper()
	machine := host{ip: "127.0.0.1", outside: "127.0.0.1"}
	alone := &replica{world: w, name: "alone", host: machine, main: freePorts(w.t, machine, 1)[0]}
	cmd := exec.Command(w.bin, alone.arguments(filepath.Join(w.dir, "alone"), alone.address(alone.main))...)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+w.pki.ca)
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	until(w.t, 30*time.Second, "the hub of one replica answers", func() bool {
		h := alone.hub()
		return h != nil && h.Commit.ID != ""
	})
	other := newLoad(w, "https://"+alone.address(alone.main))
	until(w.t, 30*time.Second, "both tell the same", func() bool {
		w.why = same(l, other)
		return w.why == ""
	})
	other.stop()
}

func TestKilledOwnerIsReplacedWhileAgentsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, here())
	l := w.begin()
	first := l.bundle("web")
	owner := w.named(w.replicas[0].owner("."))
	began := time.Now()
	owner.kill()
	commit := w.change("2")
	took := until(t, time.Minute, "agents have a commit that only a new owner can have fetched", func() bool { return l.all("web", first) })
	t.Logf("a commit made right after kill -9 of the owner reached all agents after %s", took)
	for _, repo := range []string{"fleet", "source-0", "source-1", "source-2"} {
		most := int(time.Since(began)/interval*11/10) + 3 // a jittered interval, and one more for each move
		if got := w.origin.requests(repo, began); got > most {
			t.Errorf("%s was asked %d times in %s, more than %d", repo, got, time.Since(began), most)
		}
	}
	owner.start()
	until(t, time.Minute, "it is one of three again", func() bool { return w.settled(commit) })
	l.stop()
	l.check(t, 2*clusters)
	w.undisturbed(l)
}

func TestRollingRestartFailsNoRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, here())
	l := w.begin()
	renewed := w.pki.renew(t) // those that are not restarted yet take it up, too, and go on with those that are
	for _, r := range w.replicas {
		for _, port := range []int{r.main, r.peer} {
			until(t, time.Minute, r.name+" shows the renewed certificate", func() bool {
				serial := w.pki.shown(t, r.address(port))
				return serial != nil && serial.Cmp(renewed) == 0
			})
		}
	}
	for i, r := range w.replicas {
		before := l.bundle("web")
		r.stop()
		commit := w.change(fmt.Sprint("roll ", i))
		until(t, time.Minute, "agents have the next commit", func() bool { return l.all("web", before) })
		r.start()
		until(t, time.Minute, r.name+" is back", func() bool { return w.settled(commit) })
	}
	l.stop()
	l.check(t, clusters)
	w.undisturbed(l)
}

func TestReplicaThatIsCutOffServesOnAndCatchesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apart(t))
	l := w.begin()
	first := l.bundle("web")
	lost := w.named(w.replicas[0].owner("."))
	began := time.Now()
	for _, r := range w.replicas {
		if r != lost {
			lost.host.cut(t, r.host)
			r.host.cut(t, lost.host)
		}
	}
	commit := w.change("2")
	serving := func(r *replica) bool { h := r.hub(); return h != nil && h.Commit.ID == commit }
	took := until(t, time.Minute, "the others serve the next commit", func() bool {
		for _, r := range w.replicas {
			if r != lost && !serving(r) {
				return false
			}
		}
		return true
	})
	t.Logf("the majority went on after %s", took)
	if h := lost.hub(); h == nil || h.Commit.ID == "" {
		t.Error("the replica that is cut off does not answer")
	}
	until(t, time.Minute, "the replica that is cut off owns nothing", func() bool { return lost.owner(".") != lost.name })
	asked := w.origin.requests("fleet", began)
	if most := int(time.Since(began)/interval*11/10) + 16; asked > most { // two owners until the lease ended
		t.Errorf("the fleet was asked for %d times, more than %d", asked, most)
	}
	for _, r := range w.replicas {
		if r != lost {
			lost.host.mend(t, r.host)
			r.host.mend(t, lost.host)
		}
	}
	until(t, time.Minute, "all three serve the same", func() bool { return w.settled(commit) })
	until(t, time.Minute, "all agents have it", func() bool { return l.all("web", first) })
	l.stop()
	l.check(t, clusters)
	w.undisturbed(l)
}
