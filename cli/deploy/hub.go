package deploy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/deploy"
)

// hub asks the fleet's hub for a deploy.
type hub struct {
	client *client.Client
	now    func() time.Time
}

// hubOf is the fleet's hub; nil where the repo names none yet.
func hubOf(f *cmdutil.Factory) (deploy.Hub, error) {
	c, err := f.HubClient()
	var unknown *ui.Err
	if errors.As(err, &unknown) && unknown.Code == 0 { // nothing names a hub, or nobody is logged in: it may be what is installed
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &hub{client: c, now: f.Now}, nil
}

const (
	// asking is how long the hub may take to say whether it hears from a cluster, before it counts as one that is not there.
	asking = 5 * time.Second
	// failing is how long a service may have failed, or be held by the hub, before nobody waits for it any more: agents try again.
	failing = 15 * time.Second
	// looking is the wait between two looks at what is awaited.
	looking = time.Second
)

// Hears implements deploy.Hub. A hub that does not answer hears nobody: it may be what is being installed.
func (h *hub) Hears(ctx context.Context, cluster string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	c, err := h.client.Cluster(ctx, cluster)
	var away *client.Unreachable
	var answer *client.Error
	switch {
	case errors.As(err, &away):
		return false, nil
	case errors.As(err, &answer) && (answer.Status == http.StatusNotFound || answer.Status >= http.StatusInternalServerError):
		return false, nil
	case err != nil:
		return false, err
	}
	return c.LastReport != nil && c.Phase != v1.Stale, nil
}

// Healthy implements deploy.Hub.
func (h *hub) Healthy(ctx context.Context, w deploy.Wanted, told func(string)) error {
	_ = h.client.Sync(ctx, v1.OwnSource) // it only shortens the wait
	last, ill := "the hub has not looked yet", time.Time{}
	return poll(ctx, func(ctx context.Context) (bool, error) {
		status, err := h.client.Status(ctx)
		if err != nil {
			last = "the hub does not answer"
			told(last)
			return false, passing(err)
		}
		if status.Head.ID == w.Commit && len(status.Refused) > 0 {
			p := status.Refused[0]
			return false, fmt.Errorf("the hub refuses commit %.12s: %s:%d: %s", w.Commit, p.File, p.Line, p.Message)
		}
		d, err := h.client.Deployment(ctx, w.Cluster, w.Service)
		var answer *client.Error
		switch {
		case errors.As(err, &answer) && answer.Status == http.StatusNotFound:
			last = "the hub has not seen the commit yet"
			told(last)
			return false, nil
		case err != nil:
			return false, passing(err)
		}
		if d.Key != w.Key && !reached(status.Commit, w) {
			last = "the hub has not seen the commit yet"
			told(last)
			return false, nil
		}
		if last = string(d.Phase); d.Message != "" {
			last += ": " + ui.Clean(d.Message)
		}
		told(fmt.Sprintf("%s is %s, %d of %d ready", w.Service, last, d.Ready, d.Objects))
		held := d.Phase == v1.Held && d.Held == nil
		switch {
		case held && d.Suspended:
			return true, nil // a person wants it as it is
		case d.Phase != v1.Failed && !held:
			ill = time.Time{}
		case ill.IsZero():
			ill = h.now()
		case h.now().Sub(ill) >= failing:
			return false, &deploy.NotHealthyError{Service: w.Service, Cluster: w.Cluster, Last: last}
		}
		return d.Phase == v1.Healthy && d.AppliedKey == d.Key, nil
	}, func() error { return &deploy.NotHealthyError{Service: w.Service, Cluster: w.Cluster, Last: last} })
}

// reached says whether what is served has what is wanted, as far as that can be told of a commit.
func reached(served v1.Commit, w deploy.Wanted) bool {
	return served.ID == w.Commit || served.Time != nil && served.Time.After(w.Time)
}

// Gone implements deploy.Hub.
func (h *hub) Gone(ctx context.Context, service, cluster string, told func(string)) error {
	_ = h.client.Sync(ctx, v1.OwnSource) // it only shortens the wait
	return poll(ctx, func(ctx context.Context) (bool, error) {
		d, err := h.client.Cluster(ctx, cluster)
		if err != nil {
			return false, passing(err)
		}
		there := slices.ContainsFunc(d.Deployments, func(d v1.Deployment) bool { return d.Service == service })
		if there {
			told(h.going(ctx, service))
		}
		return !there, nil
	}, func() error {
		return &deploy.NotHealthyError{Service: service, Cluster: cluster, Last: "it is still there"}
	})
}

// going says why a service is still there.
func (h *hub) going(ctx context.Context, service string) string {
	status, err := h.client.Status(ctx)
	if err != nil || len(status.Refused) == 0 {
		return service + " is being removed"
	}
	p := status.Refused[0]
	return fmt.Sprintf("%s stays for as long as the hub refuses commit %.7s: %s: %s", service, status.Head.ID, ui.Clean(p.Message),
		ui.Clean(p.Fix))
}

// passing lets a hub be away for a while: it may be what is being upgraded.
func passing(err error) error {
	var away *client.Unreachable
	var answer *client.Error
	if errors.As(err, &away) || errors.As(err, &answer) && answer.Status >= http.StatusInternalServerError {
		return nil
	}
	return err
}

// poll asks until the answer is yes, an error, or ctx ends; late then says what the wait was about.
func poll(ctx context.Context, ask func(context.Context) (bool, error), late func() error) error {
	ticker := time.NewTicker(looking)
	defer ticker.Stop()
	for {
		yes, err := ask(ctx)
		if yes || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(late(), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
