package catalog

import (
	"context"
	"errors"
	"io/fs"

	"github.com/pluralsh/plural/crypto/signed"
	"github.com/pluralsh/plural/workspace/outbound"
)

// OCIOptions name one repository of a registry.
type OCIOptions struct {
	// URL is oci://HOST/PATH, without a tag.
	URL string
	// Credentials are shown to the URL's own host, and to the server that it names for log-ins.
	Credentials outbound.Credentials
	// PlainHTTP speaks HTTP without TLS, on this machine only.
	PlainHTTP bool
	// Verify is asked before a package is opened; nil asks nobody.
	Verify signed.Image
}

// PublishOptions say where a package is published, and who signs it.
type PublishOptions struct {
	OCIOptions
	// Key is a private key in PEM (Ed25519, or ECDSA on P-256 or P-384) that signs the package; empty signs nothing. Password
	// opens it when it is locked as cosign does.
	Key      []byte
	Password []byte
	// Force replaces a version that is there with other content.
	Force bool
}

// Published is what a package became in a registry.
type Published struct {
	// Tag and Manifest name the artifact; Digest is that of packages.Digest.
	Tag, Manifest, Digest string
	// Existed says that the registry had the very same already.
	Existed bool
}

// Publish puts the package in files into a repository, under the tag NAME_VERSION. The same files give the same manifest on
// every machine. Of a version that is there with other content the error is an *ExistsError.
func Publish(ctx context.Context, files fs.FS, o PublishOptions) (*Published, error) {
	return nil, errors.ErrUnsupported
}
