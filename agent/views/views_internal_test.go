package views

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/api/channel"
	"github.com/pluralsh/plural/internal/kubewatch"
)

func lone() *table {
	t := newTable(New(Options{}), place{}, schema.GroupVersionKind{}, kinds.Resource{})
	t.stop = func() {}
	t.views.tables[t.at] = t
	return t
}

func item(n int) kubewatch.Item[*channel.Object] {
	name := strconv.Itoa(n)
	return kubewatch.Item[*channel.Object]{Name: name, Version: name, Value: &channel.Object{Uid: "u" + name, Name: name, ResourceVersion: name}}
}

func TestAViewOfTooManyObjectsEnds(t *testing.T) {
	whole := make([]kubewatch.Item[*channel.Object], MaxObjects)
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
	var sent []*channel.ObjectsEvent
	out := outlet{send: func(e *channel.ObjectsEvent) error {
		sent = append(sent, e)
		return nil
	}}
	var objects []*channel.Object
	var uids []string
	for i := range 20_000 {
		uids = append(uids, fmt.Sprintf("%036d", i))
		objects = append(objects, &channel.Object{Uid: uids[i], Name: "a-name-of-some-length", Message: "and a message"})
	}
	if err := out.put(objects, uids); err != nil {
		t.Fatal(err)
	}
	changed, deleted := 0, 0
	for i, e := range sent {
		changed, deleted = changed+len(e.GetChanged()), deleted+len(e.GetDeleted())
		if proto.Size(e) > channel.MaxMessage/2 || e.GetSnapshot() != (i == len(sent)-1) {
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
