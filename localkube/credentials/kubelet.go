package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// KubeletTLS is how the cluster's kubelets serve: with the certificate of the API server, as they answer at the same
// address, and to nobody but the API server.
func (s Set) KubeletTLS() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(s.ServingCertFile, s.ServingKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read serving certificate: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(s.KubeletClientIssuer) {
		return nil, errors.New("read issuer of kubelets' clients: no certificate in it")
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		ClientCAs:    clients,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}
