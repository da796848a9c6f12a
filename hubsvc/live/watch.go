package live

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/filter"
)

const (
	// pace is how long changes are gathered before they are sent.
	pace = 200 * time.Millisecond
	// maxPart is how much one event of a stream holds, in bytes.
	maxPart = 64 << 10
)

// stream writes server-sent events.
type stream struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	last time.Time
}

// begin starts a stream, which lasts longer than other answers may.
func begin(w http.ResponseWriter) *stream {
	s := &stream{w: w, rc: http.NewResponseController(w)}
	_ = s.rc.SetReadDeadline(time.Time{}) // one that cannot be set never ends anything
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return s
}

// put writes raw text, and sees it off.
func (s *stream) put(text string) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(stalled))
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	s.last = time.Now()
	return s.rc.Flush()
}

func (s *stream) event(name string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return s.put("event: " + name + "\ndata: " + string(text) + "\n\n")
}

// watch streams what a person sees of a feed, until they go, may not see it any more, or there is nothing to see.
func (a *API) watch(w http.ResponseWriter, r *http.Request, who asker, f *feed, visible sight) error {
	picked, err := filter.Parse(r.URL.Query().Get("filter"), schema())
	if err != nil {
		return pageRefusal(err)
	}
	done, err := a.open(r.Context(), who.Person)
	if err != nil {
		return err
	}
	defer done()
	who.releaseRequest()
	reading := f.read()
	defer f.forget(reading)
	watcher := &watcher{API: a, stream: begin(w), who: who, feed: f, reading: reading, visible: visible, picked: picked, sent: map[string]place{}, applied: map[string]bool{}}
	err = watcher.put("retry: 2000\n\n")
	if err == nil {
		err = watcher.run(r)
	}
	if r.Context().Err() == nil {
		no := refusalOf(err)
		_ = watcher.event("reset", v1.Error{Message: no.Message, Fix: no.Fix})
	}
	return &partialAnswerError{err}
}

// watcher is one person's look at a feed.
type watcher struct {
	*API
	*stream
	who     asker
	feed    *feed
	reading *reading
	visible sight
	picked  filter.Filter[row]
	// sent is what the client knows, by uid, and applied which of it is a service's own.
	sent    map[string]place
	applied map[string]bool
}

func (s *watcher) run(r *http.Request) error {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	for begun := false; ; {
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-s.feed.ended:
			return s.feed.failure()
		case <-ticker.C:
			if err := s.stillSees(r); err != nil {
				return err
			}
			if time.Since(s.last) >= heartbeat {
				if err := s.put(": still here\n\n"); err != nil {
					return err
				}
			}
			continue
		case <-s.reading.wake:
		}
		if err := s.send(r.Context()); err != nil {
			return err
		}
		if !begun {
			begun = true
			if err := s.event("ready", v1.ObjectChanges{}); err != nil {
				return err
			}
		}
		if err := wait(r.Context(), pace); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// stillSees makes sure that the client would be shown what it has been shown.
func (s *watcher) stillSees(r *http.Request) error {
	if err := s.again(r, s.who); err != nil {
		return err
	}
	asked := map[place]bool{}
	for uid, at := range s.sent {
		if s.applied[uid] || asked[at] {
			continue
		}
		asked[at] = true
		if hidden, err := s.visible.hides(r.Context(), at); err != nil || hidden {
			return errGone
		}
	}
	return nil
}

// send sends what changed, in parts.
func (s *watcher) send(ctx context.Context) error {
	objects, deleted, err := s.feed.take(s.reading)
	if err != nil {
		return err
	}
	shown, err := s.visible.of(ctx, objects)
	if err != nil {
		return err
	}
	now := make(map[string]bool, len(shown))
	part, size := v1.ObjectChanges{}, 0
	flush := func(limit int) error {
		if size <= limit {
			return nil
		}
		full := part
		part, size = v1.ObjectChanges{}, 0
		return s.event("objects", full)
	}
	for _, o := range shown {
		item := row{Object: shownObject(o)}
		if !s.picked.Match(item) {
			continue
		}
		now[o.GetUid()] = true
		s.sent[o.GetUid()] = s.visible.placeOf(o)
		if o.GetApplied() {
			s.applied[o.GetUid()] = true
		} else {
			delete(s.applied, o.GetUid())
		}
		part.Changed, size = append(part.Changed, item.Object), size+sizeOf(item.Object)+1
		if err := flush(maxPart); err != nil {
			return err
		}
	}
	for _, o := range objects { // what is not to be shown any more
		deleted = append(deleted, o.GetUid())
	}
	for _, uid := range deleted {
		if _, was := s.sent[uid]; !was || now[uid] {
			continue
		}
		delete(s.sent, uid)
		delete(s.applied, uid)
		part.Deleted, size = append(part.Deleted, uid), size+len(uid)+3
		if err := flush(maxPart); err != nil {
			return err
		}
	}
	return flush(0)
}

// pageRefusal is what is wrong with a query.
func pageRefusal(err error) error {
	return &Refusal{Status: http.StatusBadRequest, Message: fmt.Sprint(err), Fix: "see GET /v1/openapi.json"}
}
