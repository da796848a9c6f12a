package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/pluralsh/plural/workspace/packages"
)

// address waits until an address answers as it should.
func (p *probe) address(ctx context.Context, want *packages.WaitHTTP) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: p.Trusted, MinVersion: tls.VersionTLS12}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport: transport, Timeout: each,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if want.Status == 0 { // then a redirect is on the way to an answer
		client.CheckRedirect = nil
	}
	for pause := first; ; pause = min(2*pause, longest) {
		seen, solution := ask(ctx, client, want)
		if seen == "" {
			return nil
		}
		if ctx.Err() == nil {
			p.say(want.URL + ": " + seen)
		}
		if ctx.Err() != nil || !again(ctx, pause) {
			return &TimeoutError{
				What: want.URL, Seen: cmp.Or(strings.TrimPrefix(p.seen, want.URL+": "), seen),
				After: p.limit, Solution: solution, Err: context.Cause(ctx),
			}
		}
	}
}

// ask asks once. Seen is why that was not enough, and empty when it was.
func ask(ctx context.Context, client *http.Client, want *packages.WaitHTTP) (seen, solution string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, want.URL, nil)
	if err != nil {
		return err.Error(), "correct the address in package.yaml"
	}
	response, err := client.Do(request)
	if err != nil {
		return failure(err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
	ok := response.StatusCode == want.Status || want.Status == 0 && response.StatusCode/100 == 2
	if ok {
		return "", ""
	}
	wanted := "any of 200 to 299"
	if want.Status != 0 {
		wanted = fmt.Sprint(want.Status)
	}
	return fmt.Sprintf("it answers %s, not %s", response.Status, wanted), "look at the log of what serves it"
}

// failure is a request without an answer, in words that do not repeat the address.
func failure(err error) (seen, solution string) {
	var name *net.DNSError
	var authority x509.UnknownAuthorityError
	var certificate *x509.CertificateInvalidError
	var host x509.HostnameError
	switch {
	case errors.As(err, &name):
		return "its name does not resolve here: " + name.Err, "see that the DNS record of " + name.Name + " is there: it may take minutes to spread"
	case errors.As(err, &authority), errors.As(err, &certificate), errors.As(err, &host):
		return "its certificate is not good: " + cause(err), "see that its certificate was issued: it may have one of its own until then"
	}
	return "it does not answer: " + cause(err), "see that what serves it runs, and that this machine has a way to it"
}

// cause is an error without the request that net/http puts before it.
func cause(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err.Error()
	}
	return err.Error()
}
