package apiproxy

import (
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// maxQuick bounds the connections for questions. With many at once a shared one costs less: what they say goes out together.
	maxQuick = 4
	// suspicious is how long the head of an answer may take until connections that nobody uses are no more trusted: HTTP/1.1 has
	// no pings that would find the dead ones.
	suspicious = 15 * time.Second
)

// quick sends questions by HTTP/1.1, each alone on a connection that is kept: a short answer comes a third sooner than on one that is
// shared, where it passes through three goroutines more at either end. When all those connections are taken, the rest share.
type quick struct {
	alone, shared http.RoundTripper
	idle          func() // closes what nobody uses
	slots         chan struct{}
}

func newQuick(config *rest.Config, alone *http.Transport, shared http.RoundTripper) (*quick, error) {
	wrapped, err := wrap(config, alone)
	return &quick{alone: wrapped, shared: shared, idle: alone.CloseIdleConnections, slots: make(chan struct{}, maxQuick)}, err
}

// RoundTrip is for requests without a body that may be made twice.
func (q *quick) RoundTrip(r *http.Request) (*http.Response, error) {
	response, leave, err := q.send(r)
	if err != nil {
		leave()
		return nil, err
	}
	response.Body = &quickBody{ReadCloser: response.Body, leave: leave}
	return response, nil
}

// send says how to give the place back that the request has taken, if it has.
func (q *quick) send(r *http.Request) (response *http.Response, leave func(), err error) {
	select {
	case q.slots <- struct{}{}:
	default:
		response, err = q.shared.RoundTrip(r)
		return response, func() {}, err
	}
	doubt := time.AfterFunc(suspicious, q.idle)
	defer doubt.Stop()
	response, err = q.alone.RoundTrip(r)
	return response, sync.OnceFunc(func() { <-q.slots }), err
}

// quickBody is the answer to a question. It gives the place back as soon as it is read: its connection is free then.
type quickBody struct {
	io.ReadCloser
	leave func()
}

func (b *quickBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.leave()
	}
	return n, err
}

func (b *quickBody) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}
