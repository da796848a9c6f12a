package apiproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/pluralsh/plural/api/tunnelapi"
)

func bare() *account {
	return &account{name: "plural-agent-reach", now: time.Now, known: map[subject]bool{}, asking: make(turn, 1), granting: make(turn, 1)}
}

// A request whose person has gone waited for the looks of all before it.
func TestNobodyWaitsForAnothersTurnLongerThanTheirRequest(t *testing.T) {
	a := bare()
	for _, held := range []turn{a.asking, a.granting} {
		if err := held.take(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := a.admit(gone, &tunnelapi.Identity{User: "plural:ana"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the role: %v", err)
	}
	if _, err := a.get(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a token: %v", err)
	}
	a.token, a.expires = "old", time.Now().Add(time.Minute)
	if token, err := a.get(gone); token != "old" || err != nil {
		t.Errorf("a token that is still good: %q, %v", token, err)
	}
}

// Long names made the role larger than an API server keeps, long before there were two thousand: nobody new was let in.
func TestTheRoleIsNoLargerThanAnAPIServerKeeps(t *testing.T) {
	a := bare()
	a.own = fake.NewSimpleDynamicClient(runtime.NewScheme(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": a.name + peopleRole},
	}})
	group := func(i int, filler string) subject {
		return subject{"groups", fmt.Sprintf("plural:%04d-", i) + strings.Repeat(filler, 1000)}
	}
	roles := a.own.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"})
	for i := range 1200 {
		wanted := []subject{group(i, "x")}
		names, err := a.grant(t.Context(), wanted)
		if err != nil || !names[wanted[0]] {
			t.Fatalf("group %d is not let in: %v", i, err)
		}
		if i%100 != 0 {
			continue
		}
		role, err := roles.Get(t.Context(), a.name+peopleRole, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(role.Object); err != nil || len(text) > maxRules+1000 {
			t.Fatalf("with group %d the role has %d bytes, %v", i, len(text), err)
		}
	}
	var many []subject
	for i := range maxNames {
		many = append(many, group(i, "<")) // six bytes in JSON
	}
	if _, err := a.grant(t.Context(), many); err == nil || !strings.Contains(err.Error(), "bytes of a ClusterRole") {
		t.Errorf("one person with too many: %v", err)
	}
}
