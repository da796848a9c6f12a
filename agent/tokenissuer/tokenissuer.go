// Package tokenissuer owns the reading of the public keys with which a cluster's service-account tokens are verified.
//
// The API server gives them to every service account, by the discovery of OpenID Connect. The package refuses to know who verifies
// tokens, and what a token lets anybody do.
package tokenissuer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/internal/poll"
)

const (
	// again lies between two readings: API servers change their keys once a year, if ever.
	again = time.Hour
	// retry is the first wait for an API server that does not answer.
	retry = 10 * time.Second
	// patience bounds one question to the API server.
	patience = 30 * time.Second
)

// Follower reads what the API server says, again and again.
type Follower struct {
	client rest.Interface
	each   func(*api.TokenIssuer)
	log    *slog.Logger
	// last is what was given to each, and warned the error that was logged.
	last   *api.TokenIssuer
	warned string
}

// New is a Follower of a cluster. What the API server says it gives to each, at first and whenever that is something else; nil: nothing
// to this agent. While the API server does not answer, what it said last stays.
func New(kube *rest.Config, each func(*api.TokenIssuer), log *slog.Logger) (*Follower, error) {
	asking := rest.CopyConfig(kube)
	asking.Timeout = patience
	client, err := discovery.NewDiscoveryClientForConfig(asking)
	if err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	return &Follower{client: client.RESTClient(), each: each, log: log}, nil
}

// Run ends with ctx.
func (f *Follower) Run(ctx context.Context) error {
	return poll.Loop{Interval: again, Jitter: 0.1, MinBackoff: retry, MaxBackoff: again}.Run(ctx, nil, f.look)
}

func (f *Follower) look(ctx context.Context) error {
	issuer, err := f.read(ctx)
	f.warn(ctx, err)
	if (err == nil || refused(err)) && !proto.Equal(issuer, f.last) {
		f.last = issuer
		f.each(issuer)
	}
	return err
}

// warn logs an error once.
func (f *Follower) warn(ctx context.Context, err error) {
	switch {
	case err == nil:
		f.warned = ""
	case err.Error() != f.warned && ctx.Err() == nil:
		f.warned = err.Error()
		f.log.Warn("cluster does not say how its service-account tokens are verified; pods cannot log in to the hub with them", "error", err)
	}
}

// refused says whether the API server keeps to itself what it is asked for: then what it said before counts no longer.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

func (f *Follower) read(ctx context.Context) (*api.TokenIssuer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := f.get(ctx, "/.well-known/openid-configuration")
	if err != nil {
		return nil, err
	}
	var about struct {
		Issuer string `json:"issuer"`
	}
	if err := json.Unmarshal(text, &about); err != nil || about.Issuer == "" || len(about.Issuer) > api.MaxIssuer {
		return nil, errors.New("read the issuer of service-account tokens: the API server's answer has none")
	}
	keys, err := f.get(ctx, "/openid/v1/jwks")
	if err != nil {
		return nil, err
	}
	if !json.Valid(keys) {
		return nil, errors.New("read the keys of service-account tokens: the API server's answer is no JSON")
	}
	return &api.TokenIssuer{Issuer: about.Issuer, Keys: keys}, nil
}

func (f *Follower) get(ctx context.Context, path string) ([]byte, error) {
	body, err := f.client.Get().AbsPath(path).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, api.MaxIssuerBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case len(text) > api.MaxIssuerBytes:
		return nil, fmt.Errorf("read %s: more than %d bytes", path, api.MaxIssuerBytes)
	}
	return text, nil
}
