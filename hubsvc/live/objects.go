package live

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api/tunnelapi"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/paging"
)

// maxAsked is how many places are asked about at once, for one person.
const maxAsked = 8

// row is an object in a list. Its path leads to it from what nothing owns, so that rows sorted by path are a tree.
type row struct {
	v1.Object
	path string
}

// tree answers with a service's objects, each before those that hang below it.
func (a *API) tree(w http.ResponseWriter, r *http.Request, who asker) error {
	f, err := a.feeds.open(r.Context(), subject{cluster: who.cluster, service: r.PathValue("service")})
	if err != nil {
		return err
	}
	defer a.feeds.close(f)
	visible := sight{api: a, who: who, own: true}
	if watches(r) {
		return a.watch(w, r, who, f, visible)
	}
	return list(w, r, f, visible, "path")
}

// objects answers with the objects of one kind.
func (a *API) objects(w http.ResponseWriter, r *http.Request, who asker) error {
	query := r.URL.Query()
	if query.Get("resource") == "" {
		return bad("resource is not given")
	}
	at, err := newPlace(query.Get("group"), query.Get("version"), query.Get("resource"), query.Get("namespace"))
	if err != nil {
		return err
	}
	if err := a.may(r.Context(), who, at); err != nil {
		return err
	}
	f, err := a.feeds.open(r.Context(), subject{cluster: who.cluster, place: at})
	if err != nil {
		return err
	}
	defer a.feeds.close(f)
	visible := sight{api: a, who: who, in: at}
	if watches(r) {
		return a.watch(w, r, who, f, visible)
	}
	return list(w, r, f, visible, "")
}

func watches(r *http.Request) bool { return r.URL.Query().Get("watch") == "1" }

// sight is what one person may see of a feed.
type sight struct {
	api *API
	who asker
	// own says that a service's own objects are shown whatever the cluster thinks, as agents report them to everybody: all of them
	// but what they say of themselves, which may repeat what nobody is to know.
	own bool
	// in is what the feed shows, when it is no service.
	in place
}

// placeOf is where the person has to be allowed to look, to see an object.
func (s sight) placeOf(o *tunnelapi.Object) place {
	if s.own {
		return placeOf(o)
	}
	return s.in
}

// of are those objects that the person may see, as they may see them.
func (s sight) of(ctx context.Context, objects []*tunnelapi.Object) ([]*tunnelapi.Object, error) {
	hidden, err := s.hidden(ctx, objects)
	if err != nil {
		return nil, err
	}
	var seen []*tunnelapi.Object
	for _, o := range objects {
		switch {
		case !hidden[s.placeOf(o)]:
			seen = append(seen, o)
		case s.own && o.GetApplied():
			silent := proto.CloneOf(o)
			silent.Message = ""
			seen = append(seen, silent)
		}
	}
	return seen, nil
}

// hidden finds out in which places of objects the person may see none. Where that cannot be found out, a service's own objects
// are shown without what they say.
func (s sight) hidden(ctx context.Context, objects []*tunnelapi.Object) (map[place]bool, error) {
	matters := map[place]bool{} // whether an answer is needed
	for _, o := range objects {
		reported := s.own && o.GetApplied()
		if !reported || o.GetMessage() != "" {
			matters[s.placeOf(o)] = matters[s.placeOf(o)] || !reported
		}
	}
	var mu sync.Mutex // guards hidden
	hidden := make(map[place]bool, len(matters))
	var group errgroup.Group
	group.SetLimit(maxAsked)
	for at, needed := range matters {
		group.Go(func() error {
			hides, err := s.hides(ctx, at)
			mu.Lock()
			defer mu.Unlock()
			if hidden[at] = hides || err != nil; needed {
				return err
			}
			return nil
		})
	}
	return hidden, group.Wait()
}

func (s sight) hides(ctx context.Context, at place) (bool, error) {
	if _, err := newPlace(at.group, at.version, at.resource, at.namespace); err != nil {
		return true, nil // it cannot be asked about
	}
	return s.api.hides(ctx, s.who, at)
}

