package ocirepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/archive"
)

// Repository is one repository of a registry. What it remembers saves requests only. It is safe for concurrent use.
type Repository struct {
	options Options
	repo    *remote.Repository
	// shown are the credentials that a refusal may be about.
	shown   httpclient.Credentials
	counter *httpclient.Counter
	// mu guards verified, the digests that Options.Verify has let pass.
	mu       sync.Mutex
	verified map[string]bool
}

// Open makes a Repository. It asks the server nothing yet.
func Open(o Options) (*Repository, error) {
	ref, err := parseURL(o.URL, o.PlainHTTP)
	if err != nil {
		return nil, fmt.Errorf("OCI repository: %w", err)
	}
	r := &Repository{options: o, shown: o.Credentials, counter: &httpclient.Counter{}, verified: map[string]bool{}}
	r.shown.CA = nil
	credential, err := credentialFor(ref, o.Credentials)
	if err != nil {
		return nil, fmt.Errorf("OCI repository %s: %w", o.URL, err)
	}
	// The registry's protocol decides when which form of the credentials is shown, so the client below has none.
	client, err := httpclient.Client(httpclient.Options{
		Credentials: httpclient.Credentials{CA: o.Credentials.CA}, Counter: r.counter, NoLoopback: o.NoLoopback, OtherHosts: true,
		MaxBytes: archive.DefaultLimits().Packed + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("OCI repository %s: %w", o.URL, err)
	}
	r.repo = &remote.Repository{
		Reference: ref, PlainHTTP: o.PlainHTTP,
		Client:          &auth.Client{Client: client, Cache: auth.NewCache(), Credential: credential, ClientID: "plural"},
		TagListPageSize: tagPage, TagListMaxPages: tagPages, ReferrerListMaxPages: 4, MaxMetadataBytes: maxManifest,
	}
	return r, nil
}

// parseURL takes oci://HOST/PATH.
func parseURL(raw string, plainHTTP bool) (registry.Reference, error) {
	full, err := httpclient.ParseURL(raw, "oci")
	if err != nil {
		return registry.Reference{}, err
	}
	ref := registry.Reference{Registry: full.Host, Repository: strings.Trim(full.Path, "/")}
	switch {
	case full.User != nil:
		return ref, fmt.Errorf("URL %q: credentials do not belong into it", httpclient.Redact(raw))
	case strings.ContainsAny(ref.Repository, ":@"):
		return ref, fmt.Errorf("URL %q: the tag or digest belongs into the ref, not into the URL", raw)
	case full.RawQuery != "" || full.Fragment != "" || ref.ValidateRegistry() != nil || ref.ValidateRepository() != nil:
		return ref, fmt.Errorf("URL %q: write oci://HOST/PATH, in lower case", raw)
	case plainHTTP && !httpclient.Loopback(full.Hostname()):
		return ref, fmt.Errorf("URL %q: HTTP without TLS is for this machine only", raw)
	}
	return ref, nil
}

// Tags lists all tags.
func (r *Repository) Tags(ctx context.Context) ([]string, error) {
	tags, err := r.list(ctx)
	return tags, r.fit(err)
}

func (r *Repository) list(ctx context.Context) ([]string, error) {
	tags := []string{}
	err := r.repo.Tags(ctx, "", func(page []string) error {
		if tags = append(tags, page...); len(tags) > maxTags {
			return fmt.Errorf("the registry lists more than %d tags: name one of them", maxTags)
		}
		return nil
	})
	return tags, err
}

// ErrNotFound means that the registry has no such tag or digest.
var ErrNotFound = errors.New("the registry does not have it")

// Resolve asks what a tag or digest names. The error is ErrNotFound when it names nothing.
func (r *Repository) Resolve(ctx context.Context, ref string) (ocispec.Descriptor, error) {
	d, err := r.repo.Resolve(ctx, ref)
	if errors.Is(err, errdef.ErrNotFound) {
		return d, ErrNotFound
	}
	if err != nil {
		return d, r.fit(err)
	}
	return d, checkDescriptor(d, maxManifest)
}

// PushBlob puts a blob into the repository, unless it is there.
func (r *Repository) PushBlob(ctx context.Context, d ocispec.Descriptor, data []byte) error {
	there, err := r.repo.Blobs().Exists(ctx, d)
	if err == nil && !there {
		err = r.repo.Blobs().Push(ctx, d, bytes.NewReader(data))
	}
	return r.fit(err)
}

// PushManifest puts a manifest into the repository under a tag.
func (r *Repository) PushManifest(ctx context.Context, d ocispec.Descriptor, data []byte, tag string) error {
	return r.fit(r.repo.Manifests().PushReference(ctx, d, bytes.NewReader(data), tag))
}

// fit makes an error fit for people.
func (r *Repository) fit(err error) error { return r.clean(r.readable(err)) }

// clean keeps secrets out of what a library made of a URL.
func (r *Repository) clean(err error) error {
	return httpclient.RedactError(err, nil, r.options.Credentials)
}
