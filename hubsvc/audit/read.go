package audit

import (
	"context"
	"encoding/json"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/paging"
)

// Bounds of one reading of this replica's files.
const (
	// maxRead bounds the bytes of one page, maxPeople those of one look at who did something last.
	maxRead   = 32 << 20
	maxPeople = 64 << 20
	// maxNames bounds the people in one answer.
	maxNames = 10_000
	// readTime is how long one of them may take.
	readTime = 5 * time.Second
	// maxChunk bounds the text of a chunk.
	maxChunk = 4 << 20
	// late is how long after its time a line may be written.
	late = 10 * time.Minute
)

// picks says whether a record is wanted.
func picks(q *v1.AuditQuery, r *v1.AuditRecord) bool {
	is := func(wanted, got string) bool { return wanted == "" || wanted == got }
	written := r.Written()
	return is(q.Person, r.Person) && is(q.Cluster, r.Cluster) && is(q.Verb, r.Verb) && is(q.Decision, r.Decision) &&
		!written.Before(q.Since) && (q.Until.IsZero() || written.Before(q.Until))
}

// place is where a reading from the newest line to the oldest goes on: with the lines that end before an offset of a file. The zero
// place is before the newest line; one with Done is behind the oldest that is wanted.
type place struct {
	File   string `json:"f,omitempty"`
	Offset int64  `json:"o,omitempty"`
	Done   bool   `json:"d,omitempty"`
}

// pageQuestion asks one replica for records.
type pageQuestion struct {
	Query v1.AuditQuery
	From  place
}

// pageAnswer are records of one replica, the newest first. To is where the reading goes on behind them all.
type pageAnswer struct {
	Found []found
	To    place
}

// found is a record, with where the reading goes on behind it.
type found struct {
	Hash   string
	Record v1.AuditRecord
	To     place
}

// page reads backwards until there is enough of anything: records, bytes, time.
func (l *Log) page(ctx context.Context, q pageQuestion) (*pageAnswer, error) {
	answer := &pageAnswer{}
	size := 0
	to, err := l.backward(ctx, q.From, maxRead, func(line []byte, here place) bool {
		var record v1.AuditRecord
		if json.Unmarshal(line, &record) != nil || record.ID == "" {
			return true
		}
		if record.Written().Before(q.Query.Since.Add(-late)) {
			answer.To.Done = true
			return false
		}
		if !picks(&q.Query, &record) {
			return true
		}
		answer.Found = append(answer.Found, found{Hash(line), record, here})
		size += len(line)
		return len(answer.Found) < q.Query.Limit && size < paging.MaxBytes
	})
	if !answer.To.Done {
		answer.To = to
	}
	return answer, err
}

// backward calls each with lines from a place on, the newest first, until it says false, or as much was read as may be, or the time
// is over. It returns the place behind the last of them.
func (l *Log) backward(ctx context.Context, from place, most int64, each func(line []byte, here place) bool) (place, error) {
	if from.Done {
		return from, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	all, err := openSegments(l.Dir)
	if err != nil {
		return from, err
	}
	defer all.Close()
	at := len(all) - 1
	if from.File != "" {
		at = all.find(from.File) // if it is gone, so is all that is older
	}
	for ; at >= 0; at-- {
		before := all[at].size
		if from.File == all[at].id {
			before = min(before, from.Offset)
		}
		stopped := false
		err := all.backward(at, before, func(line []byte, begins int64) bool {
			most -= int64(len(line)) + 1
			from = place{File: all[at].id, Offset: begins}
			stopped = !each(line, from) || most <= 0 || ctx.Err() != nil
			return !stopped
		})
		if err != nil || stopped {
			return from, err
		}
	}
	return place{Done: true}, nil
}

// chunkQuestion asks one replica for the lines behind a position. Those of files that ended before Since are left out.
type chunkQuestion struct {
	From  Position
	Since time.Time
}

// chunkAnswer is a piece of a file; without Text there is no more.
type chunkAnswer struct {
	File string
	Text []byte
	From Position
	To   Position
	// Last says that there was no more when it was read.
	Last bool
}

// chunk reads forwards. A position in a file that is gone goes on with the oldest that is there.
func (l *Log) chunk(_ context.Context, q chunkQuestion) (*chunkAnswer, error) {
	all, err := openSegments(l.Dir)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	if all.find(q.From.File) < 0 {
		q.From = Position{}
		for i := 1; i < len(all) && all[i].first.written().Before(q.Since.Add(-late)); i++ {
			q.From.File = all[i].id
		}
	}
	p, err := all.read(q.From, maxChunk)
	if err != nil {
		return nil, err
	}
	return &chunkAnswer{p.name, p.text, p.from, p.to, all.behind(p.to) == 0}, nil
}

// peopleAnswer is who did something last, as far back as was read.
type peopleAnswer struct {
	People []v1.AuditPerson
	Since  time.Time
	// Whole says that there was nothing before.
	Whole bool
}

// people looks back as far as one look may.
func (l *Log) people(ctx context.Context, _ struct{}) (*peopleAnswer, error) {
	type who struct {
		Person   string `json:"person"`
		Operator bool   `json:"operator"`
	}
	answer := &peopleAnswer{}
	seen := map[who]bool{}
	_, err := l.backward(ctx, place{}, maxPeople, func(line []byte, _ place) bool {
		var read struct {
			who
			chained
		}
		if json.Unmarshal(line, &read) != nil || read.Prev == nil {
			return true
		}
		written := read.written()
		if !seen[read.who] {
			if len(seen) == maxNames {
				return false
			}
			seen[read.who] = true
			answer.People = append(answer.People, v1.AuditPerson{Person: read.Person, Operator: read.Operator, Last: written})
		}
		answer.Since, answer.Whole = written, *read.Prev == ""
		return true
	})
	return answer, err
}
