package gitsource

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/test/support/needs"
)

// sshServer is OpenSSH's own server. Each connection gets a process of its own, as inetd would start it.
type sshServer struct {
	t        testing.TB
	address  string
	dir      string
	key      []byte // a client's private key that it accepts
	hostKeys map[string]ssh.PublicKey
}

func newSSH(t testing.TB, r *repo) *sshServer {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	s := &sshServer{t: t, dir: t.TempDir(), hostKeys: map[string]ssh.PublicKey{}}
	program := needs.Program(t, "sshd", "openssh-server")
	key, public := newKey(t)
	s.key = key
	must(t, os.WriteFile(filepath.Join(s.dir, "authorized_keys"), ssh.MarshalAuthorizedKey(public), 0o600))
	s.newHostKey("host")
	config := fmt.Sprintf("HostKey %[1]s/host\nAuthorizedKeysFile %[1]s/authorized_keys\nStrictModes no\nUsePAM no\nPidFile none\n"+
		"PasswordAuthentication no\nKbdInteractiveAuthentication no\nAcceptEnv GIT_PROTOCOL\nPermitRootLogin yes\n", s.dir)
	must(t, os.WriteFile(filepath.Join(s.dir, "config"), []byte(config), 0o600))
	if os.Geteuid() == 0 {
		must(t, os.MkdirAll("/run/sshd", 0o755)) // where sshd drops its rights before the log-in
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.address = listener.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.start(program, conn.(*net.TCPConn))
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return s
}

func (s *sshServer) start(program string, conn *net.TCPConn) {
	defer conn.Close()
	socket, err := conn.File()
	if err != nil {
		return
	}
	defer socket.Close()
	cmd := exec.Command(program, "-i", "-e", "-f", filepath.Join(s.dir, "config"))
	cmd.Stdin, cmd.Stdout = socket, socket
	if err := cmd.Start(); err == nil {
		go func() { _ = cmd.Wait() }()
	}
}

// newHostKey replaces the server's key.
func (s *sshServer) newHostKey(name string) {
	key, public := newKey(s.t)
	must(s.t, os.WriteFile(filepath.Join(s.dir, name), key, 0o600))
	s.hostKeys[name] = public
}

func newKey(t testing.TB) ([]byte, ssh.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	must(t, err)
	key, err := ssh.NewPublicKey(public)
	must(t, err)
	return pem.EncodeToMemory(block), key
}

// knownHosts is a line for the server's key.
func (s *sshServer) knownHosts() string {
	host, port, _ := net.SplitHostPort(s.address)
	return fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(s.hostKeys["host"]))
}

func (s *sshServer) options(r *repo) Options {
	user := os.Getenv("USER")
	if os.Geteuid() == 0 {
		user = "root"
	}
	return Options{
		URL:         "ssh://" + user + "@" + s.address + r.dir,
		Credentials: httpclient.Credentials{SSHKey: s.key, KnownHosts: []byte(s.knownHosts())},
	}
}

func TestAServerOfThisMachineIsNotReachedBySSHWhereThatIsNotToBe(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	o := newSSH(t, r).options(r)
	o.NoLoopback = true
	_, err := follow(t, o).try("main")
	if err == nil || !strings.Contains(err.Error(), "--allow-loopback") {
		t.Errorf("Fetch: %v", err)
	}
}

func TestAChangedHostKeyIsAHardStop(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	s := newSSH(t, r)
	m := follow(t, s.options(r))
	m.fetch("main")
	was := ssh.FingerprintSHA256(s.hostKeys["host"])
	s.newHostKey("host")
	r.commit("a", "2")
	for range 2 {
		_, err := m.try("main")
		m.says(err, "host key of "+s.address+" has changed", was, ssh.FingerprintSHA256(s.hostKeys["host"]), "nothing was sent")
	}
	m.want("main", "a", "1")
	m.src, _ = New(s.options(r))
	m.fetch("main")
	m.want("main", "a", "2")
}

func TestAHostThatIsNotKnownIsNeverAsked(t *testing.T) {
	r := newRepo(t)
	s := newSSH(t, r)
	o := s.options(r)
	o.Credentials.KnownHosts = []byte(strings.Replace(s.knownHosts(), "127.0.0.1", "127.0.0.2", 1))
	_, err := New(o)
	if err == nil || !strings.Contains(err.Error(), "known_hosts has no key for "+s.address) {
		t.Errorf("New: %v", err)
	}
}

func TestAKeyThatIsNoLongerAcceptedSaysWhichCredentialsThereWere(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	s := newSSH(t, r)
	o := s.options(r)
	o.Credentials.SSHKey, _ = newKey(t)
	m := follow(t, o)
	_, err := m.try("main")
	m.says(err, "does not accept the credentials given (identity, known_hosts)", "deploy keys")
}

func TestAMissingRepositoryOverSSHSaysSo(t *testing.T) {
	r := newRepo(t)
	s := newSSH(t, r)
	o := s.options(r)
	o.URL += "/it's%20not/here"
	m := follow(t, o)
	_, err := m.try("main")
	m.says(err, "the remote says", "not appear to be a git repository")
}

func TestKnownHostsAreReadAsOpenSSHDoes(t *testing.T) {
	needs.Program(t, "ssh-keygen", "openssh-client")
	_, one := newKey(t)
	_, two := newKey(t)
	line := func(hosts string, key ssh.PublicKey) string {
		return hosts + " " + string(ssh.MarshalAuthorizedKey(key))
	}
	file := filepath.Join(t.TempDir(), "known_hosts")
	must(t, os.WriteFile(file, []byte(line("hashed.example.org,[hashed.example.org]:2222", one)), 0o600))
	out, err := exec.Command("ssh-keygen", "-H", "-f", file).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	hashed, err := os.ReadFile(file)
	must(t, err)
	if strings.Contains(string(hashed), "example") {
		t.Fatalf("not hashed: %s", hashed)
	}
	text := "# a comment\n\n" + string(hashed) + line("*.example.org,!bad.example.org", two) + line("[other.org]:7999", two) +
		"@revoked " + line("*", one)
	hosts, err := parseKnownHosts([]byte(strings.Replace(text, "@revoked "+line("*", one), "", 1)))
	must(t, err)
	for _, c := range []struct {
		address string
		key     ssh.PublicKey
		ok      bool
	}{
		{"hashed.example.org:22", one, true},
		{"HASHED.example.org:22", one, true},
		{"hashed.example.org:2222", one, true},
		{"hashed.example.org:23", one, false},
		{"x.example.org:22", two, true},
		{"x.example.org:22", one, false},
		{"bad.example.org:22", two, false},
		{"example.org:22", two, false},
		{"other.org:7999", two, true},
		{"other.org:22", two, false},
		{"other.org:7999", one, false},
	} {
		if err := hosts.check(c.address, c.key); (err == nil) != c.ok {
			t.Errorf("%s: %v, want ok %v", c.address, err, c.ok)
		}
	}
	hosts, err = parseKnownHosts([]byte(text))
	must(t, err)
	if err := hosts.check("hashed.example.org:22", one); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("revoked key: %v", err)
	}
	if _, err := parseKnownHosts([]byte("@cert-authority " + line("*", one))); err == nil {
		t.Error("a certificate authority is taken for a key")
	}
}
