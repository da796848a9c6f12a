package addrlimit

import (
	"fmt"
	"testing"
	"time"
)

func TestAskingWhetherTriesAreLeftTakesNone(t *testing.T) {
	now := time.Now()
	l := New(2, time.Second, func() time.Time { return now })
	for range 10 {
		if l.Spent("192.0.2.1") {
			t.Fatal("an address that tried nothing has no try left")
		}
	}
	if !l.Allow("192.0.2.1") || l.Spent("192.0.2.1") || !l.Allow("192.0.2.1") || !l.Spent("192.0.2.1") {
		t.Error("two tries are not two")
	}
	if l.Spent("192.0.2.2") {
		t.Error("another address has no try left")
	}
	if now = now.Add(time.Second); l.Spent("192.0.2.1") {
		t.Error("a try does not come back")
	}
}

func TestAddressesBeyondTheBoundShareOneAllowance(t *testing.T) {
	now := time.Now()
	l := New(2, time.Hour, func() time.Time { return now })
	for i := range maxSenders {
		l.Allow(fmt.Sprintf("10.0.%d.%d", i/256, i%256))
	}
	for range 2 {
		l.Allow("203.0.113.1")
	}
	if !l.Spent("203.0.113.2") || l.Allow("203.0.113.2") || len(l.senders) > maxSenders {
		t.Error("there is an allowance for each of any number of addresses")
	}
	if l.Spent("10.0.0.1") {
		t.Error("an address that is remembered lost its own")
	}
}
