package details

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/apiproxy"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/offline"
)

// asker asks hub and clone, on any goroutine. Both may be nil.
type asker struct {
	hub  *client.Client
	repo *workspace.Repo
	now  func() time.Time
}

func askerOf(w *pane.World) asker { return asker{w.Hub, w.Repo, w.Now} }

// origin is where something is written, and who changed it last.
type origin struct {
	place  string
	change *offline.Commit
}

// awaited is a service that another waits for.
type awaited struct {
	service string
	phase   v1.Phase
	reason  string
}

// describe finds out what there is to say of a subject. When the hub cannot say it, known is what was known before, if anything.
func (a asker) describe(ctx context.Context, about pane.Subject, known *described) (*described, error) {
	d := &described{}
	err := errNoHub()
	if a.hub != nil {
		err = a.ask(ctx, about, d)
	}
	if err != nil && about.Kind == pane.KindObject && about.Object != nil {
		if d.gone = errors.As(err, new(*goneError)); !d.gone && known != nil {
			*d, d.beside = *known, nil
		}
		d.beside, err = append(d.beside, err), nil // what the list of objects said of it stands, unless it is gone
	}
	if err != nil && about.Kind == pane.KindCommit && a.repo != nil {
		d.revision, err = a.revision(ctx, about.Name)
	}
	if err != nil {
		if known == nil || refused(err) {
			return nil, err
		}
		*d = *known
		d.beside = append(d.beside, err)
	}
	if a.repo != nil {
		if err := a.written(ctx, about, d); err != nil {
			d.beside = append(d.beside, err)
		}
	}
	return d, nil
}

// refused says that the hub knows, and does not say.
func refused(err error) bool {
	var answer *client.Error
	return errors.As(err, &answer) && answer.Status/100 == 4
}

// ask has the hub fill in what it knows.
func (a asker) ask(ctx context.Context, about pane.Subject, d *described) (err error) {
	switch about.Kind {
	case pane.KindDeployment, pane.KindEvent:
		switch {
		case about.Cluster != "" && about.Service != "":
			d.deployment, err = a.hub.Deployment(ctx, about.Cluster, about.Service)
		case about.Cluster != "":
			d.cluster, err = a.hub.Cluster(ctx, about.Cluster)
		case about.Service != "":
			d.service, err = a.hub.Service(ctx, about.Service)
		default:
			d.status, err = a.hub.Status(ctx)
		}
	case pane.KindCluster:
		if d.cluster, err = a.hub.Cluster(ctx, about.Name); err != nil {
			return err
		}
		connections, err := a.hub.Connections(ctx, about.Name)
		if err == nil {
			d.connections = connections.Items
		} else if !refused(err) {
			d.beside = append(d.beside, err)
		}
	case pane.KindService:
		d.service, err = a.hub.Service(ctx, about.Name)
	case pane.KindSource:
		d.source, err = a.hub.Source(ctx, about.Name)
	case pane.KindPackage:
		d.upgrade, err = a.upgrade(ctx, about.Name)
	case pane.KindCommit:
		d.revision, err = a.hub.Revision(ctx, about.Name)
	case pane.KindObject:
		return a.object(ctx, about, d)
	case pane.KindFleet:
		d.status, err = a.hub.Status(ctx)
	default:
		err = fmt.Errorf("nothing is known of a %s", about.Kind)
	}
	return err
}

