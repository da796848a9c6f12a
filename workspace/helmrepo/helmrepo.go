// Package helmrepo owns reading Helm repositories.
//
// It refuses to know what a chart means and who is trusted to sign one: a [Check] is given. A ref is CHART@RANGE, where
// the range is an exact version, a range of versions, or empty for the newest that is no pre-release.
//
// A fetch asks for the index, with the validators of the last one, so that an unchanged repository costs one request
// and no bytes. Each ref then names a version, and the version an archive, whose SHA-256 must be the one in the index.
// What is in the archive becomes one commit in the mirror: the same on every machine, since nothing but the chart's
// name, version, digest and files goes into it.
//
// A version that is published again with other content is followed, and the tip says so. A version that is gone is
// never followed down to an older one: going back is for people to ask for, by name.
package helmrepo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/versions"
)

// Options name one repository.
type Options struct {
	// URL is where index.yaml stands, without its name; http is for this machine only.
	URL string
	// Credentials are shown to the URL's own host only.
	Credentials httpclient.Credentials
	// NoLoopback refuses servers of this machine.
	NoLoopback bool
	// Check is asked before a chart is taken in, and once more when an Upstream is made anew; nil asks nobody.
	Check Check
}

// Check says whether a chart's archive may be used.
type Check func(ctx context.Context, c Chart) error

// Chart is what a Check has to judge.
type Chart struct {
	Name, Version string
	// Digest is "sha256:" and 64 hex digits, of the archive as it was received.
	Digest string
	// Provenance is the .prov file beside the archive; nil when there is none.
	Provenance []byte
}

// upstream is one repository; what it remembers saves requests only.
type upstream struct {
	options Options
	// base is the URL with a slash at its end and nobody's name in it.
	base   *url.URL
	client *http.Client
	// shown are the credentials that a refusal may be about.
	shown   httpclient.Credentials
	counter *httpclient.Counter
	index   index
	// checked holds the charts that Check has let pass, by name, version and digest.
	checked map[string]bool
}

// New makes an Upstream of a repository. It asks the server nothing yet.
func New(o Options) (mirror.Upstream, error) {
	full, err := httpclient.ParseURL(o.URL, "https", "http")
	if err != nil {
		return nil, fmt.Errorf("helm repository: %w", err)
	}
	u := &upstream{options: o, shown: o.Credentials, counter: &httpclient.Counter{}, checked: map[string]bool{}}
	u.client, err = httpclient.Client(httpclient.Options{
		For: full, Credentials: o.Credentials, MaxBytes: maxIndex, Counter: u.counter, NoLoopback: o.NoLoopback, OtherHosts: true,
	})
	if err != nil {
		return nil, fmt.Errorf("helm repository %s: %w", httpclient.Redact(o.URL), err)
	}
	u.shown.CA = nil
	base := *full
	base.User, base.Fragment, base.RawPath = nil, "", ""
	base.Path = strings.TrimSuffix(base.Path, "/") + "/"
	u.base = &base
	return u, nil
}

// Traffic implements mirror.Upstream.
func (u *upstream) Traffic() mirror.Traffic {
	requests, bytes := u.counter.Totals()
	return mirror.Traffic{Requests: requests, Bytes: bytes}
}

// Fetch implements mirror.Upstream.
func (u *upstream) Fetch(ctx context.Context, refs []string, into mirror.Receiver) (mirror.Answer, error) {
	answer := mirror.Answer{Tips: map[string]mirror.Tip{}}
	fail := func(ref string, err error) {
		answer.Problems = append(answer.Problems, &mirror.RefError{Ref: ref, Err: u.clean(err)})
	}
	wanted := map[string]chartRef{}
	charts := map[string]bool{}
	for _, ref := range refs {
		c, err := parseRef(ref)
		if err != nil {
			fail(ref, err)
			continue
		}
		wanted[ref] = c
		charts[c.chart] = true
	}
	if len(charts) == 0 {
		return answer, nil
	}
	if err := u.refresh(ctx, charts); err != nil {
		return mirror.Answer{}, u.clean(err)
	}
	f := &fetch{upstream: u, into: into, made: map[string]string{}}
	for _, ref := range refs {
		c, ok := wanted[ref]
		if !ok {
			continue
		}
		tip, err := f.tip(ctx, c, into.Tip(ref))
		if ctx.Err() != nil {
			return mirror.Answer{}, context.Cause(ctx)
		}
		if err != nil {
			fail(ref, err)
			continue
		}
		answer.Tips[ref] = tip
	}
	return answer, nil
}

// clean keeps secrets out of what a library made of a URL.
func (u *upstream) clean(err error) error {
	full, parseErr := url.Parse(u.options.URL)
	if parseErr != nil {
		full = nil
	}
	return httpclient.RedactError(err, full, u.options.Credentials)
}

// chartRef is a ref, taken apart.
type chartRef struct {
	chart string
	want  versions.Range
}

func parseRef(ref string) (chartRef, error) {
	name, text, _ := strings.Cut(ref, "@")
	if name == "" || len(name) > 250 || strings.Contains(name, "/") || strings.ContainsFunc(name, notInName) {
		return chartRef{}, errors.New("not a chart of a Helm repository: write CHART@RANGE, such as podinfo@^6.7")
	}
	want, err := versions.ParseRange(text)
	return chartRef{name, want}, err
}
