// Package login owns what is checked of logging in as a whole: real programs, real identity providers, a browser.
package login

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/pluralsh/plural/test/support/idp"
	"github.com/pluralsh/plural/test/support/issuer"
	"github.com/pluralsh/plural/test/support/needs"
)

// patience bounds whatever is waited for.
const patience = time.Minute

// world is a hub with an installation repo, and two providers and an issuer of CI jobs' tokens that the fleet believes.
type world struct {
	testing.TB
	dir, hub      string
	corp, partner *idp.Provider // whose clients are public and confidential
	ci            *issuer.Issuer
}

// person is somebody with a home of their own.
type person struct {
	*world
	home string
	env  []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	users := []idp.User{
		{Subject: "00u1abc", Name: "ada-l", Password: "correct horse", Groups: []string{"platform", "chess"}},
		{Subject: "00u2eve", Name: "eve", Password: "battery staple", Groups: []string{"chess"}},
	}
	w := &world{TB: t, dir: t.TempDir(), corp: idp.Start(t, idp.Options{Users: users}), ci: issuer.Start(t)}
	w.partner = idp.StartNode(t, idp.Options{
		Users: users, Clients: []string{"plural", "plural-page"}, Secrets: map[string]string{"plural": "GOCSPX-of/programs", "plural-page": pageSecret},
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.hub = "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	operator := w.person("operator")
	operator.run("git", "init", "--quiet", "--bare", "--initial-branch=main", w.path("origin.git"))
	operator.plural("init", w.path("fleet"), "--name", "fleet", "--repo-url", "file://"+w.path("origin.git"))
	w.sealForTheHub(operator)
	for name, text := range map[string]string{
		"access/sso.yaml": fmt.Sprintf(`apiVersion: plural.sh/v1alpha1
kind: Provider
metadata: {name: corp}
spec:
  issuer: %s
  clientID: plural
  device: true
---
apiVersion: plural.sh/v1alpha1
kind: Provider
metadata: {name: partner}
spec:
  issuer: %q
  clientID: plural
  clientSecret: GOCSPX-of/programs
  page: {clientID: plural-page, secret: secrets/hub/partner.yaml}
  session: 1h
---
apiVersion: plural.sh/v1alpha1
kind: Federation
metadata: {name: deploy-main}
spec:
  user: ci-deploy
  issuer: %s
  claims: {sub: "repo:acme/app:ref:refs/heads/main", repository_id: "74", ref: refs/heads/main}
`, w.corp.Issuer, w.partner.Issuer, w.ci.URL),
		"access/people.yaml": `apiVersion: plural.sh/v1alpha1
kind: User
metadata: {name: ada}
spec:
  identities: [{provider: corp, subject: 00u1abc}]
---
apiVersion: plural.sh/v1alpha1
kind: User
metadata: {name: ci-deploy}
spec: {groups: [deployers]}
---
apiVersion: plural.sh/v1alpha1
kind: Role
metadata: {name: developer}
spec: {fleet: [edit]}
---
apiVersion: plural.sh/v1alpha1
kind: RoleBinding
metadata: {name: developers}
spec: {role: developer, groups: [platform, deployers]}
`,
	} {
		path := filepath.Join(w.path("fleet"), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	operator.plural("validate", "-C", w.path("fleet"))
	operator.git("add", "-A")
	operator.git("commit", "-qm", "Let people in")
	operator.git("push", "-q", "-u", "origin", "main")
	operator.plural("application", "rotate-keys", "-C", w.path("fleet"))
	w.serve("hub", listener.Addr().String(), w.hub)
	w.until("the hub serves the fleet", func() bool {
		answer, err := http.Get(w.hub + "/v1/auth/providers")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return err == nil && strings.Contains(string(text), "partner")
	})
	return w
}

// pageSecret is that of partner's client for the page. A form writes it otherwise.
const pageSecret = "canary+4711/of=the page"

// sealForTheHub begins to seal, and seals pageSecret for the hub, whose identity is in hub.key.
func (w *world) sealForTheHub(operator *person) {
	w.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(w.path("hub.key"), []byte(identity.String()+"\n"), 0o600); err != nil {
		w.Fatal(err)
	}
	operator.plural("crypto", "groups", "create", "hub", "--member", "operator", "--path", "secrets/hub/**", "-C", w.path("fleet"), "--yes")
	operator.plural("crypto", "share", identity.Recipient().String(), "--name", "the-hub", "--group", "hub", "-C", w.path("fleet"), "--yes")
	secret := operator.command(program(w, "plural"), "secret", "set", "secrets/hub/partner.yaml", "clientSecret", "-C", w.path("fleet"))
	secret.Stdin = strings.NewReader(pageSecret)
	if out, err := secret.CombinedOutput(); err != nil {
		w.Fatalf("%v\n%s", err, out)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// serve starts a hub of this name, which others know by the URL. It may be given more flags.
func (w *world) serve(name, address, known string, more ...string) {
	w.Helper()
	said, err := os.Create(w.path(name + ".log"))
	if err != nil {
		w.Fatal(err)
	}
	defer said.Close()
	hub := exec.Command(program(w, "plural"), append([]string{
		"hub", "serve", "--data", w.path(name), "--with-parent", "--listen", address, "--url", known, "--repo", "file://" + w.path("origin.git"),
		"--allow-file-sources", "--allow-loopback", "--interval", "1s", "--identity", w.path("hub.key"),
	}, more...)...)
	hub.Stdout, hub.Stderr = said, said
	lifeline, err := hub.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := hub.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = hub.Process.Signal(syscall.SIGTERM)
		_ = lifeline.Close()
		_ = hub.Wait()
		if w.Failed() {
			text, _ := os.ReadFile(w.path(name + ".log"))
			w.Logf("%s said:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
}

func program(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	return needs.Program(t, path, "make build")
}

func (w *world) until(what string, yes func() bool) {
	w.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !yes() {
		select {
		case <-deadline:
			w.Fatalf("waited in vain until %s", what)
		case <-ticker.C:
		}
	}
}

// person makes a home.
func (w *world) person(name string) *person {
	w.Helper()
	p := &person{world: w, home: w.path("home-" + name)}
	if err := os.MkdirAll(p.home, 0o700); err != nil {
		w.Fatal(err)
	}
	config := fmt.Sprintf("[user]\n\tname = %s\n\temail = %[1]s@example.com\n[init]\n\tdefaultBranch = main\n", name)
	if err := os.WriteFile(filepath.Join(p.home, ".gitconfig"), []byte(config), 0o600); err != nil {
		w.Fatal(err)
	}
	p.env = append(slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "PLURAL_") || strings.HasPrefix(s, "XDG_") || strings.HasPrefix(s, "HOME=") || strings.HasPrefix(s, "BROWSER=") ||
			strings.HasPrefix(s, "SSH_") || strings.HasPrefix(s, "ACTIONS_") || strings.HasPrefix(s, "DBUS_")
	}), "HOME="+p.home, "PLURAL_HUB="+w.hub, "GIT_CONFIG_NOSYSTEM=1", "PATH="+filepath.Dir(program(w, "plural"))+":"+os.Getenv("PATH"))
	return p
}

func (p *person) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.Context(), name, args...)
	cmd.Env, cmd.Dir = p.env, p.home
	return cmd
}

func (p *person) try(name string, args ...string) (out, said string, err error) {
	p.Helper()
	cmd := p.command(name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

func (p *person) run(name string, args ...string) string {
	p.Helper()
	out, said, err := p.try(name, args...)
	if err != nil {
		p.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, said)
	}
	return out
}

func (p *person) plural(args ...string) string {
	p.Helper()
	return p.run(program(p, "plural"), args...)
}

func (p *person) git(args ...string) {
	p.Helper()
	p.run("git", append([]string{"-C", p.path("fleet")}, args...)...)
}

// fails is what a command says that must not work, and its exit code.
func (p *person) fails(args ...string) (said string, code int) {
	p.Helper()
	out, said, err := p.try(program(p, "plural"), args...)
	exit, ok := err.(*exec.ExitError) //nolint:errorlint // as exec gives it
	if !ok {
		p.Fatalf("plural %s: %v\n%s%s", strings.Join(args, " "), err, out, said)
	}
	return said, exit.ExitCode()
}

// login runs plural auth login and has a browser log in where it opens one. It returns what the program said, and the last page.
func (p *person) login(browser *idp.Browser, args ...string) (said, page string, err error) {
	p.Helper()
	opened := filepath.Join(p.home, "opened")
	if err := syscall.Mkfifo(opened, 0o600); err != nil && !os.IsExist(err) {
		p.Fatal(err)
	}
	script := filepath.Join(p.home, "browser")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nprintf %s \"$1\" > "+opened+"\n"), 0o700); err != nil {
		p.Fatal(err)
	}
	cmd := p.command(program(p, "plural"), append([]string{"auth", "login"}, args...)...)
	cmd.Env = append(cmd.Env, "BROWSER="+script)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	address := make(chan string, 1)
	go func() {
		if file, err := os.Open(opened); err == nil { // waits for the browser's script
			text, _ := io.ReadAll(file)
			_ = file.Close()
			address <- string(text)
		}
	}()
	select {
	case at := <-address:
		if _, err := browser.Open(at); err != nil {
			_ = cmd.Process.Kill()
			<-ended
			return stderr.String(), browser.Page(), err
		}
		err = <-ended
	case err = <-ended:
	case <-time.After(patience):
		p.Fatal("no browser is opened")
	}
	return stderr.String(), browser.Page(), err
}
