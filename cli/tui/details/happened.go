package details

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"charm.land/bubbles/v2/key"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/internal/paging"
)

// incident is something that happened: seen by the hub, or told by Kubernetes.
type incident struct {
	at      time.Time
	from    string
	cluster string
	service string
	object  string
	reason  string
	warning bool
	count   int
	message string
}

// incidents are the newest first, with what could not be asked.
type incidents struct {
	list   []incident
	beside error
}

// eventsPane is the pane of what happened to a subject.
type eventsPane struct{ rowed[*incidents] }

func newHappened(w *pane.World, about pane.Subject) (pane.Pane, error) {
	switch about.Kind {
	case pane.KindCluster, pane.KindService, pane.KindDeployment, pane.KindObject:
	default:
		return nil, fmt.Errorf("nothing is told of a %s", about.Kind)
	}
	p := &eventsPane{rowed[*incidents]{page: newPage[*incidents](w, about, "events")}}
	p.none = "nothing is told of it; Kubernetes forgets after an hour"
	p.count = func(found *incidents) int { return len(found.list) }
	p.cells = func(found *incidents, i int, now time.Time, cells []paint.Cell) {
		found.list[i].draw(about, now, cells)
	}
	p.grid = paint.Grid{Sorted: -1, Columns: []paint.Column{
		{Name: "SEEN"},
		{Name: "WHERE", Max: 32, Rank: 2},
		{Name: "FROM", Rank: 4, Hide: 100},
		{Name: "REASON"},
		{Name: "TIMES", Right: true, Rank: 3, Hide: 100},
		{Name: "MESSAGE", Weight: 1},
	}}
	a := askerOf(w)
	p.question = func(ctx context.Context) (*incidents, error) { return a.happened(ctx, about) }
	p.write = func(found *incidents) []line {
		if found.beside == nil {
			return nil
		}
		return trouble(found.beside)
	}
	return p, nil
}

// happened is what the hub saw of a subject, with what Kubernetes says of its objects on one cluster.
func (a asker) happened(ctx context.Context, about pane.Subject) (*incidents, error) {
	if a.hub == nil {
		return nil, errNoHub()
	}
	found := &incidents{}
	cluster, service := about.Cluster, serviceOf(about)
	if about.Kind == pane.KindCluster {
		cluster = about.Name
	}
	if about.Kind != pane.KindObject {
		events, err := a.hub.EventsPage(ctx, paging.Query{Filter: filterOf(cluster, service)})
		if err != nil {
			return nil, err
		}
		for i := range events.Items {
			found.list = append(found.list, ofHub(&events.Items[i]))
		}
	}
	if cluster != "" && service != "" {
		events, err := a.hub.ServiceEvents(ctx, cluster, service)
		if err != nil && about.Kind == pane.KindObject {
			return nil, err
		}
		if found.beside = err; err == nil {
			for i := range events.Items {
				if e := &events.Items[i]; about.Object == nil || e.Object == about.Object.UID {
					found.list = append(found.list, ofKubernetes(cluster, e))
				}
			}
		}
	}
	slices.SortStableFunc(found.list, func(a, b incident) int { return b.at.Compare(a.at) })
	return found, nil
}

// filterOf picks what is about a cluster, a service, or one on the other.
func filterOf(cluster, service string) string {
	text := ""
	for _, part := range [][2]string{{"cluster", cluster}, {"service", service}} {
		if part[1] != "" {
			text += part[0] + ":" + strconv.Quote(part[1]) + " "
		}
	}
	return text
}

func ofHub(e *v1.Event) incident {
	return incident{
		at: e.Time, from: "hub", cluster: e.Cluster, service: e.Service, reason: e.Reason, warning: e.Warning, message: e.Message,
	}
}

func ofKubernetes(cluster string, e *v1.ObjectEvent) incident {
	return incident{
		at: e.Time, from: "kubernetes", cluster: cluster, object: e.Kind + "/" + e.Name,
		reason: e.Reason, warning: e.Warning, count: e.Count, message: e.Message,
	}
}

// where is what of the subject it happened to.
func (i *incident) where(about pane.Subject) string {
	switch {
	case i.object != "":
		return i.object
	case about.Kind == pane.KindCluster:
		return cmdutil.OrDash(i.service)
	case about.Kind == pane.KindService:
		return cmdutil.OrDash(i.cluster)
	}
	return cmdutil.OrDash(i.service)
}

// Subjects is what the row under the cursor happened to.
func (p *eventsPane) Subjects() []pane.Subject {
	if p.value == nil || p.cursor >= len(p.value.list) {
		return []pane.Subject{p.about}
	}
	switch on := &p.value.list[p.cursor]; {
	case on.cluster != "" && on.service != "":
		return []pane.Subject{{Kind: pane.KindDeployment, Cluster: on.cluster, Service: on.service}}
	default:
		return []pane.Subject{p.about}
	}
}

// Note says how many there are.
func (p *eventsPane) Note() string {
	if p.value == nil {
		return ""
	}
	return fmt.Sprintf("%d events, %s", len(p.value.list), p.page.Note())
}

// Keys are those of rows.
func (p *eventsPane) Keys() []key.Binding { return append([]key.Binding{again()}, listKeys()...) }

// draw fills in a row.
func (i *incident) draw(about pane.Subject, now time.Time, cells []paint.Cell) {
	style := paint.Plain
	if i.warning {
		style = paint.Busy
	}
	cells[0] = paint.Cell{Text: cmdutil.Ago(now, &i.at), Style: paint.Faint}
	cells[1] = paint.Cell{Text: i.where(about)}
	cells[2] = paint.Cell{Text: i.from, Style: paint.Faint}
	cells[3] = paint.Cell{Text: kindOfEvent(i.warning) + i.reason, Style: style}
	if i.count > 1 {
		cells[4] = paint.Cell{Text: strconv.Itoa(i.count)}
	}
	cells[5] = paint.Cell{Text: i.message}
}
