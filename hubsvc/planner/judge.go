package planner

import (
	"context"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/unread"
)

// judgeTimeout bounds the judgement of a commit that somebody waits for.
const judgeTimeout = 30 * time.Second

// Judge says for what a commit would be refused, were it the newest. It is safe to call from any goroutine, and remembers nothing of the
// commit: where that lies may be gone afterwards.
func (p *Planner) Judge(ctx context.Context, next *snapshot.Snapshot) []v1.Problem {
	v := validator{
		repos: p.Mirrors, sources: sources.New(p.Sources.Options), resolver: resolve.New(), sealed: p.validator.sealed, timeout: judgeTimeout,
	}
	var good *sources.Commit
	if served := &p.Plan().Desired; served.Served.ID != "" {
		good = &sources.Commit{Fleet: &served.Fleet}
	}
	_, problems := v.examine(ctx, next, good)
	return problems
}

// Unread are the parameters and values of a service that nothing of it reads, by a commit as that of Judge; none where that cannot be
// looked into.
func (p *Planner) Unread(next *snapshot.Snapshot, service string) []unread.Name {
	f, err := fleet.Load(next.FS())
	if err != nil {
		return nil
	}
	s, ok := f.Service(service)
	if !ok {
		return nil
	}
	ids := idsOf(sources.New(p.Sources.Options).Of(&sources.Commit{Fleet: f, Snapshot: next}))
	resolver := resolve.New()
	for i := range f.Clusters {
		d, runs := resolver.One(f, service, f.Clusters[i].Metadata.Name, newest{next, ids, p.Mirrors})
		switch {
		case !runs:
		case d.Hold != nil: // the commit is checked by others
			return nil
		default:
			return unread.Of(d, s)
		}
	}
	return nil
}
