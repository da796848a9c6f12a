package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Diff is what applying a service's newest deployment would change in a cluster now.
func (c *Client) Diff(ctx context.Context, cluster, service string) (*v1.Diff, error) {
	return get[v1.Diff](ctx, c, servicePath(cluster, service)+"/diff", nil)
}

// Watching is told of a service's objects. All functions but Connected have to be set; an error of one ends the watch.
type Watching struct {
	// Fresh says that what was told before is to be forgotten: all that there is comes anew.
	Fresh func() error
	// Changed is told what there is, and then what is new.
	Changed func(v1.ObjectChanges) error
	// Ready says that all has been told that there was when the stream began.
	Ready func() error
	// Connected, if set, is told each time that the stream is there, with nil, or broken, with why.
	Connected func(error)
}

// Events of a stream of objects.
const (
	objectsChanged v1.ChangeKind = "objects"
	objectsReady   v1.ChangeKind = "ready"
)

// WatchObjects follows a service's objects on a cluster, with all that hangs below them, until ctx ends or one of w's functions
// returns an error, which it returns. A stream that breaks, or that the hub ends, is begun again. What the hub refuses is an
// *Error.
func (c *Client) WatchObjects(ctx context.Context, cluster, service string, w Watching) error {
	if w.Connected == nil {
		w.Connected = func(error) {}
	}
	path := servicePath(cluster, service) + "/objects?watch=1"
	return again(ctx, w.Connected, func() (came bool, err error) {
		err = c.events(ctx, path, func() { w.Connected(nil) }, func(stream io.Reader, beat func()) error {
			if err := w.Fresh(); err != nil {
				return &stopped{err}
			}
			return new(Following).read(stream, beat, func(e v1.StreamEvent) error {
				came = true
				return w.take(e)
			})
		})
		var stop *stopped
		var over *ended
		if errors.As(err, &stop) && errors.As(stop.err, &over) {
			err = over // it is the hub's end, not w's
		}
		return came, err
	})
}

// ended is a stream that the hub ended.
type ended struct{ why v1.Error }

// Error is why.
func (e *ended) Error() string { return cmp.Or(e.why.Message, "the hub ended the stream") }

// take takes one event in. Of kinds that are newer than this program, nothing is to be said.
func (w *Watching) take(e v1.StreamEvent) error {
	switch e.Kind {
	case objectsChanged:
		var changes v1.ObjectChanges
		if err := json.Unmarshal(e.Data, &changes); err != nil {
			return fmt.Errorf("read what the hub says of objects: %w", err)
		}
		return w.Changed(changes)
	case objectsReady:
		return w.Ready()
	case v1.Reset:
		over := new(ended)
		_ = json.Unmarshal(e.Data, &over.why) // what cannot be read says nothing
		return over
	}
	return nil
}

// maxLive bounds one answer of a cluster's API, in bytes: API servers keep no object that is larger than 3 MB or so, and lists are
// asked for in pages.
const maxLive = 8 << 20

// Kube is what a cluster's API server answers to a GET of a path, in the form that accept names. The token is one for that cluster.
func (c *Client) Kube(ctx context.Context, cluster string, token v1.KubeToken, path, accept string) ([]byte, error) {
	asked := &Client{base: c.base, userAgent: c.userAgent, http: c.http}
	asked.As(token.Token)
	target := c.base.String() + "/k8s/" + url.PathEscape(cluster) + path
	resp, err := asked.send(ctx, http.MethodGet, target, accept, nil, c.http)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxLive+1))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if len(body) > maxLive {
		return nil, fmt.Errorf("read %s of cluster %s: it is larger than %d bytes", path, cluster, maxLive)
	}
	return body, nil
}

// ObjectPath is where an object is at its API server; without a name, where all of its kind are.
func ObjectPath(at v1.ObjectRef) string {
	path := "/api"
	if at.Group != "" {
		path = "/apis/" + url.PathEscape(at.Group)
	}
	path += "/" + url.PathEscape(cmp.Or(at.Version, "v1"))
	if at.Namespace != "" {
		path += "/namespaces/" + url.PathEscape(at.Namespace)
	}
	path += "/" + url.PathEscape(at.Resource)
	if at.Name != "" {
		path += "/" + url.PathEscape(at.Name)
	}
	return path
}
