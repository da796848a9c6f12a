package publish

import (
	"context"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/pluralsh/plural/tools/release/images"
)

// ErrMoved means that a tag names something else: releases are never replaced.
var ErrMoved = errors.New("the tag is there and names something else")

// Open opens a repository, such as ghcr.io/pluralsh/plural, with the credentials that docker keeps. What fails for a while, or is too
// much at once, is asked again.
func Open(repository string, plainHTTP bool) (*remote.Repository, error) {
	repo, err := remote.NewRepository(repository)
	if err != nil {
		return nil, fmt.Errorf("repository %q: %w", repository, err)
	}
	kept, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("docker's credentials: %w", err)
	}
	repo.PlainHTTP = plainHTTP
	// Registries that know no referrers keep their list under a tag. Many of them let nobody delete the list before.
	repo.SkipReferrersGC = true
	repo.Client = &auth.Client{
		Client: retry.DefaultClient, Cache: auth.NewCache(), Credential: credentials.Credential(kept), ClientID: "plural-release",
	}
	return repo, nil
}

// Push brings what a tag of a layout names to a repository, with all that is attached to it. What is there already is not sent again, so
// that a push that was broken off goes on where it was. The tag comes last: who pulls gets all or nothing.
func Push(ctx context.Context, layout *oci.Store, tag string, to *remote.Repository) (ocispec.Descriptor, error) {
	node, err := layout.Resolve(ctx, tag)
	if err != nil {
		return node, fmt.Errorf("tag %s of the layout: %w", tag, err)
	}
	if err := free(ctx, to, tag, node); err != nil {
		return node, err
	}
	parts := []ocispec.Descriptor{node}
	if node.MediaType == ocispec.MediaTypeImageIndex {
		manifests, err := images.Manifests(ctx, layout, node)
		if err != nil {
			return node, err
		}
		parts = append(parts, manifests...)
	}
	for _, part := range parts { // with what refers to it
		if err := oras.ExtendedCopyGraph(ctx, layout, to, part, oras.DefaultExtendedCopyGraphOptions); err != nil {
			return node, fmt.Errorf("push %s: %w", part.Digest, err)
		}
	}
	if err := free(ctx, to, tag, node); err != nil {
		return node, err
	}
	if err := to.Tag(ctx, node, tag); err != nil {
		return node, fmt.Errorf("tag %s: %w", tag, err)
	}
	return node, nil
}

// free says whether a tag is not there, or is what it is going to be.
func free(ctx context.Context, repo *remote.Repository, tag string, want ocispec.Descriptor) error {
	d, err := repo.Resolve(ctx, tag)
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("tag %s: %w", tag, err)
	case d.Digest != want.Digest:
		return fmt.Errorf("%w: %s:%s is %s, and this release's is %s", ErrMoved, repo.Reference.Repository, tag, d.Digest, want.Digest)
	}
	return nil
}