// list answers with one page. The list's own order is by order, if it is not empty.
func list(w http.ResponseWriter, r *http.Request, f *feed, visible sight, order string) error {
	query, err := paging.FromURL(r.URL.Query())
	if err != nil {
		return pageRefusal(err)
	}
	if query.Sort == "" {
		query.Sort = order
	}
	page, err := table().Start(query)
	if err != nil {
		return pageRefusal(err)
	}
	picked, err := filter.Parse(query.Filter, schema())
	if err != nil {
		return pageRefusal(err)
	}
	objects, err := visible.of(r.Context(), f.shown())
	if err != nil {
		return err
	}
	answer := v1.List[v1.Object]{Items: []v1.Object{}}
	paths := pathsOf(objects, order)
	for _, o := range objects {
		item := row{shownObject(o), paths[o.GetUid()]}
		if picked.Match(item) {
			answer.Total++
			page.Add(item)
		}
	}
	rows, next := page.Items(func(r row) int { return sizeOf(r.Object) })
	for i := range rows {
		answer.Items = append(answer.Items, rows[i].Object)
	}
	answer.Next = next
	reply(w, http.StatusOK, answer)
	return nil
}

// sizeOf is the length of a value's JSON.
func sizeOf(value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		return 0 // there is no such value
	}
	return len(text)
}

// pathsOf are the paths of a tree, by uid; none where no tree is asked for.
func pathsOf(objects []*tunnelapi.Object, order string) map[string]string {
	if order != "path" {
		return nil
	}
	byUID := make(map[string]*tunnelapi.Object, len(objects))
	for _, o := range objects {
		byUID[o.GetUid()] = o
	}
	paths := make(map[string]string, len(objects))
	for _, o := range objects {
		var names []string
		for at := o; at != nil && len(names) < maxDepth; at = byUID[at.GetOwner()] {
			names = append(names, at.GetKind()+"\x01"+at.GetNamespace()+"\x01"+at.GetName())
		}
		slices.Reverse(names)
		paths[o.GetUid()] = strings.Join(names, "\x00")
	}
	return paths
}

// maxDepth bounds how deep a tree is shown, whatever owners say.
const maxDepth = 8

func table() *paging.Table[row] {
	text := func(get func(row) string) paging.Column[row] { return paging.Column[row]{Text: get} }
	return &paging.Table[row]{
		Columns: map[string]paging.Column[row]{
			"namespace": text(func(r row) string { return r.Namespace }),
			"name":      text(func(r row) string { return r.Name }),
			"kind":      text(func(r row) string { return r.Kind }),
			"uid":       text(func(r row) string { return r.UID }),
			"path":      text(func(r row) string { return r.path }),
			"health":    {Number: func(r row) int64 { return int64(slices.Index(v1.ObjectHealth("").Words(), string(r.Health))) }},
			"created": {Number: func(r row) int64 {
				if r.Created == nil {
					return 0
				}
				return r.Created.UnixMilli()
			}},
		},
		ID: []string{"namespace", "name", "uid"},
	}
}

func schema() filter.Schema[row] {
	fixed := func(get func(row) string) filter.Field[row] { return filter.Field[row]{Get: get, Fixed: true} }
	yes := func(is func(row) bool) filter.Field[row] {
		return filter.Field[row]{Words: []string{"true", "false"}, Get: func(r row) string {
			if is(r) {
				return "true"
			}
			return "false"
		}}
	}
	return filter.Schema[row]{
		Fields: map[string]filter.Field[row]{
			"name":      fixed(func(r row) string { return r.Name }),
			"namespace": fixed(func(r row) string { return r.Namespace }),
			"kind":      fixed(func(r row) string { return r.Kind }),
			"group":     fixed(func(r row) string { return r.Group }),
			"owner":     {Get: func(r row) string { return r.Owner }},
			"message":   {Get: func(r row) string { return r.Message }},
			"health":    {Get: func(r row) string { return string(r.Health) }, Words: v1.ObjectHealth("").Words()},
			"applied":   yes(func(r row) bool { return r.Applied }),
			"deleting":  yes(func(r row) bool { return r.Deleting }),
		},
		Names: []func(row) string{func(r row) string { return r.Name }},
	}
}

// lastMoment is the end of the year 9999, in milliseconds: JSON has no later times.
const lastMoment = 253_402_300_800_000

// shownObject is an object as people's tools have it.
func shownObject(o *tunnelapi.Object) v1.Object {
	shown := v1.Object{
		UID: o.GetUid(), Group: o.GetGroup(), Version: o.GetVersion(), Kind: o.GetKind(), Resource: o.GetResource(),
		Namespace: o.GetNamespace(), Name: o.GetName(), Owner: o.GetOwner(), Health: v1.ObjectHealth(o.GetHealth()),
		Message: o.GetMessage(), Applied: o.GetApplied(), Deleting: o.GetDeleting(),
	}
	if !slices.Contains(shown.Health.Words(), string(shown.Health)) {
		shown.Health = v1.ObjectUnknown
	}
	if ms := o.GetCreatedUnixMs(); ms > 0 && ms < lastMoment {
		created := time.UnixMilli(ms).UTC()
		shown.Created = &created
	}
	return shown
}
