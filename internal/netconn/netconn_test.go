package netconn_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/pluralsh/plural/internal/netconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pair() (near *netconn.Conn, far net.Conn) {
	a, b := net.Pipe()
	return netconn.New(a, netconn.Addr("near"), netconn.Addr("far")), b
}

func TestADeadlineEndsTheConnection(t *testing.T) {
	for name, test := range map[string]struct {
		set func(*netconn.Conn, time.Time) error
		use func(*netconn.Conn) error
	}{
		"reading": {(*netconn.Conn).SetReadDeadline, func(c *netconn.Conn) error { _, err := c.Read(make([]byte, 1)); return err }},
		"writing": {(*netconn.Conn).SetWriteDeadline, func(c *netconn.Conn) error { _, err := c.Write(make([]byte, 1)); return err }},
		"either":  {(*netconn.Conn).SetDeadline, func(c *netconn.Conn) error { _, err := c.Read(make([]byte, 1)); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := pair()
			defer far.Close()
			if err := test.set(near, time.Now().Add(10*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if err := test.use(near); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%v", err)
			}
			<-near.Done()
			if err := near.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a deadline after the end: %v", err)
			}
		})
	}
}

func TestADeadlineThatIsTakenBackEndsNothing(t *testing.T) {
	near, far := pair()
	defer near.Close()
	_ = near.SetDeadline(time.Now().Add(time.Hour))
	_ = near.SetDeadline(time.Time{})
	go func() { _, _ = far.Write([]byte("hello")); far.Close() }()
	got, err := io.ReadAll(near)
	if err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if in, out := near.Bytes(); in != 5 || out != 0 {
		t.Errorf("%d bytes in, %d out", in, out)
	}
}

// sockets are both ends of a WebSocket.
func sockets(t *testing.T) (client, server *websocket.Conn) {
	t.Helper()
	accepted := make(chan *websocket.Conn, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		accepted <- ws
	}))
	t.Cleanup(s.Close)
	client, _, err := websocket.Dial(context.Background(), s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() { _ = client.CloseNow(); _ = server.CloseNow() })
	return client, server
}

func TestWebSocketMessagesAreAStream(t *testing.T) {
	client, server := sockets(t)
	there, here := netconn.WebSocket(client), netconn.WebSocket(server)
	want := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() {
		for part := range slices.Chunk(want, 70_000) {
			if _, err := there.Write(part); err != nil {
				t.Error(err)
			}
			if _, err := there.Write(nil); err != nil { // an empty message is nothing
				t.Error(err)
			}
		}
		_ = client.Close(websocket.StatusNormalClosure, "")
	}()
	if got, err := io.ReadAll(here); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestTextAndBrokenSocketsAreNoCleanEnd(t *testing.T) {
	for name, end := range map[string]func(*websocket.Conn) error{
		"text": func(ws *websocket.Conn) error {
			return ws.Write(context.Background(), websocket.MessageText, []byte("hello"))
		},
		"a lost one":    func(ws *websocket.Conn) error { return ws.CloseNow() },
		"another cause": func(ws *websocket.Conn) error { go ws.Close(websocket.StatusPolicyViolation, ""); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			client, server := sockets(t)
			if err := end(client); err != nil {
				t.Fatal(err)
			}
			if n, err := netconn.WebSocket(server).Read(make([]byte, 10)); err == nil || errors.Is(err, io.EOF) && name != "a lost one" {
				t.Errorf("%d bytes, %v", n, err)
			}
			_ = server.CloseNow()
		})
	}
}

func TestAListenerAcceptsWhatItIsGivenUntilItIsClosed(t *testing.T) {
	l := netconn.NewListener()
	near, far := pair()
	defer near.Close()
	defer far.Close()
	go l.Give(near)
	if got, err := l.Accept(); err != nil || got != net.Conn(near) {
		t.Errorf("%v, %v", got, err)
	}
	_ = l.Close()
	if l.Give(near) {
		t.Error("a closed listener took a connection")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
