package tunnel_test

import (
	"crypto/ed25519"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// TestAKeyThatChangesWhileItsConnectionIsMadeIsNotMissed takes the key away, or replaces it, between two looks at it, when there is
// nothing yet that Recheck could end: whoever had the old one must not keep a connection.
func TestAKeyThatChangesWhileItsConnectionIsMadeIsNotMissed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		// at counts the looks at the key.
		at     int32
		change func(*fleet, string)
		// before says that whoever looks sees the change.
		before bool
	}{
		"revoked while it is registered": {2, (*fleet).revoke, false},
		"replaced once it was verified":  {1, (*fleet).register, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet()
			var hub atomic.Pointer[replica]
			var looks atomic.Int32
			hub.Store(f.hub(t, "hub-0", func(s *settings) {
				s.Key = func(cluster string) ed25519.PublicKey {
					key := f.key(cluster)
					if looks.Add(1) == tt.at {
						tt.change(f, cluster)
						hub.Load().Recheck()
						if tt.before {
							key = f.key(cluster)
						}
					}
					return key
				}
			}))
			a := f.agent(t, "edge", []*replica{hub.Load()})
			eventually(t, "the agent is turned away", func() bool { return a.log.says("no connection to the hub") })
			hub.Load().connected(0)
		})
	}
}

// A9: an agent does not get to say more by connecting again.
func TestEventsAreBoundedForAClusterHoweverOftenItConnects(t *testing.T) {
	t.Parallel()
	f := newFleet()
	hub := f.hub(t, "hub-0")
	const flood = 150
	began := time.Now()
	for range 3 {
		a := f.agent(t, "edge", []*replica{hub})
		for range flood {
			a.events <- &tunnelapi.Event{Reason: "Failed", Message: "again"}
		}
		hub.connected(1)
		a.stop()
		hub.connected(0)
	}
	if taken, most := len(hub.events), 100+10*int(time.Since(began)/time.Second+1); taken > most {
		t.Errorf("%d events of %d were taken, at most %d should be", taken, 3*flood, most)
	}
}
