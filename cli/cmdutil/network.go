package cmdutil

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/pluralsh/plural/cli/ui"
)

// network is about an address that could not be reached, whoever asked for it: a registry, a git host, an API server, a proxy.
func network(err error) *ui.Err {
	cause, fix := unreached(err)
	if fix == "" {
		return nil
	}
	place := "the network"
	var asked *url.Error
	if errors.As(err, &asked) {
		if u, bad := url.Parse(asked.URL); bad == nil && u.Host != "" {
			place = u.Host
		}
	}
	return &ui.Err{Msg: "cannot reach " + place + ": " + cause, Cause: err.Error(), Fix: fix, Doc: ui.DocNetwork, Err: err}
}

const nothingListens = "nothing listens there"

// unreached is why no answer came, in a word, and what to do about it; empty where it is not the network's fault.
func unreached(err error) (cause, fix string) {
	var (
		name    *net.DNSError
		op      *net.OpError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		verify  *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		late    net.Error
	)
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect", strings.Contains(err.Error(), "proxyconnect"):
		return "the proxy does not answer", "see that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name a proxy that runs; NO_PROXY=HOST goes without it"
	case errors.As(err, &name):
		return "nobody knows the name " + name.Name,
			"see that the address is written right, and that this machine resolves names: getent hosts " + name.Name
	case errors.As(err, &unknown):
		return "its certificate is of an authority that this machine does not trust",
			"name the authority's certificate: PLURAL_CA_FILE=FILE for a hub, SSL_CERT_FILE=FILE for all"
	case errors.As(err, &host):
		return "its certificate is for another name", "use the name that the certificate has, or have one made for this name"
	case errors.As(err, &invalid), errors.As(err, &verify):
		return "its certificate is not good", "see that the clock of this machine is right, and have the certificate renewed"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS there", "see whether the address is to begin with http:// and which port it has"
	case errors.Is(err, syscall.ECONNREFUSED):
		return nothingListens, "see that it runs, and that host and port are right"
	case errors.Is(err, syscall.ECONNRESET):
		return "the connection was cut", "try again; where it stays so, see what stands between: a firewall, a proxy"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way there", "see that this machine has a network, and a VPN where it takes one"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return "no answer came in time", "try again; where it stays so, see what stands between: a firewall, a proxy, a VPN"
	}
	return "", ""
}
