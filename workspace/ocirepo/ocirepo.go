// Package ocirepo owns the reading of OCI repositories: charts and other artifacts in a registry.
//
// It refuses to know what an artifact's files mean and who is trusted to sign one: a [signed.Image] says that. A ref is
// a tag, a range of versions over the tags, a digest ("sha256:..."), or empty for the newest version that is no
// pre-release, and "latest" where no tag is a version.
//
// A fetch asks what the ref's tag names, which is one HEAD while that stays as it was. Else the manifest and the one
// layer that holds an archive are brought, each held against its digest and size, and the files become one commit in
// the mirror: the same on every machine, since nothing but the repository's name, the digest and the files goes into it.
//
// A tag that has moved is followed, and when it is a version's the tip says so. A version that is gone is never
// followed down to an older one: going back is for people to ask for, by name.
package ocirepo

import (
	"context"
	"fmt"
	"strings"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/pluralsh/plural/crypto/signed"
	"github.com/pluralsh/plural/workspace/archive"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/outbound"
)

// Options name one repository.
type Options struct {
	// URL is oci://HOST/PATH, without a tag.
	URL string
	// Credentials are shown to the URL's own host, and to the server that it names for log-ins.
	Credentials outbound.Credentials
	// PlainHTTP speaks HTTP without TLS, on this machine only.
	PlainHTTP bool
	// Verify is asked before an artifact is taken in, and once more when an Upstream is made anew; nil asks nobody.
	Verify signed.Image
}

// upstream is one repository; what it remembers saves requests only.
type upstream struct {
	options Options
	repo    *remote.Repository
	// shown are the credentials that a refusal may be about.
	shown   outbound.Credentials
	counter *outbound.Counter
	// verified holds the digests that Verify has let pass.
	verified map[string]bool
}

// New makes an Upstream of a repository. It asks the server nothing yet.
func New(o Options) (mirror.Upstream, error) {
	ref, err := parseURL(o.URL, o.PlainHTTP)
	if err != nil {
		return nil, fmt.Errorf("OCI repository: %w", err)
	}
	u := &upstream{options: o, shown: o.Credentials, counter: &outbound.Counter{}, verified: map[string]bool{}}
	u.shown.CA = nil
	credential, err := credentialFor(ref, o.Credentials)
	if err != nil {
		return nil, fmt.Errorf("OCI repository %s: %w", o.URL, err)
	}
	// The registry's protocol decides when which form of the credentials is shown, so the client below has none.
	client, err := outbound.Client(outbound.Options{
		Credentials: outbound.Credentials{CA: o.Credentials.CA}, Counter: u.counter, OtherHosts: true,
		MaxBytes: archive.DefaultLimits().Packed + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("OCI repository %s: %w", o.URL, err)
	}
	u.repo = &remote.Repository{
		Reference: ref, PlainHTTP: o.PlainHTTP,
		Client:          &auth.Client{Client: client, Cache: auth.NewCache(), Credential: credential, ClientID: "plural"},
		TagListPageSize: tagPage, TagListMaxPages: tagPages, ReferrerListMaxPages: 4, MaxMetadataBytes: maxManifest,
	}
	return u, nil
}

// parseURL takes oci://HOST/PATH.
func parseURL(raw string, plainHTTP bool) (registry.Reference, error) {
	full, err := outbound.ParseURL(raw, "oci")
	if err != nil {
		return registry.Reference{}, err
	}
	ref := registry.Reference{Registry: full.Host, Repository: strings.Trim(full.Path, "/")}
	switch {
	case full.User != nil:
		return ref, fmt.Errorf("URL %q: credentials do not belong into it", outbound.Redact(raw))
	case strings.ContainsAny(ref.Repository, ":@"):
		return ref, fmt.Errorf("URL %q: the tag or digest belongs into the ref, not into the URL", raw)
	case full.RawQuery != "" || full.Fragment != "" || ref.ValidateRegistry() != nil || ref.ValidateRepository() != nil:
		return ref, fmt.Errorf("URL %q: write oci://HOST/PATH, in lower case", raw)
	case plainHTTP && !outbound.Loopback(full.Hostname()):
		return ref, fmt.Errorf("URL %q: HTTP without TLS is for this machine only", raw)
	}
	return ref, nil
}

// Traffic implements mirror.Upstream.
func (u *upstream) Traffic() mirror.Traffic {
	requests, bytes := u.counter.Totals()
	return mirror.Traffic{Requests: requests, Bytes: bytes}
}

// Fetch implements mirror.Upstream.
func (u *upstream) Fetch(ctx context.Context, refs []string, into mirror.Receiver) (mirror.Answer, error) {
	answer := mirror.Answer{Tips: map[string]mirror.Tip{}}
	f := &fetch{upstream: u, into: into, made: map[string]string{}}
	for _, ref := range refs {
		tip, err := f.tip(ctx, ref, into.Tip(ref))
		if ctx.Err() != nil {
			return mirror.Answer{}, context.Cause(ctx)
		}
		if err != nil {
			answer.Problems = append(answer.Problems, &mirror.RefError{Ref: ref, Err: u.clean(err)})
			continue
		}
		answer.Tips[ref] = tip
	}
	if f.silent != nil && !f.answered {
		return mirror.Answer{}, u.clean(f.silent)
	}
	return answer, nil
}

// clean keeps secrets out of what a library made of a URL.
func (u *upstream) clean(err error) error {
	return outbound.RedactError(err, nil, u.options.Credentials)
}
