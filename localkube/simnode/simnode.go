// Package simnode owns the nodes of a local cluster, which only pretend to run pods.
//
// It refuses to know about images, volumes, networks or processes: a pod bound to
// one of its nodes becomes Running and Ready at once, a pod of a Job succeeds a
// second later, and a pod to be deleted is deleted. The tag of an image may ask for
// a failure, which its containers then simulate. Whatever it touches says that it
// is simulated: a label and an annotation on nodes, a condition and a message on pods.
//
// Data passes through like this: an informer tells which pods of these nodes
// changed; desiredStatus computes from the pod alone what its status should be, so that pods
// from before a restart need no memory of them; a difference is patched in, and told as events.
package simnode

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
)

// What marks simulated objects.
const (
	// LabelSimulated is "true" on every node of this package.
	LabelSimulated = "plural.sh/simulated"
	// Explanation is the annotation of nodes and the message of conditions.
	Explanation = "simulated nodes: no containers run"

	conditionSimulated = "plural.sh/Simulated"
)

// heartbeat is how often a node renews its lease, the rhythm of a kubelet.
const heartbeat = 10 * time.Second

// Simulator keeps a number of nodes alive, and the pods bound to them.
type Simulator struct {
	Client  kubernetes.Interface
	Nodes   int            // at least 1
	Version string         // Kubernetes version the nodes claim
	Kubelet netip.AddrPort // where the kubelets of all nodes answer
	Log     *slog.Logger
}

// Run registers the nodes, removes simulated ones beyond their number, and works
// until ctx ends. The error is the first reason why it could not go on.
func (s *Simulator) Run(ctx context.Context) error {
	if err := s.register(ctx); err != nil {
		return err
	}
	var heartbeats sync.WaitGroup
	heartbeats.Go(func() { s.beat(ctx) })
	defer heartbeats.Wait()
	return s.runPods(ctx)
}

// beat renews the leases until ctx ends. A renewal that fails is tried again at
// the next beat, well before the lease runs out.
func (s *Simulator) beat(ctx context.Context) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		for i := range s.Nodes {
			if err := s.renewLease(ctx, nodeName(i)); err != nil && ctx.Err() == nil {
				s.Log.Warn("node lease was not renewed", "node", nodeName(i), "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func nodeName(i int) string { return fmt.Sprintf("simulated-%d", i+1) }
