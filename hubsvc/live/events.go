package live

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pluralsh/plural/api/tunnelapi"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/paging"
)

// Bounds of what is read of a cluster's events.
const (
	eventPage     = 500
	eventPages    = 8       // of one namespace
	maxEventPage  = 8 << 20 // bytes
	maxNamespaces = 16
)

// kubeEvent is what is read of an Event of Kubernetes.
type kubeEvent struct {
	Metadata struct {
		UID               string    `json:"uid"`
		CreationTimestamp time.Time `json:"creationTimestamp"`
	} `json:"metadata"`
	InvolvedObject struct {
		UID       string `json:"uid"`
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"involvedObject"`
	Type                string    `json:"type"`
	Reason              string    `json:"reason"`
	Message             string    `json:"message"`
	Count               int       `json:"count"`
	FirstTimestamp      time.Time `json:"firstTimestamp"`
	LastTimestamp       time.Time `json:"lastTimestamp"`
	EventTime           time.Time `json:"eventTime"`
	ReportingController string    `json:"reportingComponent"`
	Source              struct {
		Component string `json:"component"`
	} `json:"source"`
	Series *struct {
		Count            int       `json:"count"`
		LastObservedTime time.Time `json:"lastObservedTime"`
	} `json:"series"`
}

type eventList struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []kubeEvent `json:"items"`
}

// said is an event in a list.
type said struct {
	v1.ObjectEvent
	uid string
}

// events answers with what Kubernetes says happened to a service's objects, the newest first. They are read as the person, who
// has to be allowed to list events there.
func (a *API) events(w http.ResponseWriter, r *http.Request, who asker) error {
	query, err := paging.FromURL(r.URL.Query())
	if err != nil {
		return pageRefusal(err)
	}
	if query.Sort == "" {
		query.Sort = "-time"
	}
	page, err := eventTable().Start(query)
	if err != nil {
		return pageRefusal(err)
	}
	picked, err := filter.Parse(query.Filter, eventSchema())
	if err != nil {
		return pageRefusal(err)
	}
	f, err := a.feeds.open(r.Context(), subject{cluster: who.cluster, service: r.PathValue("service")})
	if err != nil {
		return err
	}
	defer a.feeds.close(f)
	objects, err := sight{api: a, who: who, own: true}.of(r.Context(), f.shown())
	if err != nil {
		return err
	}
	answer := v1.List[v1.ObjectEvent]{Items: []v1.ObjectEvent{}}
	err = a.eachEvent(r.Context(), who, objects, func(e said) {
		if picked.Match(e) {
			answer.Total++
			page.Add(e)
		}
	})
	if err != nil {
		return err
	}
	rows, next := page.Items(func(e said) int { return sizeOf(e.ObjectEvent) })
	for i := range rows {
		answer.Items = append(answer.Items, rows[i].ObjectEvent)
	}
	answer.Next = next
	reply(w, http.StatusOK, answer)
	return nil
}

// eachEvent reads the events of objects. Namespaces whose events the person may not list are left out, unless that is all.
func (a *API) eachEvent(ctx context.Context, who asker, objects []*tunnelapi.Object, take func(said)) error {
	uids, namespaces := map[string]bool{}, []string{}
	for _, o := range objects {
		uids[o.GetUid()] = true
		if o.GetNamespace() != "" && !slices.Contains(namespaces, o.GetNamespace()) {
			namespaces = append(namespaces, o.GetNamespace())
		}
	}
	slices.Sort(namespaces)
	namespaces = namespaces[:min(len(namespaces), maxNamespaces)]
	var refusal error
	read := 0
	for _, namespace := range namespaces {
		err := a.eventsIn(ctx, who, namespace, func(e *kubeEvent) {
			if uids[e.InvolvedObject.UID] {
				take(saidOf(e))
			}
		})
		switch {
		case err == nil:
			read++
		case refusalOf(err).Status == http.StatusForbidden:
			refusal = err
		default:
			return err
		}
	}
	if read == 0 {
		return refusal
	}
	return nil
}

func (a *API) eventsIn(ctx context.Context, who asker, namespace string, take func(*kubeEvent)) error {
	at, query := place{"", "v1", "events", namespace}, url.Values{"limit": {strconv.Itoa(eventPage)}}
	for range eventPages {
		list, err := a.eventPage(ctx, who, at, query)
		if err != nil {
			return err
		}
		for i := range list.Items {
			take(&list.Items[i])
		}
		if list.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", list.Metadata.Continue)
	}
	return nil
}

func (a *API) eventPage(ctx context.Context, who asker, at place, query url.Values) (*eventList, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := at.request(ctx, http.MethodGet, query, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	resp, err := a.do(ctx, who, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := refused(resp); err != nil {
		return nil, err
	}
	var list eventList
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxEventPage)).Decode(&list); err != nil {
		return nil, &Refusal{Status: http.StatusBadGateway, Message: "the cluster's events cannot be read: " + err.Error()}
	}
	return &list, nil
}

// saidOf reads an event, of which Kubernetes has two shapes.
func saidOf(e *kubeEvent) said {
	out := v1.ObjectEvent{
		Count: e.Count, Warning: e.Type == "Warning", Reason: e.Reason, Message: e.Message, From: e.Source.Component,
		Object: e.InvolvedObject.UID, Kind: e.InvolvedObject.Kind, Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name,
	}
	if out.From == "" {
		out.From = e.ReportingController
	}
	for _, t := range []time.Time{e.LastTimestamp, e.EventTime, e.Metadata.CreationTimestamp} {
		if out.Time.IsZero() {
			out.Time = t.UTC()
		}
	}
	if e.Series != nil {
		out.Count, out.Time = e.Series.Count, e.Series.LastObservedTime.UTC()
	}
	if first := e.FirstTimestamp.UTC(); !first.IsZero() && first.Before(out.Time) {
		out.First = &first
	}
	return said{out, e.Metadata.UID}
}

func eventTable() *paging.Table[said] {
	return &paging.Table[said]{
		Columns: map[string]paging.Column[said]{
			"time":   {Number: func(e said) int64 { return e.Time.UnixMilli() }},
			"reason": {Text: func(e said) string { return e.Reason }},
			"name":   {Text: func(e said) string { return e.Name }},
			"uid":    {Text: func(e said) string { return e.uid }},
		},
		ID: []string{"uid"},
	}
}

func eventSchema() filter.Schema[said] {
	return filter.Schema[said]{
		Fields: map[string]filter.Field[said]{
			"reason":    {Get: func(e said) string { return e.Reason }},
			"message":   {Get: func(e said) string { return e.Message }},
			"kind":      {Get: func(e said) string { return e.Kind }},
			"name":      {Get: func(e said) string { return e.Name }},
			"namespace": {Get: func(e said) string { return e.Namespace }},
			"warning":   {Get: func(e said) string { return strconv.FormatBool(e.Warning) }, Words: []string{"true", "false"}},
		},
		Names: []func(said) string{func(e said) string { return e.Name }, func(e said) string { return e.Reason }},
	}
}
