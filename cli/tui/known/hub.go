package known

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/internal/paging"
)

const (
	// firstRows are enough for any screen, and answered at once.
	firstRows = 100
	// settling is how long a person's filter has to stay before the hub is asked for what it picks.
	settling = 150 * time.Millisecond
	// minPause and maxPause lie between two attempts to ask.
	minPause, maxPause = 250 * time.Millisecond, 5 * time.Second
)

// hub is what a hub says: its lists page by page and, beside them, its stream from the moment of the first page. What the stream
// says of a row counts more than a page that was asked for before it.
type hub struct {
	client *client.Client
	now    func() time.Time
	// again asks for new lists, wanted for rows that somebody looks for.
	again, wanted chan struct{}
	// token is the person's as it is kept now, nil: there is none but the client's; tokens counts those that the client had after the
	// first.
	token  func() (string, error)
	tokens atomic.Uint64

	mu   sync.Mutex // guards what follows, and the order in which batches are given
	emit func(Batch)
	// said is the state that was told last.
	said State
	// told counts the stream's events; touched says, by kind while that is listed, at which of them a row was spoken of.
	told    uint64
	touched map[v1.ChangeKind]map[string]uint64
	// summed is when it last told the summary.
	summed uint64
	whole  map[v1.ChangeKind]bool
	rows   int // deployments of this listing

	// seeking guards looked. It is another mutex: whoever seeks must not wait for whoever takes batches, who may be the same.
	seeking sync.Mutex
	looked  map[v1.ChangeKind]string
}

// FromHub is what a hub says.
func FromHub(c *client.Client, o Options) Source {
	return &hub{
		client: c, now: o.Now, token: o.Token, again: make(chan struct{}, 1), wanted: make(chan struct{}, 1),
		touched: map[v1.ChangeKind]map[string]uint64{}, whole: map[v1.ChangeKind]bool{}, looked: map[v1.ChangeKind]string{},
	}
}

// Run lists, follows, and lists again when changes were missed.
func (h *hub) Run(ctx context.Context, emit func(Batch)) error {
	h.mu.Lock()
	h.emit = emit
	h.mu.Unlock()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return h.greet(running) })
	group.Go(func() error {
		var first *v1.List[v1.Deployment]
		err := h.insist(running, true, func() (err error) {
			first, err = h.client.DeploymentsPage(running, paging.Query{Limit: firstRows})
			return err
		})
		if err != nil {
			return err
		}
		h.begin(first)
		group.Go(func() error { return h.follow(running, first.Since) })
		group.Go(func() error { return h.find(running) })
		return h.list(running, first)
	})
	err := group.Wait()
	if ctx.Err() == nil {
		h.state(Broken, err)
	}
	return err
}

