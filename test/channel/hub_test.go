package channel

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/needs"
)

const clusterName = "edge"

// programs are the hub and the agent of all tests here, in front of the API server that they share.
type programs struct {
	dir     string
	config  *rest.Config // to the cluster, through the hub, as its operator
	running []*process
}

// shared is started by the first test that needs it, and stopped by TestMain.
var shared struct {
	sync.Mutex
	*programs
	err error
}

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	defer func() {
		if p := shared.programs; p != nil {
			p.stop()
		}
	}()
	return m.Run()
}

// hub is how the operator reaches the cluster.
func hub(t testing.TB, cluster *kubetest.Cluster) *rest.Config {
	t.Helper()
	needs.Program(t, "git", "your system's packages")
	bins := map[string]string{"plural": program(t, "plural"), "plural-agent": program(t, "plural-agent")}
	shared.Lock()
	defer shared.Unlock()
	if shared.programs == nil && shared.err == nil {
		shared.programs, shared.err = startPrograms(bins, cluster)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return rest.CopyConfig(shared.config)
}

// program is the path of one of the built programs. They are what is tested, so they have to be there.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not built: run make build first", name)
		}
		t.Skipf("SKIPPED: %s is not built: run make build first", name)
	}
	return path
}

// startPrograms starts a hub with an installation repo of one cluster, and the cluster's agent, and waits until the way is open.
func startPrograms(bins map[string]string, cluster *kubetest.Cluster) (p *programs, err error) {
	p = new(programs)
	if p.dir, err = os.MkdirTemp("", "channel-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, p.said())
			p.stop()
		}
	}()
	certificate, err := p.certificate()
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	url := "https://" + address
	keys, err := crypto.NewAgentIdentity()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(cluster.RESTConfig)
	if err != nil {
		return nil, err
	}
	registration := identity.Registration{Cluster: clusterName, HubURL: url, HubCA: certificate, Identity: keys}
	if err := identity.Write(context.Background(), client, registration); err != nil {
		return nil, err
	}
	if err := p.installation(url, keys.Public().Auth); err != nil {
		return nil, err
	}
	data := filepath.Join(p.dir, "hub")
	if err := p.start(bins["plural"], "hub", "serve", "--data", data, "--with-parent", "--listen", address, "--url", url,
		"--tls-cert", p.path("tls.crt"), "--tls-key", p.path("tls.key"), "--repo", "file://"+p.path("fleet"), "--allow-file-sources", "--allow-loopback"); err != nil {
		return nil, err
	}
	if err := p.start(bins["plural-agent"], "run", "--kubeconfig", cluster.Kubeconfig, "--data", p.path("agent"), "--listen", "", "--with-parent"); err != nil {
		return nil, err
	}
	p.config = &rest.Config{Host: url + "/k8s/" + clusterName, TLSClientConfig: rest.TLSClientConfig{CAData: certificate}}
	return p, p.awaitReach(filepath.Join(data, "token"))
}

func (p *programs) path(name string) string { return filepath.Join(p.dir, name) }

// certificate issues one for the hub, which vouches for itself, and returns it as PEM.
func (p *programs) certificate() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return public, errors.Join(os.WriteFile(p.path("tls.crt"), public, 0o600),
		os.WriteFile(p.path("tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// installation makes the repo with the workspace and the cluster.
func (p *programs) installation(url, auth string) error {
	for path, text := range map[string]string{
		"plural.yaml":        document("Workspace", "channel", fmt.Sprintf("{hub: {url: %q}}", url)),
		"clusters/edge.yaml": document("Cluster", clusterName, fmt.Sprintf("{agent: {auth: %q}}", auth)),
	} {
		path = p.path(filepath.Join("fleet", path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-qm", "Begin"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = p.path("fleet")
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

func document(kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec)
}

// awaitReach waits until the hub has its token and the agent its connection.
func (p *programs) awaitReach(tokenFile string) error {
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		token, err := os.ReadFile(tokenFile)
		if last = err; err != nil {
			continue
		}
		p.config.BearerToken = strings.TrimSpace(string(token))
		if last = p.reaches(); last == nil {
			return nil
		}
	}
	return fmt.Errorf("the cluster is not reached through the hub: %w", last)
}

func (p *programs) reaches() error {
	client, err := rest.HTTPClientFor(p.config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, p.config.Host+"/version", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return err
}

// process is a program that runs until its standard input ends, which it does with this process too.
type process struct {
	*exec.Cmd
	lifeline io.Closer
	ended    chan struct{}
}

// start runs a program whose output goes to the log.
func (p *programs) start(name string, args ...string) error {
	log, err := os.OpenFile(p.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	r := &process{Cmd: exec.Command(name, args...), ended: make(chan struct{})}
	r.Stdout, r.Stderr = log, log
	if r.lifeline, err = r.StdinPipe(); err != nil {
		return err
	}
	if err := r.Start(); err != nil {
		return err
	}
	go func() {
		_ = r.Wait() // how it ended is told by its log
		close(r.ended)
	}()
	p.running = append(p.running, r)
	return nil
}

func (p *programs) said() string {
	text, _ := os.ReadFile(p.path("log")) // what cannot be read is not shown
	return string(text[max(0, len(text)-8000):])
}

func (p *programs) stop() {
	for _, r := range p.running {
		_ = r.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	for _, r := range p.running {
		select {
		case <-r.ended:
		case <-time.After(20 * time.Second):
			_ = r.Process.Kill()
			<-r.ended
		}
		_ = r.lifeline.Close()
	}
	_ = os.RemoveAll(p.dir)
}
