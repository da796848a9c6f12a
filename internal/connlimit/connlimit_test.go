package connlimit_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pluralsh/plural/internal/connlimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// closed says whether the server has closed the connection.
func closed(t *testing.T, c net.Conn, within time.Duration) bool {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err := c.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestConnectionsThatAskNothingAreBounded(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	server.Config.ConnState = connlimit.New(2).ConnState
	server.Start()
	defer server.Close()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	first, second := dial(), dial()
	if closed(t, first, 20*time.Millisecond) || closed(t, second, 20*time.Millisecond) {
		t.Fatal("connections within the bound are closed")
	}
	if !closed(t, dial(), 30*time.Second) {
		t.Fatal("a third one is not closed")
	}
	// One that asks makes room, as does one that ends.
	if _, err := io.WriteString(first, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if closed(t, first, 30*time.Second) { // that is: read something, or nothing in all that time
		third := dial()
		if closed(t, third, 20*time.Millisecond) {
			t.Error("there is no room although one has asked")
		}
	}
	second.Close()
	deadline := time.Now().Add(30 * time.Second)
	for closed(t, dial(), 20*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no room although one has ended")
		}
	}
}
