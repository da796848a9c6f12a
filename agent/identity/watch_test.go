package identity_test

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/internal/kubewatch"
)

type seen struct {
	registration identity.Registration
	err          error
}

// watch tells what is seen until the test ends.
func watch(t *testing.T, client dynamic.Interface) <-chan seen {
	t.Helper()
	sightings, ended := make(chan seen, 100), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- identity.Watch(ctx, client, func(r identity.Registration, err error) { sightings <- seen{r, err} })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch = %v", err)
		}
	})
	return sightings
}

func next(t *testing.T, sightings <-chan seen) seen {
	t.Helper()
	select {
	case s := <-sightings:
		return s
	case <-time.After(time.Minute):
		t.Fatal("nothing is seen")
		return seen{}
	}
}

func TestWatchSeesEachRegistration(t *testing.T) {
	kube := unregistered(t).Dynamic
	secrets := kube.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(identity.Namespace)
	first, second := registration(t, "https://one"), registration(t, "https://two")
	write := func(r identity.Registration) {
		t.Helper()
		if err := identity.Write(t.Context(), kube, r); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	sightings := watch(t, kube)
	if s := next(t, sightings); s.err != nil || !s.registration.Equal(first) {
		t.Errorf("seen %s, %v", s.registration.HubURL, s.err)
	}
	if _, err := secrets.Patch(t.Context(), identity.SecretName, types.MergePatchType, []byte(`{"data":{"hub-url":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if s := next(t, sightings); s.err == nil {
		t.Errorf("a broken registration is seen as %+v", s.registration)
	}
	if err := secrets.Delete(t.Context(), identity.SecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	write(second)
	if s := next(t, sightings); s.err != nil || !s.registration.Equal(second) {
		t.Errorf("seen %s, %v", s.registration.HubURL, s.err)
	}
}

func TestARefusedWatchIsTold(t *testing.T) {
	config := rest.CopyConfig(unregistered(t).RESTConfig)
	config.Impersonate.UserName = "nobody"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var refused *kubewatch.Error
	if s := next(t, watch(t, client)); !errors.As(s.err, &refused) || !refused.Refused() {
		t.Errorf("seen %v", s.err)
	}
}
