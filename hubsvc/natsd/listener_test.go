package natsd

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestNobodyFromOutsideIsAClientOfAServerOfOurs(t *testing.T) {
	const own = "127.0.0.1:16222"
	s, err := Start(t.Context(), Options{
		Dir: t.TempDir(), Name: "hub-0", Log: slog.New(slog.DiscardHandler),
		Cluster: &Cluster{Listen: own, Routes: []string{own, "127.0.0.1:9", "127.0.0.1:10"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	url := s.server.ClientURL()
	for name, login := range map[string]nats.Option{
		"nobody": nats.Name("nobody"), "a guess": nats.UserInfo(user, "guess"),
		"the password": nats.UserInfo(user, s.password),
	} {
		conn, err := nats.Connect(url, login)
		if err == nil {
			conn.Close()
			t.Errorf("%s got in at %s", name, url)
		}
	}
	if !s.Conn().IsConnected() {
		t.Error("the hub itself is not connected")
	}
}
