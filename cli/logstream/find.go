package logstream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
)

const (
	// atOnce is how many clusters are asked at the same time.
	atOnce = 8
	// together is how long the clusters that answer wait for the others, so that what is read has an order.
	together = time.Second
	// hurried is how long a cluster among others is asked of which the hub says that its API server does not answer.
	hurried = 2 * time.Second
)

// answer are the service's pods on one cluster, or why they are not known.
type answer struct {
	cluster string
	pods    []Pod
	// waiting is what is said of those that are not well.
	waiting map[Pod]string
	err     error
}

// take are the pods of an answer. That there are none since the cluster does not answer is told.
func (p *pods) take(ctx context.Context, a answer) []Pod {
	if a.err != nil && ctx.Err() == nil {
		p.Problem(a.cluster, a.err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range a.pods {
		p.waiting[pod] = a.waiting[pod]
	}
	return a.pods
}

// ofService finds a service's pods on the clusters that are meant. A cluster that does not answer is told, and left out; that
// none does is an error. Whose pods are known is not kept waiting by the others, which answer late.
func (p *pods) ofService(ctx context.Context, of Of) (found []Pod, late <-chan answer, err error) {
	clusters, err := where(ctx, p.Hub, of)
	if err != nil {
		return nil, nil, err
	}
	answers := p.askAll(ctx, clusters, of)
	patience := time.After(together)
	for failed, expired := 0, false; ; {
		select {
		case <-patience:
			expired = true
		case a, more := <-answers:
			switch {
			case !more && failed == len(clusters):
				return nil, nil, ErrNone
			case !more:
				return sorted(found), nil, nil
			case a.err != nil && len(clusters) == 1:
				return nil, nil, a.err
			case a.err != nil:
				failed++
			}
			found = append(found, p.take(ctx, a)...)
		}
		if expired && len(found) > 0 {
			return sorted(found), answers, nil
		}
	}
}

// askAll asks clusters for a service's pods. The channel is closed when all have answered.
func (p *pods) askAll(ctx context.Context, clusters []v1.Deployment, of Of) <-chan answer {
	answers := make(chan answer, len(clusters)) // nobody has to take them
	go func() {
		defer close(answers)
		var group errgroup.Group
		group.SetLimit(atOnce)
		for i := range clusters {
			group.Go(func() error {
				ctx, d := ctx, &clusters[i]
				if d.Unreached && len(clusters) > 1 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeoutCause(ctx, hurried, errors.New(d.Message))
					defer cancel()
				}
				answers <- on(ctx, p.Hub, d.Cluster, of)
				return nil // the others go on
			})
		}
		_ = group.Wait()
	}()
	return answers
}

// where is the service on the clusters that are meant.
func where(ctx context.Context, hub *client.Client, of Of) ([]v1.Deployment, error) {
	s, err := hub.Service(ctx, of.Service)
	if err != nil {
		return nil, err
	}
	for _, name := range of.Clusters {
		if !slices.ContainsFunc(s.Deployments, func(d v1.Deployment) bool { return d.Cluster == name }) {
			return nil, &ElsewhereError{of.Service, name}
		}
	}
	if len(s.Deployments) == 0 {
		return nil, &ElsewhereError{Service: of.Service}
	}
	return slices.DeleteFunc(s.Deployments, func(d v1.Deployment) bool {
		return len(of.Clusters) > 0 && !slices.Contains(of.Clusters, d.Cluster)
	}), nil
}

// on are the service's pods on one cluster.
func on(ctx context.Context, hub *client.Client, cluster string, of Of) answer {
	a := answer{cluster: cluster, waiting: map[Pod]string{}}
	objects, err := hub.ServiceObjects(ctx, cluster, of.Service)
	if err == nil {
		err = hub.HiddenPods(ctx, cluster, objects.Items)
	}
	if a.err = err; err != nil {
		return a
	}
	owners := map[string]string{}
	for i := range objects.Items {
		owners[objects.Items[i].UID] = objects.Items[i].Owner
	}
	for i := range objects.Items {
		o := &objects.Items[i]
		if o.Group != "" || o.Kind != "Pod" || !hangsBelow(owners, o.UID, of.Below) {
			continue
		}
		pod := Pod{cluster, o.Namespace, o.Name}
		if a.pods = append(a.pods, pod); o.Health != v1.ObjectHealthy {
			a.waiting[pod] = o.Message
		}
	}
	return a
}

// hangsBelow says whether an object is another one, or is owned by it, through others perhaps.
func hangsBelow(owners map[string]string, uid, above string) bool {
	for range len(owners) { // no further, for owners may go round in a circle
		if above == "" || uid == above {
			return true
		}
		uid = owners[uid]
	}
	return false
}

func sorted(list []Pod) []Pod {
	slices.SortFunc(list, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}
