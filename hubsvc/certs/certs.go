// Package certs owns the certificates that a server shows, reloaded when their files change.
//
// It refuses to know who renews the files, and what is served with them. A handshake asks for the certificate; the first one
// after a while looks whether the files are others than those that were read, and reads them again if so. What cannot be used
// changes nothing: the last good certificate is shown on, and why is said once, in the log, and for as long as it lasts in
// [Pair.State].
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// every is how long the files are believed to be what they were: a flood of handshakes costs no more than one look.
const every = 2 * time.Second

// maxFile bounds what is read of one file, in bytes.
const maxFile = 1 << 20

// Options say where a certificate lies.
type Options struct {
	// Name is what the certificate is called in logs.
	Name string
	// Cert and Key are PEM files.
	Cert, Key string
	// Roots, if there are any, must have signed the certificate, for either side of a connection.
	Roots *x509.CertPool
	Now   func() time.Time
	Log   *slog.Logger
}

// Pair is a certificate with its key. It is safe for concurrent use.
type Pair struct {
	Options
	current atomic.Pointer[tls.Certificate]

	mu sync.Mutex // guards what follows
	// looked is when the files were looked at, and seen what they were when current was read.
	looked time.Time
	seen   [2]os.FileInfo
	// fault is why what they are now is not current.
	fault error
}

// Open reads the files, which have to be good at first.
func Open(o Options) (*Pair, error) {
	p := &Pair{Options: o}
	if _, err := p.read(); err != nil {
		return nil, err
	}
	p.looked = o.Now()
	return p, nil
}

// Server is the certificate for who connects: tls.Config.GetCertificate.
func (p *Pair) Server(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.newest(), nil }

// Client is the certificate for whom this process connects to: tls.Config.GetClientCertificate.
func (p *Pair) Client(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.newest(), nil }

// State is when the certificate that is shown ends, with why the files' own is not shown; nil when it is.
func (p *Pair) State() (ends time.Time, fault error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look()
	return p.current.Load().Leaf.NotAfter, p.fault
}

// newest looks at the files, unless somebody does so at this moment.
func (p *Pair) newest() *tls.Certificate {
	if p.mu.TryLock() {
		defer p.mu.Unlock()
		p.look()
	}
	return p.current.Load()
}

// look reads the files again if it is time to, and they have changed. The caller holds the mutex.
func (p *Pair) look() {
	now := p.Now()
	if since := now.Sub(p.looked); since >= 0 && since < every {
		return
	}
	p.looked = now
	changed, err := p.read()
	switch {
	case err != nil:
		if p.fault == nil || p.fault.Error() != err.Error() {
			p.Log.Error("renewed certificate cannot be used; the former one is shown on", "certificate", p.Name,
				"ends", p.current.Load().Leaf.NotAfter.UTC(), "error", err)
		}
	case changed, p.fault != nil:
		leaf := p.current.Load().Leaf
		p.Log.Info("certificate read again", "certificate", p.Name, "serial", fmt.Sprintf("%x", leaf.SerialNumber), "ends", leaf.NotAfter.UTC())
	}
	p.fault = err
}

// read takes the files in if they are others than those of the current certificate.
func (p *Pair) read() (changed bool, err error) {
	var now [2]os.FileInfo
	for i, file := range []string{p.Cert, p.Key} {
		if now[i], err = os.Stat(file); err != nil { // through links: a mounted Secret is changed by one
			return false, p.wrap(err)
		}
		if now[i].Size() > maxFile {
			return false, p.wrap(fmt.Errorf("%s is larger than %d bytes", file, maxFile))
		}
	}
	if same(now[0], p.seen[0]) && same(now[1], p.seen[1]) {
		return false, nil
	}
	pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	if err == nil && p.current.Load() != nil { // whoever starts with a bad one hears it from those who connect
		err = p.check(&pair)
	}
	if err != nil {
		return false, p.wrap(err)
	}
	p.current.Store(&pair)
	p.seen = now // as they were before they were read: what came in between is read the next time
	return true, nil
}

func same(a, b os.FileInfo) bool {
	return b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// check says whether others will take the certificate.
func (p *Pair) check(pair *tls.Certificate) error {
	now := p.Now()
	if now.Before(pair.Leaf.NotBefore) || now.After(pair.Leaf.NotAfter) {
		return fmt.Errorf("it is good from %s until %s", pair.Leaf.NotBefore.UTC().Format(time.RFC3339), pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if p.Roots == nil {
		return nil
	}
	between := x509.NewCertPool()
	for _, raw := range pair.Certificate[1:] {
		if cert, err := x509.ParseCertificate(raw); err == nil { // what is none signs nothing
			between.AddCert(cert)
		}
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		options := x509.VerifyOptions{Roots: p.Roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}
		if _, err := pair.Leaf.Verify(options); err != nil {
			return errors.New("it is not of the authority that the other replicas trust, or not for both sides of a connection")
		}
	}
	return nil
}

func (p *Pair) wrap(err error) error {
	return fmt.Errorf("read certificate %q with key %q: %w", p.Cert, p.Key, err)
}
