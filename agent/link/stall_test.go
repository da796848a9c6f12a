package link_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pluralsh/plural/agent/link"
)

// pipes is a listener whose connections never leave the process, so that a test's own clock rules them.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialed:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	close(p.closed)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.IPAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.dialed <- far
	return near, nil
}

func TestADownloadThatStallsIsBrokenOffAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole, requests := archive(), 0
		listener := pipes{make(chan net.Conn), make(chan struct{})}
		server := &http.Server{ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"b1-a"`)
			if requests++; requests > 1 {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(whole))
				return
			}
			w.Header().Set("Content-Length", "1048576")
			for at := 0; at < 500_000; at += 100_000 { // slow is not stalled
				_, _ = w.Write(whole[at : at+100_000])
				_ = http.NewResponseController(w).Flush()
				<-time.After(15 * time.Second)
			}
			<-r.Context().Done()
		})}
		ended := make(chan error)
		go func() { ended <- server.Serve(listener) }()
		hub, err := link.New(link.Options{URL: "http://127.0.0.1", Token: token, Dial: listener.dial})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got, err := hub.Bundle(t.Context(), "b1-a")
		if err != nil || !bytes.Equal(got, whole) || requests != 2 {
			t.Errorf("%d bytes after %d requests, %v", len(got), requests, err)
		}
		if took := time.Since(began); took != 90*time.Second {
			t.Errorf("took %v", took)
		}
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
