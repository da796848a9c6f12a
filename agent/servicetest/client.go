package servicetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/kinds"
)

// maxAnswer is the longest answer of the API server that is read, in bytes.
const maxAnswer = 32 << 20

// client talks to the API server as somebody.
type client struct {
	// api is the API server's URL, without a slash at the end.
	api     string
	http    *http.Client
	objects dynamic.Interface
}

// as talks as the service account NAMESPACE/NAME, or as the agent itself when account is empty. The connections are the same.
func (r *Runner) as(account string) (*client, error) {
	config, err := r.configAs(account)
	if err != nil {
		return nil, err
	}
	config.Timeout = 0 // each try has its own
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the API server's URL: %w", err)
	}
	talk, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	// A redirect through the service proxy is the Service's, and would take the credentials along.
	talk.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	objects, err := dynamic.NewForConfigAndClient(config, talk)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &client{api: strings.TrimSuffix(base.String(), "/"), http: talk, objects: objects}, nil
}

// configAs is a copy of the agent's own, for the service account NAMESPACE/NAME unless that is empty.
func (r *Runner) configAs(account string) (*rest.Config, error) {
	config := rest.CopyConfig(r.config)
	if account != "" {
		namespace, name, ok := strings.Cut(account, "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			return nil, wrong("service account %q: want it as NAMESPACE/NAME", account)
		}
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + name}
	}
	return config, nil
}

// resource finds where a kind is served. An empty version is the one that the API server prefers.
func (a attempt) resource(ctx context.Context, kind schema.GroupVersionKind) (kinds.Resource, error) {
	known, err := a.kinds.With(ctx, nil)
	if err != nil {
		return kinds.Resource{}, err
	}
	if found, ok := known.Find(kind); ok {
		return found, nil
	}
	if known, err = a.kinds.With(ctx, []schema.GroupVersionKind{kind}); err != nil {
		return kinds.Resource{}, err
	}
	if found, ok := known.Find(kind); ok {
		return found, nil
	}
	return kinds.Resource{}, fmt.Errorf("the cluster does not serve kind %s", kind.GroupKind())
}

// bounded ends answers that are too long with an error.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &boundedBody{response.Body, maxAnswer}
	return response, nil
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// errLong is an answer that is not read to its end.
var errLong = errors.New("the answer has more than 32 MiB")

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
