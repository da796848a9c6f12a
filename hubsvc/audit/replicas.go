package audit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/internal/replace"
)

// Bounds of what is asked of other replicas.
const (
	// askTime is how long one of them may take.
	askTime = 10 * time.Second
	// maxReplicas bounds the names that are remembered.
	maxReplicas = 64
	// maxToken bounds a token that comes from outside, in bytes.
	maxToken = 16 << 10
)

// Replicas read the record of all replicas of a hub. They are safe for concurrent use.
type Replicas struct {
	ReplicasOptions
	mu    sync.Mutex // guards known
	known map[string]bool
}

// ReplicasOptions are what it takes to ask the others.
type ReplicasOptions struct {
	// Own is this replica's record, Self its name.
	Own  *Log
	Self string
	// Members are the addresses of the other replicas, by their names.
	Members func() map[string]string
	// Ask has the replica at an address answer by its [Log.ServePeer].
	Ask func(ctx context.Context, address, what, question string) ([]byte, error)
	Log *slog.Logger
}

// knownName is the file with the names of all replicas that this one has heard of. Who is gone is still missed: its record may be on a
// disk that nobody reads. Somebody who knows that it is gone for good takes the name out.
const knownName = "replicas.json"

// NewReplicas reads which replicas there were.
func NewReplicas(o ReplicasOptions) (*Replicas, error) {
	r := &Replicas{ReplicasOptions: o, known: map[string]bool{}}
	root, err := os.OpenRoot(o.Own.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	text, err := root.ReadFile(knownName)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	var names []string
	if err == nil && json.Unmarshal(text, &names) != nil {
		o.Log.Warn("which replicas there were is forgotten", "file", knownName)
	}
	for _, name := range names[:min(len(names), maxReplicas)] {
		r.known[name] = true
	}
	return r, err
}

// Notice remembers the other replicas.
func (r *Replicas) Notice() { r.others() }

// others are the addresses of all other replicas that there are or were, by their names; an address is empty of one that is gone.
func (r *Replicas) others() map[string]string {
	all := maps.Clone(r.Members())
	if all == nil {
		all = map[string]string{}
	}
	delete(all, r.Self)
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := false
	for name := range all {
		if !r.known[name] && len(r.known) < maxReplicas {
			r.known[name], fresh = true, true
		}
	}
	if fresh {
		r.save()
	}
	for name := range r.known {
		if _, ok := all[name]; !ok && name != r.Self {
			all[name] = ""
		}
	}
	return all
}

// save writes the names down. It is called with mu held.
func (r *Replicas) save() {
	text, err := json.Marshal(slices.Sorted(maps.Keys(r.known)))
	if err == nil {
		err = saveFile(r.Own.Dir, knownName, text)
	}
	if err != nil {
		r.Log.Warn("which replicas there are is not kept", "error", err)
	}
}

func saveFile(dir, name string, text []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(replace.File(root, name, text, 0o600), root.Close())
}

var errAway = errors.New("it is not there")

// What one replica asks another.
const (
	askPage   = "page"
	askChunk  = "chunk"
	askPeople = "people"
)

// ask has a replica answer: this one by here.
func ask[Q, A any](
	ctx context.Context, r *Replicas, name, address, what string, question Q, here func(context.Context, Q) (*A, error),
) (*A, error) {
	if name == r.Self {
		return here(ctx, question)
	}
	if address == "" {
		return nil, errAway
	}
	text, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	body, err := r.Ask(ctx, address, what, string(text))
	if err != nil {
		return nil, err
	}
	answer := new(A)
	return answer, json.Unmarshal(body, answer)
}

// ServePeer answers another replica: what is the last element of the path, the question ?q=. Whoever mounts it lets nobody else in.
func (l *Log) ServePeer(w http.ResponseWriter, r *http.Request) {
	switch r.PathValue("what") {
	case askPage:
		serve(w, r, l.page)
	case askChunk:
		serve(w, r, l.chunk)
	case askPeople:
		serve(w, r, l.people)
	default:
		http.NotFound(w, r)
	}
}

func serve[Q, A any](w http.ResponseWriter, r *http.Request, here func(context.Context, Q) (*A, error)) {
	var question Q
	if err := json.Unmarshal([]byte(r.FormValue("q")), &question); err != nil {
		http.Error(w, "the question cannot be read", http.StatusBadRequest)
		return
	}
	answer, err := here(r.Context(), question)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a replica that went away asks again
}

// listed is where a list goes on at each replica. Times that were relative to the first page stay what they were.
type listed struct {
	Since  time.Time        `json:"s,omitzero"`
	Until  time.Time        `json:"u,omitzero"`
	Places map[string]place `json:"r"`
	// Missing are not asked any more: what they wrote would come out of order.
	Missing []string `json:"m,omitempty"`
}

// ErrToken says that a token continues nothing here.
var ErrToken = &paging.Error{Message: "continue is no token of this list", Fix: "begin again without it"}

func token(of any) string {
	text, err := json.Marshal(of)
	if err != nil { // names, numbers and times always encode
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func readToken(text string, to any) error {
	if len(text) > maxToken {
		return ErrToken
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, to) != nil {
		return ErrToken
	}
	return nil
}

// List is a page of records of all replicas, the newest first. A page may be short, or empty, and go on. Refused tokens are ErrToken.
func (r *Replicas) List(ctx context.Context, q v1.AuditQuery, continued string) (*v1.AuditList, error) {
	others := r.others()
	at := listed{Since: q.Since, Until: q.Until, Places: map[string]place{r.Self: {}}}
	if continued == "" {
		for name := range others {
			at.Places[name] = place{}
		}
	} else {
		at.Places = nil
		if err := readToken(continued, &at); err != nil || len(at.Places) > maxReplicas+1 {
			return nil, ErrToken
		}
		q.Since, q.Until = at.Since, at.Until
	}
	if q.Limit == 0 {
		q.Limit = paging.DefaultLimit
	}
	pages := gather(ctx, r, slices.Sorted(maps.Keys(at.Places)), &at.Missing, func(ctx context.Context, name string) (*pageAnswer, error) {
		return ask(ctx, r, name, others[name], askPage, pageQuestion{q, at.Places[name]}, r.Own.page)
	})
	maps.DeleteFunc(at.Places, func(name string, _ place) bool { return pages[name] == nil })
	list := &v1.AuditList{Items: merge(pages, at.Places, q.Limit), Missing: at.Missing}
	if list.Missing == nil {
		list.Missing = []string{}
	}
	for _, to := range at.Places {
		if !to.Done {
			list.Next = token(at)
		}
	}
	return list, nil
}

// gather asks replicas at once. Those that do not answer are added to missing.
func gather[A any](
	ctx context.Context, r *Replicas, names []string, missing *[]string, of func(ctx context.Context, name string) (*A, error),
) map[string]*A {
	answers := make([]*A, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			answer, err := of(ctx, name)
			if err != nil {
				r.Log.Warn("a replica's audit log cannot be read", "replica", name, "error", err)
				return
			}
			answers[i] = answer
		})
	}
	asked.Wait()
	all := make(map[string]*A, len(names))
	for i, name := range names {
		if answers[i] == nil {
			*missing = append(*missing, name)
			continue
		}
		all[name] = answers[i]
	}
	slices.Sort(*missing)
	return all
}

// merge puts the records of all replicas together, the newest first, and moves places behind those that it takes. It ends where a
// replica has to be asked for more before anybody knows which record is next.
func merge(pages map[string]*pageAnswer, places map[string]place, limit int) []v1.AuditEntry {
	items := []v1.AuditEntry{}
	names := slices.Sorted(maps.Keys(pages))
	size := 0
	for len(items) < limit && size < paging.MaxBytes {
		next := ""
		for _, name := range names {
			page := pages[name]
			if len(page.Found) == 0 {
				if places[name] = page.To; !page.To.Done {
					return items
				}
				continue
			}
			if next == "" || page.Found[0].Record.Written().After(pages[next].Found[0].Record.Written()) {
				next = name
			}
		}
		if next == "" {
			return items
		}
		page := pages[next]
		one := page.Found[0]
		items = append(items, v1.AuditEntry{Replica: next, Hash: one.Hash, Record: one.Record})
		places[next], page.Found = one.To, page.Found[1:]
		size += len(one.Record.Path) + len(one.Record.UserAgent) + usualSize
	}
	return items
}

// usualSize is what a record takes in an answer, but for what may be long.
const usualSize = 700

// chunked is where the reading of all replicas goes on.
type chunked struct {
	Since time.Time `json:"s,omitzero"`
	// Left are the replicas that are still to be read, the first of them from a position on.
	Left    []string `json:"l"`
	From    Position `json:"f,omitzero"`
	Missing []string `json:"m,omitempty"`
}

// Chunk is the next piece of the record of all replicas, byte by byte, replica after replica. Refused tokens are ErrToken.
func (r *Replicas) Chunk(ctx context.Context, since time.Time, continued string) (*v1.AuditChunk, error) {
	others := r.others()
	at := chunked{Since: since, Left: slices.Sorted(maps.Keys(others))}
	at.Left = append([]string{r.Self}, at.Left...)
	if continued != "" {
		at = chunked{}
		if err := readToken(continued, &at); err != nil || len(at.Left) == 0 || len(at.Left) > maxReplicas+1 {
			return nil, ErrToken
		}
	}
	chunk := &v1.AuditChunk{Text: []byte{}}
	for len(at.Left) > 0 && len(chunk.Text) == 0 {
		name := at.Left[0]
		answer, err := ask(ctx, r, name, others[name], askChunk, chunkQuestion{at.From, at.Since}, r.Own.chunk)
		if err != nil {
			r.Log.Warn("a replica's audit log cannot be read", "replica", name, "error", err)
			at.Left, at.From, at.Missing = at.Left[1:], Position{}, append(at.Missing, name)
			continue
		}
		chunk.Replica, chunk.File, chunk.Line, chunk.Text = name, answer.File, answer.From.Line, append(chunk.Text, answer.Text...)
		if at.From = answer.To; answer.Last {
			at.Left, at.From = at.Left[1:], Position{} // what is written from now on, this very question among it, is for the next reader
		}
	}
	chunk.Missing = append([]string{}, at.Missing...)
	if len(at.Left) > 0 {
		chunk.Next = token(at)
	}
	return chunk, nil
}

// People says who did something last, as far back as every replica was looked at.
func (r *Replicas) People(ctx context.Context) (*v1.AuditPeople, error) {
	others := r.others()
	out := &v1.AuditPeople{Items: []v1.AuditPerson{}, Missing: []string{}}
	names := append(slices.Collect(maps.Keys(others)), r.Self)
	answers := gather(ctx, r, names, &out.Missing, func(ctx context.Context, name string) (*peopleAnswer, error) {
		return ask(ctx, r, name, others[name], askPeople, struct{}{}, r.Own.people)
	})
	type who struct {
		name     string
		operator bool
	}
	last := map[who]time.Time{}
	var begin time.Time // of the first record of all
	for _, answer := range answers {
		for _, p := range answer.People {
			if one := (who{p.Person, p.Operator}); p.Last.After(last[one]) {
				last[one] = p.Last
			}
		}
		if !answer.Whole && answer.Since.After(out.Since) {
			out.Since = answer.Since
		}
		if begin.IsZero() || !answer.Since.IsZero() && answer.Since.Before(begin) {
			begin = answer.Since
		}
	}
	if out.Since.IsZero() {
		out.Since = begin
	}
	for one, at := range last {
		out.Items = append(out.Items, v1.AuditPerson{Person: one.name, Operator: one.operator, Last: at})
	}
	slices.SortFunc(out.Items, func(a, b v1.AuditPerson) int { return b.Last.Compare(a.Last) })
	return out, nil
}
