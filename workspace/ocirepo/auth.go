package ocirepo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/pluralsh/plural/internal/httpclient"
)

// credentialFor gives the credentials for the repository's own host, and for no other.
func credentialFor(ref registry.Reference, c httpclient.Credentials) (auth.CredentialFunc, error) {
	own := auth.Credential{Username: c.Username, Password: c.Password, AccessToken: c.Bearer}
	if own == auth.EmptyCredential && len(c.DockerConfig) > 0 {
		var err error
		if own, err = fromDockerConfig(ref, c.DockerConfig); err != nil {
			return nil, err
		}
	}
	return func(_ context.Context, hostport string) (auth.Credential, error) {
		if hostport == ref.Host() {
			return own, nil
		}
		return auth.EmptyCredential, nil
	}, nil
}

func fromDockerConfig(ref registry.Reference, config []byte) (auth.Credential, error) {
	store, err := credentials.NewMemoryStoreFromDockerConfig(config)
	if err != nil { // not its text, which may quote the file
		return auth.EmptyCredential, errors.New("credentials: .dockerconfigjson is not what a registry log-in writes")
	}
	names := []string{ref.Registry}
	if ref.Registry == "docker.io" {
		names = append(names, "index.docker.io", "registry-1.docker.io")
	}
	for _, name := range names {
		if own, err := store.Get(context.Background(), name); err == nil && own != auth.EmptyCredential {
			return own, nil
		}
	}
	return auth.EmptyCredential, fmt.Errorf("credentials: .dockerconfigjson has none for %s", ref.Registry)
}

// readable says what a library means without the URLs that it asked, which may let others in, and with a fix.
func (r *Repository) readable(err error) error {
	var response *errcode.ErrorResponse
	var wrapped *url.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errdef.ErrNotFound):
		return &httpclient.StatusError{Code: http.StatusNotFound, Host: r.repo.Reference.Registry, Keys: r.shown.Keys()}
	case errors.As(err, &response):
		status := &httpclient.StatusError{Code: response.StatusCode, Host: response.URL.Host, Keys: r.shown.Keys()}
		if len(response.Errors) > 0 {
			return fmt.Errorf("%w (%.60q)", status, response.Errors[0].Code)
		}
		return status
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return &httpclient.StatusError{Code: http.StatusUnauthorized, Host: r.repo.Reference.Registry, Keys: r.shown.Keys()}
	case errors.As(err, &wrapped):
		return fmt.Errorf("ask %s: %w", r.repo.Reference.Registry, wrapped.Err)
	}
	return err
}
