package watchcache

import (
	"context"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/internal/kubewatch"
)

// retryPause is how long after a failed try Follow takes its error for today's.
const retryPause = time.Second

// kindWatch is the watch of one kind, with what it knows. The Observer's mutex guards all that changes.
type kindWatch struct {
	observer *Observer
	kind     schema.GroupKind
	res      kinds.Resource
	whole    bool
	stop     context.CancelFunc
	again    chan struct{}

	// known is closed when a try has shown whether the kind is followed.
	known  chan struct{}
	synced bool
	err    *kubewatch.Error
	failed time.Time

	facts map[object.ID]Facts
	// gone are uids of objects that an own request deleted, of which the watch has yet to say so.
	gone map[object.ID]string
	// version is the resourceVersion up to which the watch has told everything; 0 when that cannot be known.
	version uint64
}

func newKindWatch(o *Observer, gk schema.GroupKind, res kinds.Resource, whole bool) *kindWatch {
	return &kindWatch{
		observer: o, kind: gk, res: res, whole: whole, again: make(chan struct{}, 1), known: make(chan struct{}),
		facts: map[object.ID]Facts{}, gone: map[object.ID]string{},
	}
}

func (k *kindWatch) run(ctx context.Context) {
	source := kubewatch.Metadata(k.observer.o.Metadata, k.res.GroupVersionResource, metav1.NamespaceAll)
	if k.whole {
		source = kubewatch.Objects(k.observer.o.Objects, k.res.GroupVersionResource, metav1.NamespaceAll)
	}
	watch := kubewatch.Watch[Facts]{
		Source: source, Labels: object.ServiceLabel, Reduce: k.reduce, Sink: k, Failed: k.fail, Again: k.again,
	}
	watch.Run(ctx)
}

func (k *kindWatch) reduce(obj metav1.Object) Facts {
	if whole, ok := obj.(*unstructured.Unstructured); ok {
		return Of(whole, k.observer.o.Judge(whole.GetLabels()[object.ServiceLabel]))
	}
	return OfMetadata(obj)
}

// retry makes the next try due, which Follow then waits for.
func (k *kindWatch) retry() {
	select {
	case <-k.known:
		k.known = make(chan struct{})
	default: // somebody waits for one already
	}
	select {
	case k.again <- struct{}{}:
	default:
	}
}

func (k *kindWatch) settle() {
	select {
	case <-k.known:
	default:
		close(k.known)
	}
}

// end lets whoever waits for this watch look who took its place.
func (k *kindWatch) end() {
	k.stop()
	k.settle()
}

// news collects whom to tell of what, once the mutex is free.
type news struct {
	services []string
	ids      []object.ID
}

func (n *news) add(service string, id object.ID) {
	n.services, n.ids = append(n.services, service), append(n.ids, id)
}

// update calls change with the mutex held, unless another watch took this one's place, and then tells its news.
func (k *kindWatch) update(change func(*news)) {
	var n news
	k.observer.mu.Lock()
	if k.observer.watches[k.kind] == k {
		change(&n)
	}
	k.observer.mu.Unlock()
	for i, service := range n.services {
		k.observer.o.Changed(service, n.ids[i])
	}
}

// fail notes why the kind is not followed. Of a kind that is served no longer there are no objects.
func (k *kindWatch) fail(err *kubewatch.Error) {
	k.update(func(n *news) {
		if k.err == nil || k.err.Fix() != err.Fix() { // once an outage, whatever else is said of it
			k.observer.o.Log.Warn("kind cannot be watched", "kind", k.kind.String(), "error", err, "fix", err.Fix())
		}
		k.err, k.failed = err, time.Now()
		if err.Unserved() {
			k.synced = false
			for id, f := range k.facts {
				n.add(f.Owner, id)
				k.remove(id)
			}
		}
		k.settle()
	})
}

// Replace implements kubewatch.Sink. What own answers said later than the list stays, unless the list shows that the
// cluster's clock was turned back, as by a restore.
func (k *kindWatch) Replace(items []kubewatch.Item[Facts], version string) {
	k.update(func(n *news) {
		now := number(version)
		restored := now < k.version
		listed := make(map[object.ID]bool, len(items))
		for _, item := range items {
			id := k.id(item.Namespace, item.Name)
			listed[id] = true
			if k.gone[id] == item.Value.UID {
				continue
			}
			if f, known := k.facts[id]; !known || restored || number(f.ResourceVersion) <= now {
				k.see(id, item.Value, n)
			}
		}
		for id := range k.gone {
			if !listed[id] {
				delete(k.gone, id)
			}
		}
		for id, f := range k.facts {
			if !listed[id] && (restored || number(f.ResourceVersion) <= now) {
				n.add(f.Owner, id)
				k.remove(id)
			}
		}
		if k.err != nil {
			k.observer.o.Log.Info("kind is watched again", "kind", k.kind.String())
		}
		k.version, k.synced, k.err = now, true, nil
		k.settle()
	})
}

// Put implements kubewatch.Sink.
func (k *kindWatch) Put(item kubewatch.Item[Facts]) {
	k.update(func(n *news) {
		id := k.id(item.Namespace, item.Name)
		k.reach(item.Version)
		if f, known := k.facts[id]; k.gone[id] != item.Value.UID && !(known && older(item.Version, f.ResourceVersion)) {
			k.see(id, item.Value, n)
		}
	})
}

// Delete implements kubewatch.Sink.
func (k *kindWatch) Delete(item kubewatch.Item[Facts]) {
	k.update(func(n *news) {
		id := k.id(item.Namespace, item.Name)
		k.reach(item.Version)
		if k.gone[id] == item.Value.UID {
			delete(k.gone, id)
		}
		if f, known := k.facts[id]; known && !older(item.Version, f.ResourceVersion) {
			n.add(f.Owner, id)
			k.remove(id)
		}
	})
}

// see puts in what the watch saw.
func (k *kindWatch) see(id object.ID, f Facts, n *news) {
	before, known := k.facts[id]
	k.put(id, f)
	if known && before.same(f) {
		return
	}
	n.add(f.Owner, id)
	if known && before.Owner != f.Owner {
		n.add(before.Owner, id)
	}
}

func (k *kindWatch) put(id object.ID, f Facts) {
	if before, known := k.facts[id]; known && before.Owner != f.Owner {
		k.observer.unindex(id, before.Owner)
	}
	k.facts[id] = f
	k.observer.index(id, f.Owner)
	if f.Health.Until != 0 {
		k.observer.expect(id, f)
	}
}

func (k *kindWatch) remove(id object.ID) {
	k.observer.unindex(id, k.facts[id].Owner)
	delete(k.facts, id)
}

func (k *kindWatch) id(namespace, name string) object.ID {
	return object.ID{Group: k.kind.Group, Kind: k.kind.Kind, Namespace: namespace, Name: name}
}

func (k *kindWatch) reach(version string) { k.version = max(k.version, number(version)) }

// ahead says that the watch has not come to a resourceVersion yet. One that is no number is never ahead.
func (k *kindWatch) ahead(version string) bool { return number(version) > k.version }

// older says that both are numbers, and the first is less.
func older(version, than string) bool {
	v := number(version)
	return v != 0 && v < number(than)
}

// number reads a resourceVersion, which is opaque by its contract, and a count of changes at every API server that keeps
// its objects in etcd. Of others it is 0.
func number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
