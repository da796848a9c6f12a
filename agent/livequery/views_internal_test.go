package livequery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/kubewatch"
)

func lone() *table {
	t := newTable(New(Options{}), place{}, schema.GroupVersionKind{}, kinds.Resource{})
	t.stop = func() {}
	t.views.tables[t.at] = t
	return t
}

func item(n int) kubewatch.Item[seen] {
	name := strconv.Itoa(n)
	return kubewatch.Item[seen]{
		Name: name, Version: name,
		Value: seen{Object: &tunnelapi.Object{Uid: "u" + name, Name: name, ResourceVersion: name}},
	}
}

func TestAViewOfTooManyObjectsEnds(t *testing.T) {
	whole := make([]kubewatch.Item[seen], MaxObjects)
	for i := range whole {
		whole[i] = item(i)
	}
	for name, add := range map[string]func(*table){
		"at first": func(t *table) { t.Replace(append(whole, item(MaxObjects)), "1") },
		"by and by": func(t *table) {
			t.Replace(whole, "1")
			t.Put(item(MaxObjects))
		},
	} {
		t.Run(name, func(t *testing.T) {
			table := lone()
			add(table)
			why := table.failure()
			if why == nil || why.Code != codes.ResourceExhausted || why.Fix == "" || table.views.Tables() != 0 {
				t.Errorf("it ends with %v", why)
			}
		})
	}
}

func TestAReaderThatIsFarBehindIsLetGo(t *testing.T) {
	table := lone()
	r := table.read(make(chan struct{}, 1), true)
	for i := range maxUnsent + 2 {
		table.Put(item(i))
		table.Delete(item(i))
	}
	var typed *Error
	if _, _, err := table.take(r); !errors.As(err, &typed) || typed.Code != codes.ResourceExhausted || len(r.changed) > maxUnsent+1 {
		t.Errorf("%d changes are kept, %v", len(r.changed), err)
	}
}

func TestEventsFitInAMessage(t *testing.T) {
	var sent []*tunnelapi.ObjectsEvent
	out := outlet{send: func(e *tunnelapi.ObjectsEvent) error {
		sent = append(sent, e)
		return nil
	}}
	var objects []*tunnelapi.Object
	var uids []string
	for i := range 20_000 {
		uids = append(uids, fmt.Sprintf("%036d", i))
		objects = append(objects, &tunnelapi.Object{Uid: uids[i], Name: "a-name-of-some-length", Message: "and a message"})
	}
	if err := out.put(objects, uids); err != nil {
		t.Fatal(err)
	}
	changed, deleted := 0, 0
	for i, e := range sent {
		changed, deleted = changed+len(e.GetChanged()), deleted+len(e.GetDeleted())
		if proto.Size(e) > tunnelapi.MaxMessage/2 || e.GetSnapshot() != (i == len(sent)-1) {
			t.Errorf("event %d of %d: %d bytes, snapshot %t", i, len(sent), proto.Size(e), e.GetSnapshot())
		}
	}
	if changed != len(objects) || deleted != len(uids) {
		t.Errorf("%d and %d were sent", changed, deleted)
	}
	if sent = nil; out.put(nil, nil) != nil || sent != nil {
		t.Error("nothing is sent when there is nothing to say")
	}
}

func TestNobodyLooksAfterTheAgentsEnd(t *testing.T) {
	v := New(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = v.Run(ctx)
	var typed *Error
	if _, err := v.open(place{}, lone().kind, lone().res); !errors.As(err, &typed) || typed.Code != codes.Unavailable {
		t.Error(err)
	}
}

func TestWhatBecomesASecretLaterIsMaskedForWhoLooksLater(t *testing.T) {
	table, secret := lone(), "nothing yet"
	table.views.o.Mask = func(_, text string) string { return strings.ReplaceAll(text, secret, "***") }
	table.Put(kubewatch.Item[seen]{Name: "a", Version: "1", Value: seen{&tunnelapi.Object{Uid: "a", Message: "hunter2 is no user"}, "web"}})
	for _, step := range []struct{ secret, want string }{{"nothing yet", "hunter2 is no user"}, {"hunter2", "*** is no user"}} {
		secret = step.secret
		shown, _, err := table.take(table.read(make(chan struct{}, 1), true))
		if err != nil || len(shown) != 1 || shown[0].GetMessage() != step.want {
			t.Errorf("shown: %v, %v; want %q", shown, err, step.want)
		}
	}
}

// Of an object without a label nothing is shown while some service has not been opened; but below an object it is known whose it is.
func TestWhatHangsBelowAServicesObjectIsMaskedForThatService(t *testing.T) {
	table := lone()
	table.views.o.Mask = func(service, text string) string {
		if service == "" {
			return ""
		}
		return "of " + service + ": " + text
	}
	for name, service := range map[string]string{"pod": "", "other": "db"} {
		o := &tunnelapi.Object{Uid: name, Owner: "root", Message: "waits"}
		table.Put(kubewatch.Item[seen]{Name: name, Version: "1", Value: seen{o, service}})
	}
	got := map[string]string{}
	for _, o := range table.children("root") {
		got[o.GetUid()] = o.GetMessage()
	}
	if want := map[string]string{"pod": "waits", "other": "of db: waits"}; !maps.Equal(got, want) {
		t.Errorf("handed to the tree, which masks them for its service: %v, want %v", got, want)
	}
	if shown, _, err := table.take(table.read(make(chan struct{}, 1), true)); err != nil || len(shown) != 2 ||
		slices.ContainsFunc(shown, func(o *tunnelapi.Object) bool { return o.GetMessage() == "waits" }) {
		t.Errorf("shown by itself: %v, %v", shown, err)
	}
}
