package onetime_test

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/onetime"
)

func TestOfThoseWhoComeAtOnceOneIsTheFirst(t *testing.T) {
	nats, err := natsd.Start(t.Context(), natsd.Options{Dir: t.TempDir(), Name: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer nats.Close()
	var replicas [2]*onetime.Record
	for i := range replicas {
		replicas[i] = onetime.New(nats.JetStream(), 1)
	}
	var asking sync.WaitGroup
	var first atomic.Int32
	for n := range 16 {
		asking.Go(func() {
			was, err := replicas[n%2].Spend(t.Context(), "ID1")
			if err != nil {
				t.Error(err)
			}
			if was {
				first.Add(1)
			}
		})
	}
	asking.Wait()
	if first.Load() != 1 {
		t.Errorf("%d are the first", first.Load())
	}
	if was, err := replicas[0].Spend(t.Context(), "ID2"); !was || err != nil {
		t.Errorf("another: %v, %v", was, err)
	}
	nats.Close()
	if was, err := replicas[0].Spend(t.Context(), "ID3"); was || err == nil {
		t.Errorf("while nobody can tell: %v, %v", was, err)
	}
}
