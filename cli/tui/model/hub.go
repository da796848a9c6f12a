package model

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
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
	why    func(error) string

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
	if o.Why == nil {
		o.Why = error.Error
	}
	return &hub{
		client: c, now: o.Now, token: o.Token, why: o.Why, again: make(chan struct{}, 1), wanted: make(chan struct{}, 1),
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
	return errors.As(err, new(*client.OtherRepository)) || errors.As(err, &answer) && answer.Status/100 == 4 &&
		answer.Status != http.StatusTooManyRequests && answer.Status != http.StatusRequestTimeout
}

func (h *hub) state(link Link, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = State{Link: link, Since: h.now()}
	if err != nil {
		h.said.Why, h.said.LoggedOut = h.why(err), loggedOut(err)
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
