package access

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// usage is when users did something last, as the hub's audit log has it.
type usage struct {
	last  map[string]time.Time
	since time.Time
}

// askUsage asks the hub. Replicas that could not be asked are told of: somebody may have done something there.
func askUsage(ctx context.Context, f *cmdutil.Factory) (*usage, error) {
	hub, err := f.HubClient()
	if err != nil {
		return nil, err
	}
	people, err := hub.AuditPeople(ctx)
	if err != nil {
		return nil, err
	}
	if len(people.Missing) > 0 {
		f.Say("replicas that could not be asked, so that somebody may have been there later: %s", ui.Clean(strings.Join(people.Missing, ", ")))
	}
	u := &usage{last: map[string]time.Time{}, since: people.Since.UTC()}
	for _, p := range people.Items {
		if !p.Operator { // who has the hub's own token is no user
			u.last[p.Person] = p.Last.UTC()
		}
	}
	return u, nil
}

// in adds to lines what is known of their users; nil adds nothing.
func (u *usage) in(lines iter.Seq[line]) iter.Seq[line] {
	if u == nil {
		return lines
	}
	return func(yield func(line) bool) {
		for l := range lines {
			if name, ok := strings.CutPrefix(l.Subject, "user/"); ok {
				l.RecordedSince = &u.since
				if at, ok := u.last[name]; ok {
					l.LastUsed = &at
				}
			}
			if !yield(l) {
				return
			}
		}
	}
}

// moment is a time in a cell; none is empty.
func moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}
