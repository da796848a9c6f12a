// Package replicas owns the proof that several replicas make one hub: real processes that are really killed, restarted
// and cut off from each other, while agents go on polling.
package replicas

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/needs"
)

// The size of the fleet, and the pace of the hub.
const (
	clusters = 12
	sources  = 3
	interval = time.Second
)

// world is a fleet with a hub of three replicas.
type world struct {
	t        *testing.T
	dir      string
	bin      string
	pki      *pki
	origin   *origin
	replicas []*replica
	balancer *balancer
	keys     map[string]ed25519.PrivateKey // of the clusters' agents
	why      string                        // the replicas were not settled when they were last looked at
}

// replica is one process of the hub.
type replica struct {
	world *world
	name  string
	host  host
	// ports are for agents, for the other replicas' NATS servers, for mirrors and bundles.
	main, meet, peer int
	cmd              *exec.Cmd
	log              *bytes.Buffer
	exited           chan error
}

func (r *replica) address(port int) string { return net.JoinHostPort(r.host.ip, fmt.Sprint(port)) }

// hubURL is how agents know the hub, whichever replica answers.
const hubURL = "https://hub.test"

// newWorld starts three replicas on the given hosts, and waits until all serve the same.
func newWorld(t *testing.T, hosts [3]host) *world {
	t.Helper()
	needs.Program(t, "git", "git")
	w := &world{t: t, dir: t.TempDir(), keys: map[string]ed25519.PrivateKey{}}
	w.bin = binary(t)
	w.pki = newPKI(t, filepath.Join(w.dir, "pki"), []string{hosts[0].ip, hosts[1].ip, hosts[2].ip, hosts[0].outside})
	w.origin = newOrigin(t, filepath.Join(w.dir, "git"), hosts[0].outside, w.pki)
	w.origin.push("fleet", w.fleet())
	for i := range sources {
		w.origin.push(fmt.Sprintf("source-%d", i), map[string]string{"app.yaml": configMap("from-source", "1")})
	}
	for i, h := range hosts {
		ports := freePorts(t, h, 3)
		w.replicas = append(w.replicas, &replica{
			world: w, name: fmt.Sprintf("hub-%d", i), host: h, main: ports[0], meet: ports[1], peer: ports[2],
		})
	}
	w.balancer = newBalancer(t, w.replicas)
	for _, r := range w.replicas {
		r.start()
	}
	t.Cleanup(w.dump)
	return w
}

// fleet is the installation repo.
func (w *world) fleet() map[string]string {
	files := map[string]string{
		"plural.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: fleet}\nspec: {hub: {url: " + hubURL + "}}\n",
	}
	for i := range clusters {
		name := fmt.Sprintf("c-%02d", i)
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			w.t.Fatal(err)
		}
		w.keys[name] = private
		files["clusters/"+name+".yaml"] = fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: %s}\n"+
			"spec: {tags: {env: prod}, agent: {auth: 'ed25519:%s'}}\n", name, base64.StdEncoding.EncodeToString(public))
	}
	for i := range sources {
		name := fmt.Sprintf("source-%d", i)
		files["sources/"+name+".yaml"] = fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: %s}\n"+
			"spec: {git: {url: %s, ref: main}}\n", name, w.origin.url(name))
		files["services/from-"+name+".yaml"] = service("from-"+name, "{name: "+name+", path: .}")
	}
	for _, name := range []string{"web", "api"} {
		files["services/"+name+".yaml"] = service(name, "{path: apps/"+name+"}")
		files["apps/"+name+"/app.yaml"] = configMap(name, "1")
	}
	return files
}

func service(name, source string) string {
	return fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: %s}\n"+
		"spec: {source: %s, namespace: default, clusters: {matchLabels: {env: prod}}}\n", name, source)
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {value: %q}\n", name, value)
}

// arguments are a replica's, apart from those that make it one of several.
func (r *replica) arguments(data string, listen string) []string {
	w := r.world
	return []string{
		"hub", "serve", "--repo", w.origin.url("fleet"), "--repo-credentials", w.origin.credentials, "--allow-loopback", "--data", data,
		"--listen", listen, "--url", hubURL, "--tls-cert", w.pki.cert, "--tls-key", w.pki.key, "--token-file", filepath.Join(w.dir, "token"),
		"--interval", interval.String(), "--poll-interval", "1s", "--report-interval", "2s",
	}
}

// start runs the replica's process, on the data that it had.
func (r *replica) start() {
	w := r.world
	w.t.Helper()
	var routes []string
	for _, other := range w.replicas {
		routes = append(routes, other.address(other.meet))
	}
	args := append(r.arguments(filepath.Join(w.dir, r.name), r.address(r.main)),
		"--replica", r.name, "--cluster-listen", r.address(r.meet), "--cluster-routes", strings.Join(routes, ","),
		"--peer-listen", r.address(r.peer), "--cluster-cert", w.pki.cert, "--cluster-key", w.pki.key, "--cluster-ca", w.pki.ca)
	if r.log == nil {
		r.log = new(bytes.Buffer)
	}
	r.cmd = r.host.command(w.bin, args...)
	r.cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+w.pki.ca)
	r.cmd.Stderr, r.cmd.Stdout = r.log, r.log
	if err := r.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	exited := make(chan error, 1)
	r.exited = exited
	cmd := r.cmd
	go func() { exited <- cmd.Wait() }()
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		exited <- nil
	})
}

// kill ends the process at once.
func (r *replica) kill() {
	_ = r.cmd.Process.Signal(syscall.SIGKILL)
	r.wait()
}

// stop asks the process to end, as whoever updates the hub does.
func (r *replica) stop() {
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	r.wait()
}

func (r *replica) wait() {
	r.world.t.Helper()
	select {
	case err := <-r.exited:
		r.exited <- err
	case <-time.After(90 * time.Second):
		r.world.t.Fatalf("%s does not end", r.name)
	}
}

// dump shows what the replicas said of a failed test.
func (w *world) dump() {
	if !w.t.Failed() && !testing.Verbose() {
		return
	}
	w.t.Log(w.why)
	for _, r := range w.replicas {
		_ = r.cmd.Process.Kill()
		r.wait()
		said := r.log.String()
		w.t.Logf("%s said:\n%s", r.name, said[max(0, len(said)-8000):])
	}
}

// binary is the built program: it is what is tested, so it has to be there.
func binary(t *testing.T) string {
	t.Helper()
	bin, err := filepath.Abs("../../bin/plural")
	if err == nil {
		_, err = os.Stat(bin)
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("plural is not built: run make build first")
		}
		t.Skip("SKIPPED: plural is not built: run make build first")
	}
	return bin
}

// freePorts are ports of a host that nobody has now.
func freePorts(t *testing.T, h host, n int) []int {
	t.Helper()
	at := h.ip
	if h.netns != "" {
		at = h.outside // the host has an address of its own, where all are free
	}
	var ports []int
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// until waits for a condition.
func until(t *testing.T, limit time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	deadline := time.After(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %s in vain until %s", limit, what)
		}
	}
	return time.Since(began)
}
