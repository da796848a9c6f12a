package gitsource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/internal/httpclient"
)

// handshakeTimeout bounds the time from the first byte of a connection to the log-in.
const handshakeTimeout = 30 * time.Second

// shell is one SSH connection, made when it is first needed in a fetch.
type shell struct {
	address string
	command string
	config  *ssh.ClientConfig
	count   *httpclient.Counter
	keys    []string // names of the credentials
	// noLoopback refuses servers of this machine.
	noLoopback bool

	client *ssh.Client
	unbind func() bool
}

// newShell needs a private key and the host's keys: a host that is not known beforehand is never trusted.
func newShell(o Options, u *url.URL, count *httpclient.Counter, stall time.Duration) (*stream, error) {
	c := o.Credentials
	if len(c.SSHKey) == 0 || len(c.KnownHosts) == 0 {
		return nil, errors.New("ssh needs the credentials identity (a private key) and known_hosts " +
			"(the host's keys, as ssh-keyscan prints them)")
	}
	signer, err := parseKey(c)
	if err != nil {
		return nil, err
	}
	hosts, err := parseKnownHosts(c.KnownHosts)
	if err != nil {
		return nil, err
	}
	port, user := u.Port(), u.User.Username()
	if port == "" {
		port = "22"
	}
	if user == "" {
		user = "git"
	}
	s := &shell{
		address: net.JoinHostPort(u.Hostname(), port), command: command(u.Path), noLoopback: o.NoLoopback, count: count, keys: c.Keys(),
	}
	s.config = &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, ClientVersion: "SSH-2.0-plural",
		HostKeyCallback:   func(_ string, _ net.Addr, key ssh.PublicKey) error { return hosts.check(s.address, key) },
		HostKeyAlgorithms: hosts.algorithms(s.address),
	}
	if len(s.config.HostKeyAlgorithms) == 0 {
		return nil, fmt.Errorf("known_hosts has no key for %s: add what ssh-keyscan prints for it, "+
			"once compared with what the host publishes", s.address)
	}
	return &stream{start: s.start, close: s.close, count: count, stall: stall}, nil
}

func parseKey(c httpclient.Credentials) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(c.SSHKey)
	if missing := new(ssh.PassphraseMissingError); errors.As(err, &missing) && c.Password != "" {
		signer, err = ssh.ParsePrivateKeyWithPassphrase(c.SSHKey, []byte(c.Password))
	}
	if err != nil {
		return nil, fmt.Errorf("credential identity is no private SSH key that can be used: %w", err)
	}
	return signer, nil
}

// command quotes the path for the far end's shell. A path below a home folder is written /~user/path.
func command(path string) string {
	if strings.HasPrefix(path, "/~") {
		path = path[1:]
	}
	return service + " '" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

func (s *shell) start(ctx context.Context, version int) (*process, error) {
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	session, err := s.client.NewSession()
	if err != nil {
		return nil, fmt.Errorf("open ssh session: %w", err)
	}
	if version > 0 {
		// Servers that do not take it speak the old protocol, which is understood too.
		_ = session.Setenv("GIT_PROTOCOL", fmt.Sprintf("version=%d", version))
	}
	complaint := &tail{}
	session.Stderr = complaint
	in, err := session.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	if err := session.Start(s.command); err != nil {
		return nil, errors.Join(fmt.Errorf("run %s over ssh: %w", service, err), session.Close())
	}
	ended := sync.OnceValue(func() error { return complaint.explain(session.Wait()) })
	return &process{in: in, out: out, ended: ended, kill: func() { _ = session.Close() }}, nil
}

func (s *shell) connect(ctx context.Context) error {
	if s.client != nil {
		return nil
	}
	conn, err := httpclient.Dial(ctx, s.address, s.noLoopback, s.count)
	if err != nil {
		return err
	}
	unbind := context.AfterFunc(ctx, func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout)) // a connection that cannot have one fails below
	c, channels, requests, err := ssh.NewClientConn(conn, s.address, s.config)
	if err != nil {
		unbind()
		return errors.Join(s.explain(err), conn.Close())
	}
	_ = conn.SetDeadline(time.Time{}) // as above
	s.client, s.unbind = ssh.NewClient(c, channels, requests), unbind
	return nil
}

// explain says which of the two sides refused the other.
func (s *shell) explain(err error) error {
	changed := new(HostKeyError)
	switch {
	case errors.As(err, &changed):
		return changed
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("%s does not accept the credentials given (%s): "+
			"is the key's public half still on the host's list of deploy keys?", s.address, strings.Join(s.keys, ", "))
	}
	return fmt.Errorf("ssh to %s: %w", s.address, err)
}

func (s *shell) close() {
	if s.client == nil {
		return
	}
	s.unbind()
	_ = s.client.Close() // the far end may have hung up
	s.client = nil
}
