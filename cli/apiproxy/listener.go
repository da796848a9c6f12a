package apiproxy

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LocalListener is a listener of this machine that only its own programs reach.
type LocalListener struct {
	// URL is where the handler's paths begin.
	URL string

	server *http.Server
	done   chan struct{}
}

// Open serves handler on a port of 127.0.0.1, or on a free one where port is 0, until ctx ends or Close is called. What goes
// over the door ends with it. A secret door is open only to who knows its URL; another to every program of this machine, but
// not to the pages of a browser.
func Open(ctx context.Context, handler http.Handler, port int, secret bool) (*LocalListener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("open a port: %w", err)
	}
	address := listener.Addr().String()
	d := &LocalListener{URL: "http://" + address, done: make(chan struct{})}
	if secret {
		word := rand.Text()
		d.URL += "/" + word
		handler = knowing(word, handler)
	}
	ctx, end := context.WithCancel(ctx)
	d.server = &http.Server{
		Handler:           meant(address, handler),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	closed := context.AfterFunc(ctx, func() { _ = d.server.Close() })
	go func() { // Close waits for it
		defer close(d.done)
		_ = d.server.Serve(listener) // it ends by being closed
		closed()
		end() // with it what has left HTTP behind: an exec, a forwarded port
	}()
	return d, nil
}

// Close ends all that goes over the door.
func (d *LocalListener) Close() {
	_ = d.server.Close()
	<-d.done
}

// meant lets requests in that name this address, and come from no web page: a page that has its own name lead here could
// otherwise do whatever the person can. An address that somebody typed into a browser is fine.
func meant(address string, next http.Handler) http.Handler {
	_, port, _ := strings.Cut(address, ":")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, named, _ := strings.Cut(r.Host, ":")
		typed := r.Header.Get("Sec-Fetch-Site") == "" || r.Header.Get("Sec-Fetch-Site") == "none"
		if named != port || host != "127.0.0.1" && host != "localhost" || r.Header.Get("Origin") != "" || !typed {
			deny(w, "this port is not for web pages")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knowing serves what is below /word.
func knowing(word string, next http.Handler) http.Handler {
	strip := http.StripPrefix("/"+word, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if subtle.ConstantTimeCompare([]byte(said), []byte(word)) != 1 {
			deny(w, "this port belongs to another program")
			return
		}
		strip.ServeHTTP(w, r)
	})
}

func deny(w http.ResponseWriter, message string) {
	reply(w, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message,
	})
}
