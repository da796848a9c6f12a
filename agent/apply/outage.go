package apply

import (
	"net/http"
	"sync"
	"time"
)

// outageGrace is how long the watches have to be without an answer. One that breaks off is begun again at once, so that a server
// that only restarts, or hands over to another, is no outage.
const outageGrace = 3 * time.Second

// outage notices by the requests of the watches that the API server has gone away, and that it is back. They try again by
// themselves for as long as it takes, so that nobody has to ask for the sake of knowing it.
type outage struct {
	// changed is called when it begins and when it ends.
	changed func()

	mu    sync.Mutex // guards what follows
	heard time.Time  // the last answer
	since time.Time  // as of when there has been none; zero while there is
	cause error      // of the outage; nil when there is none
}

// over is the transport of the watches.
func (o *outage) over(next http.RoundTripper) http.RoundTripper { return watched{next, o} }

type watched struct {
	next   http.RoundTripper
	outage *outage
}

// RoundTrip implements http.RoundTripper. Whatever the answer is, it is one.
func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := w.next.RoundTrip(r)
	if r.Context().Err() == nil {
		w.outage.note(began, err)
	}
	return response, err
}

// note takes in what became of a request. One that began before the last answer says nothing of the time before that.
func (o *outage) note(began time.Time, err error) {
	if o.turned(began, time.Now(), err) {
		o.changed()
	}
}

// turned says whether an outage began or ended with a request.
func (o *outage) turned(began, now time.Time, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.cause
	switch {
	case err == nil:
		o.heard, o.since, o.cause = now, time.Time{}, nil
	case o.since.IsZero():
		o.since = began
		if began.Before(o.heard) {
			o.since = o.heard
		}
		fallthrough
	default:
		if o.cause == nil && now.Sub(o.since) >= outageGrace {
			o.cause = err
		}
	}
	return (was == nil) != (o.cause == nil)
}

// why is why the API server gives no answer, or nil.
func (o *outage) why() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cause
}
