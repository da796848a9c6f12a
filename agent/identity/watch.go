package identity

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/internal/kubewatch"
)

// Watch calls seen with the registration that the Secret holds, and again each time that it was written, until ctx ends,
// whose error it returns. What cannot be read is told with the reason. A watch that is refused or broken is told once, and is
// tried again. A Secret that is not there, or was deleted, is not told: that is no news of whom the agent belongs to. The
// client must have no overall timeout. Calls follow each other, and seen must not wait for long.
func Watch(ctx context.Context, client dynamic.Interface, seen func(Registration, error)) error {
	s := &sightings{seen: seen}
	watch := kubewatch.Watch[sighting]{
		Source: kubewatch.Objects(client, secrets(), Namespace),
		Fields: "metadata.name=" + SecretName,
		Reduce: look,
		Sink:   s,
		Failed: s.fail,
	}
	watch.Run(ctx)
	return ctx.Err()
}

// sighting is a registration, or why there is none.
type sighting struct {
	registration Registration
	err          error
}

func look(obj metav1.Object) sighting {
	secret, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return sighting{err: fmt.Errorf("secret %s/%s: it came as %T", Namespace, SecretName, obj)}
	}
	r, err := parse(secret)
	return sighting{r, err}
}

// sightings hands on what the watch sees.
type sightings struct {
	seen    func(Registration, error)
	failing bool
}

func (s *sightings) Replace(items []kubewatch.Item[sighting], _ string) {
	s.failing = false
	for _, item := range items {
		s.Put(item)
	}
}

func (s *sightings) Put(item kubewatch.Item[sighting]) {
	s.seen(item.Value.registration, item.Value.err)
}

func (s *sightings) Delete(kubewatch.Item[sighting]) {}

func (s *sightings) fail(err *kubewatch.Error) {
	if s.failing {
		return
	}
	s.failing = true
	said := fmt.Errorf("watch secret %s/%s: %w", Namespace, SecretName, err)
	if fix := err.Fix(); fix != "" {
		said = fmt.Errorf("%w: %s", said, fix)
	}
	s.seen(Registration{}, said)
}
