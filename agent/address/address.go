// Package address owns the addresses at which an agent reaches its hub.
//
// It refuses to know what is said there.
package address

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
)

// Parse reads a hub's URL: https, or http for a hub on this machine. Its errors repeat no credential.
func Parse(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err == nil && u.User != nil {
		return nil, fmt.Errorf("hub URL of %s: it carries a credential, which is not needed", u.Host)
	}
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("hub URL %q: want https://HOST", raw)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, fmt.Errorf("hub URL %q: an agent speaks https to its hub; http is for a hub on this machine alone", raw)
	}
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Trust is how a hub is known: by certificates of the PEM ones in ca, or of the system's when that is empty.
func Trust(ca []byte) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if len(ca) == 0 {
		return config, nil
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(ca) {
		return nil, errors.New("hub CA holds no PEM certificate")
	}
	return config, nil
}
