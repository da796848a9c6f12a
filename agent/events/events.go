// Package events owns the reading of a cluster's Events about objects that are not healthy.
//
// It refuses to know why an object is not well, and asks for nothing while all is. Of a service's objects that stay unhealthy it
// asks for the warnings in their namespaces, ever less often (Reader). A warning counts for the object that it is about, and for
// what that hangs below by owner references, as a Pod does below a Job (below.go), unless it is well by now. Who may not read
// Events is told nothing, and asks hardly ever again.
package events

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
)

const (
	// patience is how long an object may be on its way before anybody asks.
	patience = 3 * time.Second
	// longest is the longest pause between two questions, which begin with patience and double.
	longest = 5 * time.Minute
	// timeout bounds one question.
	timeout = 10 * time.Second

	// maxNamespaces are asked for one service, in pages of pageSize Events, maxPages of each.
	maxNamespaces = 8
	pageSize      = 500
	maxPages      = 4
	// maxWarnings are kept of one object, the newest first, each of maxText bytes.
	maxWarnings = 3
	maxText     = 256
	// maxMasked is how many different ones of an object are looked at for these: masking costs what there is to mask.
	maxMasked = 30
)

// Object is a live object that is not as it should be.
type Object struct {
	ID  object.ID
	UID string
}

// Reader asks for Events. It is safe for concurrent use.
type Reader struct {
	objects dynamic.Interface
	kinds   *kinds.Kinds
	log     *slog.Logger

	mu       sync.Mutex // guards what follows
	services map[string]*memory
}

// memory is what is known of one service whose objects are not all well. The maps are replaced, never changed.
type memory struct {
	due      time.Time
	pause    time.Duration
	seen     map[string]bool     // uids that were unhealthy at the last call
	warnings map[string][]string // by uid, of objects and of what hangs below them
	refused  bool                // the last question was not allowed
}

// New returns a Reader, which asks as whoever the client is.
func New(objects dynamic.Interface, known *kinds.Kinds, log *slog.Logger) *Reader {
	return &Reader{objects: objects, kinds: known, log: log, services: map[string]*memory{}}
}

// Of returns the newest warnings about a service's unhealthy objects, by uid, as far as they are known, and when to ask again:
// zero means never, which is so when none is unhealthy. It asks the cluster when that is due, which takes a moment. Nothing is
// kept or returned that mask has not seen.
func (r *Reader) Of(
	ctx context.Context, service string, unhealthy []Object, mask func(string) string,
) (warnings map[string][]string, again time.Duration) {
	now := time.Now()
	r.mu.Lock()
	if len(unhealthy) == 0 {
		delete(r.services, service)
		r.mu.Unlock()
		return nil, 0
	}
	m := r.services[service]
	if m == nil {
		m = &memory{}
		r.services[service] = m
	}
	seen := make(map[string]bool, len(unhealthy))
	for _, o := range unhealthy {
		if soon := now.Add(patience); !m.refused && !m.seen[o.UID] && (m.due.IsZero() || m.due.After(soon)) {
			m.due, m.pause = soon, patience
		}
		seen[o.UID] = true
	}
	m.seen = seen
	if wait := m.due.Sub(now); wait > 0 {
		defer r.mu.Unlock()
		return m.warnings, wait
	}
	m.due, m.pause = now.Add(m.pause), min(2*m.pause, longest)
	r.mu.Unlock()

	asking, done := context.WithTimeout(ctx, timeout)
	defer done()
	found, err := r.Read(asking, unhealthy, mask)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case apierrors.IsForbidden(err):
		m.due, m.pause, m.refused, m.warnings = now.Add(longest), longest, true, nil
	case err == nil:
		m.refused, m.warnings = false, found
	}
	if err != nil && ctx.Err() == nil {
		r.log.Debug("events of unhealthy objects cannot be read", "service", service, "error", err)
	}
	return m.warnings, max(time.Until(m.due), time.Second) // the answer may have taken longer than the pause
}

// Said are the newest warnings that are known about an object, or about what hangs below one, of some service.
func (r *Reader) Said(service, uid string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.services[service]; m != nil {
		return m.warnings[uid]
	}
	return nil
}

