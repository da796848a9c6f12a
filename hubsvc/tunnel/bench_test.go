package tunnel_test

import (
	"net/http"
	"testing"
)

// BenchmarkCall is a call over the channel, by what it gets through with, and over another replica.
func BenchmarkCall(b *testing.B) {
	for name, change := range map[string]func(*settings){
		"upgrade":   func(*settings) {},
		"websocket": refusing(isOwnUpgrade),
		"pipe":      refusing(func(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }),
	} {
		b.Run(name, func(b *testing.B) {
			f := newFleet()
			hub := f.hub(b, "hub-0", change)
			f.agent(b, "edge", []*replica{hub})
			hub.connected(1)
			b.ReportAllocs()
			for b.Loop() {
				route, err := hub.Reach(b.Context(), "edge")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := asks(b.Context(), route); err != nil {
					b.Fatal(err)
				}
				route.Release()
			}
		})
	}
}
