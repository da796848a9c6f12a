package stage

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Remote is a hub that somebody else runs.
type Remote struct {
	url, token string
	client     *http.Client
}

// NewRemote is the hub at url, trusted by the PEM certificates in ca, or by the system's when there are none. The token is
// one that may read the hub's figures and give it hints.
func NewRemote(url, token string, ca []byte) (*Remote, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS13}
	if len(ca) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("the hub's CA holds no PEM certificate")
		}
	}
	transport := &http.Transport{TLSClientConfig: trust, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	return &Remote{strings.TrimRight(url, "/"), token, &http.Client{Timeout: 10 * time.Second, Transport: transport}}, nil
}

// Ready says whether the hub has a fleet to serve; the error is why not.
func (r *Remote) Ready(ctx context.Context) error {
	_, err := r.ask(ctx, http.MethodGet, "/readyz")
	return err
}

// Hint tells the hub that somebody pushed.
func (r *Remote) Hint(ctx context.Context) error {
	_, err := r.ask(ctx, http.MethodPost, "/hooks/git")
	return err
}

// Usage is what the hub says of itself in its metrics; it does not know its Peak.
func (r *Remote) Usage(ctx context.Context) (Usage, error) {
	var u Usage
	text, err := r.ask(ctx, http.MethodGet, "/metrics")
	if err != nil {
		return u, fmt.Errorf("measure the hub: %w", err)
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a comment, or a figure of another kind
		}
		switch name {
		case "process_cpu_seconds_total":
			u.CPU = time.Duration(number * float64(time.Second))
		case "process_resident_memory_bytes":
			u.RSS = int64(number)
		}
	}
	return u, nil
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 4 << 20

func (r *Remote) ask(ctx context.Context, method, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, nil)
	if err != nil {
		return "", err
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: the hub answered %s", method, path, response.Status)
	}
	return string(text), err
}