// Read asks for the newest warnings about objects and what hangs below them, by uid, each as mask lets it be seen.
func (r *Reader) Read(ctx context.Context, objects []Object, mask func(string) string) (map[string][]string, error) {
	catalog, err := r.kinds.With(ctx, nil)
	if err != nil {
		return nil, err
	}
	in := map[string][]Object{}
	for _, o := range objects {
		namespace := cmp.Or(o.ID.Namespace, metav1.NamespaceDefault) // where Events are of what has no namespace
		in[namespace] = append(in[namespace], o)
	}
	found := map[string][]warning{}
	var refused error
	for _, namespace := range slices.Sorted(maps.Keys(in))[:min(len(in), maxNamespaces)] {
		all, err := r.list(ctx, namespace)
		if apierrors.IsForbidden(err) {
			refused = err
			continue
		}
		if err != nil {
			return nil, err
		}
		b := below{objects: r.objects, catalog: catalog, roots: in[namespace], known: map[string]*unstructured.Unstructured{}}
		for _, w := range all { // the newest first, since only so many objects are looked at
			for _, uid := range b.of(ctx, &w) {
				found[uid] = append(found[uid], b.told(w))
			}
		}
	}
	if refused != nil && len(found) == 0 {
		return nil, refused
	}
	texts := make(map[string][]string, len(found))
	for uid, list := range found {
		texts[uid] = newest(list, uid, mask)
	}
	return texts, nil
}

// warning is an Event.
type warning struct {
	about   Object
	version string // of the kind
	// reason is empty where text is what an object says of itself.
	reason, text string
	at           time.Time
}

// list returns a namespace's warnings, the newest first.
func (r *Reader) list(ctx context.Context, namespace string) ([]warning, error) {
	var all []warning
	resource := schema.GroupVersionResource{Version: "v1", Resource: "events"}
	options := metav1.ListOptions{FieldSelector: "type=Warning", Limit: pageSize}
	for range maxPages {
		page, err := r.objects.Resource(resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			all = append(all, read(page.Items[i].Object))
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b warning) int { return b.at.Compare(a.at) })
	return all, nil
}

// read takes what counts out of an Event.
func read(event map[string]any) warning {
	field := func(path ...string) string {
		text, _, _ := unstructured.NestedString(event, path...)
		return text
	}
	gv, _ := schema.ParseGroupVersion(field("involvedObject", "apiVersion")) // an Event about nothing is about no object of ours
	w := warning{
		about: Object{
			ID: object.ID{
				Group: gv.Group, Kind: field("involvedObject", "kind"),
				Namespace: field("involvedObject", "namespace"), Name: field("involvedObject", "name"),
			},
			UID: field("involvedObject", "uid"),
		},
		version: gv.Version, reason: field("reason"), text: field("message"),
	}
	for _, path := range [][]string{
		{"series", "lastObservedTime"}, {"lastTimestamp"}, {"eventTime"}, {"metadata", "creationTimestamp"},
	} {
		if at, err := time.Parse(time.RFC3339, field(path...)); err == nil {
			w.at = at
			break
		}
	}
	return w
}

// clean makes one line of a text from outside, which an API server bounds to 1 KiB.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }), " ")
}

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// newest are the first warnings that differ, as they are told of an object, in an order of their own: what is repeated in turn
// is no news. Replicas that suffer the same say it once.
func newest(list []warning, uid string, mask func(string) string) []string {
	var texts []string
	said, looked := map[string]bool{}, map[[3]string]bool{}
	for _, w := range list {
		raw := [3]string{w.about.ID.Kind, w.reason, w.text}
		if looked[raw] {
			continue
		}
		if looked[raw] = true; len(texts) == maxWarnings || len(looked) > maxMasked {
			break
		}
		text := clip(clean(mask(w.text))) // what is changed before it is masked could no longer be told
		if w.reason != "" {
			text = clean(mask(w.reason)) + ": " + text
		}
		same := w.about.ID.Kind + " " + text
		if said[same] {
			continue
		}
		said[same] = true
		if w.about.UID != uid && w.reason != "" {
			text = w.about.ID.Kind + " " + mask(w.about.ID.Name) + ": " + text
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}