func (a asker) upgrade(ctx context.Context, installation string) (*v1.Upgrade, error) {
	all, err := a.hub.Upgrades(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all.Items {
		if all.Items[i].Installation == installation {
			return &all.Items[i], nil
		}
	}
	return nil, &ui.Err{Msg: "the hub knows of no installation " + installation, Fix: "plural package list", Doc: ui.DocNotFound}
}

// object reads a live object, and what Kubernetes says happened to it.
func (a asker) object(ctx context.Context, about pane.Subject, d *described) error {
	if about.Object == nil {
		return errors.New("which object is meant is not known")
	}
	live, err := a.live(ctx, about)
	if err != nil {
		return err
	}
	d.live = &liveObject{live}
	if about.Service == "" {
		return nil
	}
	events, err := a.hub.ServiceEvents(ctx, about.Cluster, about.Service)
	if err != nil {
		d.beside = append(d.beside, err)
		return nil
	}
	for _, e := range events.Items {
		if e.Object == about.Object.UID {
			d.events = append(d.events, e)
		}
	}
	return nil
}

// live is an object as its cluster has it now: asked as the person, so the cluster's own rights decide.
func (a asker) live(ctx context.Context, about pane.Subject) (map[string]any, error) {
	o := about.Object
	if a.hub == nil {
		return nil, errNoHub()
	}
	if o.Resource == "" {
		return nil, fmt.Errorf("where %s %s is in its cluster's API is not known", o.Kind, o.Name)
	}
	at := v1.ObjectRef{Group: o.Group, Version: o.Version, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}
	live, err := apiproxy.Object(ctx, apiproxy.NewTokens(a.hub, about.Cluster, apiproxy.TokenDir(), a.now), at)
	var answer *client.Error
	if errors.As(err, &answer) && answer.Status == http.StatusNotFound && strings.Contains(answer.Message, strconv.Quote(o.Name)) {
		fix := "esc goes back to the list"
		if about.Service != "" {
			fix += "; plural service tree " + about.Service + " shows what is there"
		}
		return nil, &ui.Err{
			Msg: fmt.Sprintf("%s %s is gone from cluster %s", o.Kind, o.Name, about.Cluster), Cause: answer.Message, Fix: fix,
			Doc: ui.DocNotFound, Err: &goneError{err},
		}
	}
	return live, err
}

// goneError says that a cluster does not have the object any more. Of what else it, or the hub in its place, answers so, the
// object may be there yet.
type goneError struct{ error }

func (e *goneError) Unwrap() error { return e.error }

// written fills in where the clone says it.
func (a asker) written(ctx context.Context, about pane.Subject, d *described) error {
	switch about.Kind {
	case pane.KindCluster, pane.KindService, pane.KindDeployment, pane.KindSource, pane.KindEvent:
	default:
		return nil // nobody wrote it, or not in one place
	}
	state, err := offline.Open(a.repo, "")
	if err != nil {
		return err
	}
	position, paths := place(state, about)
	if position.File == "" {
		return nil
	}
	d.origin = &origin{place: position.String()}
	if d.origin.change, err = offline.LastChange(ctx, a.repo, paths); err != nil {
		return err
	}
	if d.deployment != nil && d.deployment.Phase != v1.Healthy && a.hub != nil {
		d.chain, err = a.chain(ctx, state.Fleet, about.Service, about.Cluster, map[string]bool{about.Service: true})
	}
	return err
}

// place is where a subject is written, with all that it is made of.
func place(state *offline.State, about pane.Subject) (at fleet.Position, paths []string) {
	service := about.Service
	if about.Kind == pane.KindService {
		service = about.Name
	}
	switch {
	case service != "":
		if s, ok := state.Fleet.Service(service); ok {
			return s.Position, history.Reads(state.Fleet, s, state)
		}
	case about.Kind == pane.KindCluster:
		if c, ok := state.Fleet.Cluster(about.Name); ok {
			return c.Position, []string{c.Position.File}
		}
	case about.Kind == pane.KindSource:
		if s, ok := state.Fleet.Source(about.Name); ok {
			return s.Position, []string{s.Position.File}
		}
	}
	return fleet.Position{}, nil
}

// maxChain bounds how far what a service waits for is followed.
const maxChain = 10

// chain follows what a service waits for on a cluster, along the first that is not there yet, to where it begins.
func (a asker) chain(ctx context.Context, f *fleet.Fleet, service, cluster string, seen map[string]bool) ([]awaited, error) {
	s, ok := f.Service(service)
	if !ok || len(seen) > maxChain {
		return nil, nil
	}
	for _, dep := range s.Spec.DependsOn {
		if seen[dep.Service] {
			continue
		}
		seen[dep.Service] = true
		here := awaited{service: dep.Service, phase: v1.Pending, reason: "the hub does not know of it there"}
		d, err := a.hub.Deployment(ctx, cluster, dep.Service)
		switch {
		case err != nil && !refused(err):
			return nil, err
		case err == nil && d.Phase == v1.Healthy:
			continue
		case err == nil:
			here.phase, here.reason = d.Phase, strings.TrimSpace(d.Message)
		}
		rest, err := a.chain(ctx, f, dep.Service, cluster, seen)
		return append([]awaited{here}, rest...), err
	}
	return nil, nil
}
