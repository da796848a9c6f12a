package apiproxy

import (
	"context"
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/internal/kubewatch"
)

// Where a cluster's policy is kept.
const (
	Namespace = "plural-system"
	ConfigMap = "plural-agent-reach"
)

// Follow calls set with the policy at once, and again each time that it changed, until ctx ends, whose error it returns. Without a
// ConfigMap everything is left to RBAC. Until it is known that there is none, and while it cannot be read, nothing is let
// through; a watch that breaks for a passing reason changes nothing. Calls follow each other.
func Follow(ctx context.Context, client dynamic.Interface, log *slog.Logger, set func(Policy)) error {
	f := &follower{log: log, set: set}
	f.off()
	watch := kubewatch.Watch[verdict]{
		Source: kubewatch.Objects(client, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace),
		Fields: "metadata.name=" + ConfigMap,
		Reduce: judge,
		Sink:   f,
		Failed: f.fail,
	}
	watch.Run(ctx)
	return ctx.Err()
}

// verdict is a policy, or why there is none.
type verdict struct {
	policy Policy
	err    error
}

func judge(obj metav1.Object) verdict {
	config, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return verdict{err: &PolicyError{"", "it is no object", "write it anew"}}
	}
	data, _, err := unstructured.NestedStringMap(config.Object, "data")
	if err != nil {
		return verdict{err: &PolicyError{"data", err.Error(), "write texts"}}
	}
	if binary, _, _ := unstructured.NestedMap(config.Object, "binaryData"); len(binary) > 0 {
		return verdict{err: &PolicyError{"binaryData", "there is binary data", "write mode and rules as texts"}}
	}
	p, err := ParsePolicy(data)
	return verdict{p, err}
}

// follower hands on what the watch sees.
type follower struct {
	log *slog.Logger
	set func(Policy)
	// refused says that the watch was, and that this has been said.
	refused bool
}

func (f *follower) off() { f.set(Policy{Mode: Off}) }

func (f *follower) Replace(items []kubewatch.Item[verdict], _ string) {
	f.refused = false
	if len(items) == 0 {
		f.set(Policy{Mode: Full})
	}
	for _, item := range items {
		f.Put(item)
	}
}

func (f *follower) Put(item kubewatch.Item[verdict]) {
	if err := item.Value.err; err != nil {
		f.log.Error("people are not let in: the policy cannot be read", "error", err)
		f.off()
		return
	}
	f.set(item.Value.policy)
}

func (f *follower) Delete(kubewatch.Item[verdict]) { f.set(Policy{Mode: Full}) }

func (f *follower) fail(err *kubewatch.Error) {
	if !err.Refused() && !err.Unserved() {
		return
	}
	f.off()
	if !f.refused {
		f.refused = true
		f.log.Error("people are not let in: the policy cannot be watched", "error", err, "fix", err.Fix())
	}
}
