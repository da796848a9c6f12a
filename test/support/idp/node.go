package idp

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/needs"
)

const (
	stopTime  = 5 * time.Second
	noModules = ".tools/oidc-provider is missing: make .tools/oidc-provider"
)

//go:embed provider.mjs
var source string

// StartNode runs panva's provider as a node program, behind a proxy in this process that counts and carries TLS. It wants what
// make .tools/oidc-provider brings: without that the test is skipped, and says so; in CI it fails. What names other claims there
// are is said by the users of the options: those of later users are left out.
func StartNode(t testing.TB, o Options) *Provider {
	t.Helper()
	program, modules := needs.Program(t, "node", "Node.js"), modules(t)
	o = o.withDefaults()
	p := newProvider(t, o)
	c, err := startChild(program, modules, source)
	if err != nil {
		t.Fatalf("start the provider: %v", err)
	}
	p.stop, p.told = c.stop, func(users []User) error {
		_, err := c.tell(known(users))
		return err
	}
	port, err := c.tell(map[string]any{
		"issuer": p.Issuer, "clients": o.Clients, "secrets": secrets(o.Secrets), "redirects": redirects(), "users": known(o.Users),
		"lifetime": int(o.IDTokenLifetime.Seconds()), "interval": int(o.DeviceInterval.Seconds()),
	})
	if err != nil {
		t.Fatalf("start the provider: %v", err)
	}
	p.serve(before(port))
	return p
}

// secrets are the clients' as the program reads them: an object even if there are none.
func secrets(of map[string]string) map[string]string {
	if of == nil {
		return map[string]string{}
	}
	return of
}

// modules is the folder into which make installs what the program imports.
func modules(t testing.TB) string {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, ".tools", "oidc-provider")
	_, err = os.Stat(filepath.Join(dir, "node_modules", "oidc-provider"))
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatal(noModules)
	case err != nil:
		t.Skip("SKIPPED, NOT TESTED: " + noModules)
	}
	return dir
}

// repository is the folder of go.mod at or above the working folder, which is the package's own while tests run.
func repository() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod at or above %s", at)
		}
	}
}

// before passes requests on, with the host that they were sent to.
func before(port string) http.Handler {
	target := &url.URL{Scheme: "http", Host: "127.0.0.1:" + port}
	return &httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		},
	}
}

// known is users as the program reads them: a list even if there are none.
func known(users []User) []User { return append([]User{}, users...) }

// child is the program, which answers each line with one.
type child struct {
	cmd  *exec.Cmd
	mu   sync.Mutex // guards the conversation
	in   io.WriteCloser
	out  *bufio.Reader
	errs *tail
}

func startChild(program, modules, source string) (*child, error) {
	// The folder where it runs is where node looks for modules of a program that is no file.
	c := &child{cmd: exec.Command(program, "--input-type=module", "--eval", source), errs: new(tail)} //nolint:noctx // stop ends it
	c.cmd.Dir, c.cmd.Stderr = modules, c.errs
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	return c, c.cmd.Start()
}

// tell says a line to the child, and returns its answer.
func (c *child) tell(what any) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := json.NewEncoder(c.in).Encode(what); err != nil {
		return "", fmt.Errorf("%w\n%s", err, c.errs)
	}
	answer, err := c.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, c.errs)
	}
	return strings.TrimSpace(answer), nil
}

// stop ends the child, which ends when nobody can speak to it any more.
func (c *child) stop() {
	_ = c.in.Close()
	late := time.AfterFunc(stopTime, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	_ = c.cmd.Wait()
}

// tail keeps what a child process said last, for the message of a failure.
type tail struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (b *tail) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said.Write(text)
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said.String()
}
