package api

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

const (
	// pace is the least time between two steps of one stream: of each kind it sends at most ten events a second.
	pace = 100 * time.Millisecond
	// beat is how often a stream shows that it lives; its token goes along, so that a quiet stream can be resumed.
	beat = 15 * time.Second
	// recheck is how often it is asked whether the person may still see what they see.
	recheck = 2 * time.Second
	// patience is how long a reader may take for one step.
	patience = 10 * time.Second
)

// stream sends what changes, as server-sent events. It holds nothing for a slow reader but a place among the changes: one that
// takes too long for a step is cut off, and one that comes back too late is told to list again.
func (a *API) stream(w http.ResponseWriter, r *http.Request) {
	by, err := a.Allow(r, VerbView)
	if err != nil {
		refuseError(w, err)
		return
	}
	follower, problem := a.follow(r)
	if problem != nil {
		refuse(w, http.StatusBadRequest, *problem)
		return
	}
	done, ok := a.streams.Take(r.Context(), by)
	if !ok {
		tooMany(w, "streams at a time")
		return
	}
	defer done()
	s := newSSE(w)
	if err := s.begin(); err != nil {
		return
	}
	a.send(r, s, follower)
}

// follow reads what a stream is asked for.
func (a *API) follow(r *http.Request) (Follower, *v1.Error) {
	query := r.URL.Query()
	known := v1.ChangeKind("").Words()
	var kinds []v1.ChangeKind
	for _, kind := range query["kind"] {
		if !slices.Contains(known, kind) {
			return nil, &v1.Error{Message: "there is no kind " + strconv.Quote(kind), Fix: "the kinds are " + strings.Join(known, ", ")}
		}
		kinds = append(kinds, v1.ChangeKind(kind))
	}
	since := query.Get("since")
	if last := r.Header.Get("Last-Event-ID"); last != "" { // a browser that comes back
		since = last
	}
	items, problem := followed(query["item"])
	if problem != nil {
		return nil, problem
	}
	follower, err := a.Follow(since, kinds, items, func(kind v1.ChangeKind) string {
		if own := "filter." + string(kind); query.Has(own) {
			return query.Get(own)
		}
		return query.Get("filter")
	})
	if err != nil {
		problem := wrong(err)
		return nil, &problem
	}
	return follower, nil
}

const (
	// maxItems is how many rows one stream may name: some screens of a page. maxItem bounds each, in bytes.
	maxItems = 300
	maxItem  = 2*maxName + 1
	maxName  = 253
)

// followed are the rows that a stream is asked for; nil: all.
func followed(named []string) ([]string, *v1.Error) {
	if len(named) > maxItems {
		return nil, &v1.Error{
			Message: "a stream follows at most " + strconv.Itoa(maxItems) + " items, not " + strconv.Itoa(len(named)),
			Fix:     "name those that are looked at, or pick more by filter=",
		}
	}
	var items []string
	for _, name := range named {
		if name == "" || len(name) > maxItem || strings.Count(name, "/") > 1 || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") {
			return nil, &v1.Error{
				Message: "there is no item " + strconv.Quote(name[:min(len(name), maxName)]),
				Fix:     "write CLUSTER/SERVICE for a deployment, and the name of anything else",
			}
		}
		items = append(items, own(name))
	}
	return items, nil
}

// send goes on until the reader goes, or loses the right to read, or the hub leaves.
func (a *API) send(r *http.Request, s *sse, follower Follower) {
	beats, checks := time.NewTicker(beat), time.NewTicker(recheck)
	defer beats.Stop()
	defer checks.Stop()
	first := true
	for {
		parts, token := follower.Next()
		if first || len(parts) > 0 {
			if s.step(parts, token) != nil {
				return
			}
		}
		first = false
		rest, next := time.After(pace), (<-chan struct{})(nil)
		for next == nil || !isClosed(next) {
			select {
			case <-r.Context().Done():
				return
			case <-a.Leaving:
				return
			case <-checks.C:
				if _, err := a.Allow(r, VerbView); err != nil {
					return
				}
			case <-beats.C:
				if s.step(nil, token) != nil {
					return
				}
			case <-rest:
				next = follower.Wait()
			case <-next:
			}
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sse writes server-sent events.
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  bytes.Buffer
}

func newSSE(w http.ResponseWriter) *sse { return &sse{w: w, control: http.NewResponseController(w)} }

func (s *sse) begin() error {
	if err := s.control.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	header := s.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // proxies that know it pass events on at once
	s.w.WriteHeader(http.StatusOK)
	s.buffer.WriteString("retry: 2000\n")
	return nil
}

// step sends events, and that the token is where they end. The last has it, so that a reader that is cut off reads all of them
// again.
func (s *sse) step(parts []v1.StreamEvent, token string) error {
	for i, part := range parts {
		if i == len(parts)-1 {
			s.buffer.WriteString("id: " + token + "\n")
		}
		s.buffer.WriteString("event: " + string(part.Kind) + "\ndata: ")
		s.buffer.Write(part.Data)
		s.buffer.WriteString("\n\n")
	}
	if len(parts) == 0 {
		s.buffer.WriteString("id: " + token + "\n\n")
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := s.w.Write(s.buffer.Bytes()); err != nil {
		return err
	}
	s.buffer.Reset()
	return s.control.Flush()
}
