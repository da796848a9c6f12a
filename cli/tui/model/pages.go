package model

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/internal/paging"
)

// list goes through all lists, and again when that is asked for.
func (h *hub) list(ctx context.Context, first *v1.List[v1.Deployment]) error {
	for {
		attempt, cancel := context.WithCancel(ctx)
		group, listing := errgroup.WithContext(attempt)
		group.Go(func() error { return h.listRows(listing, first) })
		group.Go(func() error { return h.listOthers(listing) })
		ended := make(chan error, 1)
		go func() { ended <- group.Wait() }()
		again := false
		select {
		case err := <-ended:
			if err != nil {
				cancel()
				return err
			}
		case <-h.again:
			again = true
			cancel()
			<-ended //nolint:errcheck // it was stopped
		}
		cancel()
		if !again {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-h.again:
			}
		}
		first = nil
		h.begin(nil)
		h.who(ctx) // it may be another person
	}
}

// listRows goes on after the first page, or begins with it.
func (h *hub) listRows(ctx context.Context, page *v1.List[v1.Deployment]) error {
	for page == nil || page.Next != "" && h.rows < maxListed {
		q := paging.Query{Limit: paging.MaxLimit}
		if page != nil {
			q.Continue = page.Next
		}
		asked := h.moment()
		err := h.insist(ctx, false, func() (err error) {
			page, err = h.client.DeploymentsPage(ctx, q)
			return err
		})
		if err != nil {
			return err
		}
		h.rows += len(page.Items)
		h.take(asked, rowsOf(page))
	}
	h.end(v1.ChangedDeployments, page.Total, page.Next != "")
	return nil
}

// paged is a page as it is taken in: its rows are chosen by their ids.
type paged struct {
	kind  v1.ChangeKind
	batch func(fresh func(id string) bool) Batch
}

func rowsOf(page *v1.List[v1.Deployment]) paged {
	return paged{v1.ChangedDeployments, func(fresh func(string) bool) Batch {
		return Batch{Deployments: v1.Changes[v1.Deployment]{Items: slices.DeleteFunc(page.Items, func(d v1.Deployment) bool {
			return !fresh(d.Cluster + "/" + d.Service)
		})}}
	}}
}

func clustersOf(page *v1.List[v1.Cluster]) paged {
	return paged{v1.ChangedClusters, func(fresh func(string) bool) Batch {
		return Batch{Clusters: v1.Changes[v1.Cluster]{
			Items: slices.DeleteFunc(page.Items, func(c v1.Cluster) bool { return !fresh(c.Name) }),
		}}
	}}
}

func servicesOf(page *v1.List[v1.Service]) paged {
	return paged{v1.ChangedServices, func(fresh func(string) bool) Batch {
		return Batch{Services: v1.Changes[v1.Service]{
			Items: slices.DeleteFunc(page.Items, func(s v1.Service) bool { return !fresh(s.Name) }),
		}}
	}}
}

func sourcesOf(page *v1.List[v1.Source]) paged {
	return paged{v1.ChangedSources, func(fresh func(string) bool) Batch {
		return Batch{Sources: v1.Changes[v1.Source]{
			Items: slices.DeleteFunc(page.Items, func(s v1.Source) bool { return !fresh(s.Name) }),
		}}
	}}
}

func upgradesOf(page *v1.List[v1.Upgrade]) paged {
	return paged{v1.ChangedUpgrades, func(fresh func(string) bool) Batch {
		return Batch{Upgrades: v1.Changes[v1.Upgrade]{
			Items: slices.DeleteFunc(page.Items, func(u v1.Upgrade) bool { return !fresh(u.Installation) }),
		}}
	}}
}

func eventsOf(page *v1.List[v1.Event]) paged {
	return paged{v1.Happened, func(func(string) bool) Batch { return Batch{Events: page.Items} }}
}

// listOthers reads the short lists, and the summary again: it may have changed before the stream began.
func (h *hub) listOthers(ctx context.Context) error {
	upgrades := func(ctx context.Context, _ paging.Query) (*v1.List[v1.Upgrade], error) { return h.client.Upgrades(ctx) }
	for _, list := range []func() error{
		func() error { return listAll(ctx, h, h.client.ClustersPage, clustersOf) },
		func() error { return listAll(ctx, h, h.client.ServicesPage, servicesOf) },
		func() error { return h.insist(ctx, false, func() error { return h.figures(ctx) }) },
		func() error { return listAll(ctx, h, h.client.SourcesPage, sourcesOf) },
		func() error { return listAll(ctx, h, h.client.EventsPage, eventsOf) },
		func() error { return listAll(ctx, h, upgrades, upgradesOf) },
	} {
		if err := list(); err != nil {
			return err
		}
	}
	return nil
}

// listAll reads one list. One that this hub does not have is empty.
func listAll[T any](
	ctx context.Context, h *hub, ask func(context.Context, paging.Query) (*v1.List[T], error), of func(*v1.List[T]) paged,
) error {
	q := paging.Query{Limit: paging.MaxLimit}
	for count := 0; ; {
		asked := h.moment()
		var page *v1.List[T]
		err := h.insist(ctx, false, func() (err error) {
			page, err = ask(ctx, q)
			return err
		})
		var answer *client.Error
		if errors.As(err, &answer) && answer.Status == http.StatusNotFound {
			page, err = &v1.List[T]{}, nil
		}
		if err != nil {
			return err
		}
		p := of(page)
		count += len(page.Items)
		h.take(asked, p)
		if page.Next == "" || p.kind == v1.Happened && count >= maxEvents {
			h.end(p.kind, count, false)
			return nil
		}
		q.Continue = page.Next
	}
}

// moment is how far the stream is.
func (h *hub) moment() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

func (h *hub) isWhole(kind v1.ChangeKind) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.whole[kind]
}

// take gives the rows of a page but for those of which the stream has spoken since it was asked for.
func (h *hub) take(asked uint64, p paged) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.whole[p.kind] { // somebody looked for them, and now they are all there, and newer
		return
	}
	touched := h.touched[p.kind]
	h.emit(p.batch(func(id string) bool { return touched[id] <= asked }))
}

func (h *hub) end(kind v1.ChangeKind, total int, cut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.whole[kind] = !cut; !cut {
		h.touched[kind] = nil
	}
	h.emit(Batch{Marks: []Mark{{Kind: kind, End: true, Total: total, Cut: cut}}})
}