// insist asks until there is an answer, or one that will not change: that is its error. A person who is logged out may log in.
func (h *hub) insist(ctx context.Context, tell bool, ask func() error) error {
	pause := minPause
	for {
		tokens := h.tokens.Load()
		err := ask()
		switch {
		case err == nil:
			h.in()
			return nil
		case ctx.Err() != nil:
			return err
		case loggedOut(err):
			if err := h.locked(ctx, tokens, err); err != nil {
				return err
			}
			continue
		case refused(err):
			return err
		}
		if tell {
			h.state(Connecting, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, maxPause)
	}
}

// refused says that a hub understood, and will say the same again.
func refused(err error) bool {
	var answer *client.Error
	return errors.As(err, &answer) && answer.Status/100 == 4 &&
		answer.Status != http.StatusTooManyRequests && answer.Status != http.StatusRequestTimeout
}

func (h *hub) state(link Link, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = State{Link: link, Since: h.now()}
	if err != nil {
		h.said.Why, h.said.LoggedOut = err.Error(), loggedOut(err)
	}
	h.tell()
}

func (h *hub) give(b Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.emit(b)
}

// greet asks for what is shown above all rows. Nobody waits for it.
func (h *hub) greet(ctx context.Context) error {
	_ = h.figures(ctx) // they are asked for again with the lists
	h.who(ctx)
	return nil // whoever may not view is told so with the first list
}

// who asks who the person is.
func (h *hub) who(ctx context.Context) {
	var me *v1.Me
	err := h.insist(ctx, false, func() (err error) {
		me, err = h.client.Me(ctx)
		return err
	})
	if err == nil {
		h.give(Batch{Me: me})
	}
}

// figures gives the summary, unless the stream has told a newer one.
func (h *hub) figures(ctx context.Context) error {
	asked := h.moment()
	summary, err := h.client.Summary(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.summed <= asked {
		h.emit(Batch{Summary: summary})
	}
	return nil
}

// begin starts listing everything, with the first rows where they are there already.
func (h *hub) begin(first *v1.List[v1.Deployment]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b Batch
	for _, kind := range listed() {
		b.Marks = append(b.Marks, Mark{Kind: kind, Begin: true})
		h.touched[kind], h.whole[kind] = map[string]uint64{}, false
	}
	h.rows = 0
	if first != nil {
		h.rows, b.Marks[0].Total = len(first.Items), first.Total
		b.Deployments.Items = first.Items
	}
	h.emit(b)
}

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

// follow gives what changes from a moment on. After a person was logged out it does so from then on, and all is listed again.
func (h *hub) follow(ctx context.Context, since string) error {
	broken, missed := false, false
	following := client.Following{Since: since, Connected: func(err error) {
		if err == nil || !broken { // since when counts, not how often it was tried
			link := Live
			if broken = err != nil; broken {
				link = Broken
			}
			h.state(link, err)
		}
		if err == nil && missed {
			missed = false
			h.relist()
		}
	}}
	for {
		tokens := h.tokens.Load()
		err := h.stream(ctx, following)
		if !loggedOut(err) {
			return err
		}
		if !broken {
			broken = true
			h.state(Broken, err)
		}
		if err := h.locked(ctx, tokens, err); err != nil {
			return err
		}
		following.Since, missed = "", true
	}
}

// relist asks for new lists.
func (h *hub) relist() {
	select {
	case h.again <- struct{}{}:
	default:
	}
}

func (h *hub) stream(ctx context.Context, following client.Following) error {
	return h.client.Follow(ctx, following, func(e v1.StreamEvent) error {
		if e.Kind == v1.Reset {
			h.relist()
			return nil
		}
		return h.event(e)
	})
}

// event gives one event of the stream. One that cannot be read is of a newer hub, and left out.
func (h *hub) event(e v1.StreamEvent) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told++
	var b Batch
	var err error
	switch e.Kind {
	case v1.ChangedDeployments:
		err = changed(h, e, &b.Deployments, func(d *v1.Deployment) string { return d.Cluster + "/" + d.Service })
	case v1.ChangedClusters:
		err = changed(h, e, &b.Clusters, func(c *v1.Cluster) string { return c.Name })
	case v1.ChangedServices:
		err = changed(h, e, &b.Services, func(s *v1.Service) string { return s.Name })
	case v1.ChangedSources:
		err = changed(h, e, &b.Sources, func(s *v1.Source) string { return s.Name })
	case v1.ChangedUpgrades:
		err = changed(h, e, &b.Upgrades, func(u *v1.Upgrade) string { return u.Installation })
	case v1.Happened:
		var happened v1.Changes[v1.Event]
		err = json.Unmarshal(e.Data, &happened)
		b.Events = happened.Items
	case v1.ChangedSummary:
		b.Summary = new(v1.Summary)
		err = json.Unmarshal(e.Data, b.Summary)
	case v1.Reset:
	}
	if err != nil {
		return nil
	}
	if b.Summary != nil {
		h.summed = h.told
	}
	h.emit(b)
	return nil
}

// changed reads changes, and notes of which rows they speak.
func changed[T any](h *hub, e v1.StreamEvent, into *v1.Changes[T], id func(*T) string) error {
	if err := json.Unmarshal(e.Data, into); err != nil {
		return err
	}
	touched := h.touched[e.Kind]
	if touched == nil {
		return nil
	}
	for i := range into.Items {
		touched[id(&into.Items[i])] = h.told
	}
	for _, id := range into.Gone {
		touched[id] = h.told
	}
	return nil
}

// Seek asks for the rows that fit a filter first, while not all are there.
func (h *hub) Seek(kind v1.ChangeKind, filter string) {
	h.seeking.Lock()
	defer h.seeking.Unlock()
	h.looked[kind] = filter
	select {
	case h.wanted <- struct{}{}:
	default:
	}
}

// find asks for what was sought last, when nothing else was sought for a while.
func (h *hub) find(ctx context.Context) error {
	quiet := time.NewTimer(settling)
	quiet.Stop()
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.wanted:
			quiet.Reset(settling)
		case <-quiet.C:
			h.seeking.Lock()
			looked := h.looked
			h.looked = map[v1.ChangeKind]string{}
			h.seeking.Unlock()
			for kind, filter := range looked {
				if strings.TrimSpace(filter) != "" && !h.isWhole(kind) {
					h.sought(ctx, kind, paging.Query{Filter: filter, Limit: paging.MaxLimit})
				}
			}
		}
	}
}

// sought gives a page of what fits a filter. A hub that does not understand it is no reason to say anything: what is here is
// picked all the same. Other lists are short.
func (h *hub) sought(ctx context.Context, kind v1.ChangeKind, q paging.Query) {
	asked := h.moment()
	if kind == v1.ChangedDeployments {
		if page, err := h.client.DeploymentsPage(ctx, q); err == nil {
			h.take(asked, rowsOf(page))
		}
	}
	if kind == v1.ChangedClusters {
		if page, err := h.client.ClustersPage(ctx, q); err == nil {
			h.take(asked, clustersOf(page))
		}
	}
}
