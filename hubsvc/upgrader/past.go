package upgrader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/hubsvc/upgrade"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

// history is what the hub has done before, as the installation repo says.
type history struct {
	commit string
	past   []upgrade.Move
}

// errMoved says that the installation repo is not at the commit that is served any more.
var errMoved = errors.New("the installation repo has moved on")

// read reads the moves before a commit, which must be the tip. What was read before stays until it can.
func (y *history) read(ctx context.Context, o *Options, commit string) error {
	if y.commit == commit {
		return nil
	}
	var past []upgrade.Move
	err := o.Committer.Look(ctx, committer.HistoryDepth, func(_ context.Context, tip *workspace.Tip) error {
		if tip.ID != commit {
			return errMoved
		}
		commits, err := tip.Past()
		for _, c := range commits {
			m, ok := upgrade.Past(c.ID, c.Message, c.Time)
			if ok && c.By == committer.Author(self) { // a message alone is what anybody can have written, also by way of the hub
				past = append(past, m)
			}
		}
		return err
	})
	if errors.Is(err, errMoved) {
		o.Hint()
	}
	if err != nil {
		return err
	}
	y.commit, y.past = commit, past
	return nil
}

// proposals are the branches that wait for somebody to merge them.
type proposals struct {
	// tips are the commits of the branches that are there, by name, and urls the pull requests that this process opened.
	tips, urls map[string]string
	// own says of a tip whether the hub made it.
	own map[string]bool
	// unread are tips that could not be read since the branches were listed: each try clones.
	unread map[string]bool
	looked time.Time
}

// add notes a branch that is there from now on.
func (p *proposals) add(name, commit, url string) {
	if p.urls == nil {
		p.urls = map[string]string{}
	}
	p.tips[name], p.own[commit], p.urls[name] = commit, true, url
}

// branchesEvery is the wait between two looks at the branches.
const branchesEvery = 30 * time.Second

// of are the branches that are there. While they cannot be listed, those before are.
func (p *proposals) of(ctx context.Context, o *Options, f *fleet.Fleet) func(name string) (upgrade.Branch, bool) {
	if p.tips == nil {
		p.tips, p.own, p.unread = map[string]string{}, map[string]bool{}, map[string]bool{}
	}
	proposes := func(i fleet.Installation) bool { return i.Spec.Upgrade.Propose == fleet.ProposePullRequest }
	if slices.ContainsFunc(f.Installations, proposes) && time.Since(p.looked) >= min(branchesEvery, max(o.Interval, time.Second)) {
		p.unread = map[string]bool{}
		if err := p.list(ctx, o); err != nil {
			o.Log.Warn("branches of proposals cannot be listed", "error", err)
		}
		p.looked = time.Now()
	}
	return func(name string) (upgrade.Branch, bool) {
		tip, there := p.tips[name]
		if !there {
			return upgrade.Branch{}, false
		}
		if p.unread[tip] {
			return upgrade.Branch{Unread: true}, true
		}
		own, known := p.own[tip]
		if !known {
			var err error
			if own, err = o.wrote(ctx, name, tip); err != nil {
				o.Log.Warn("a proposal's branch cannot be read; what it is for waits", "branch", name, "error", err)
				p.unread[tip] = true
				return upgrade.Branch{Unread: true}, true
			}
			p.own[tip] = own
		}
		return upgrade.Branch{URL: p.urls[name], Own: own}, true
	}
}

func (p *proposals) list(ctx context.Context, o *Options) error {
	return o.Committer.Clone(ctx, func(ctx context.Context, remote *workspace.Remote) error {
		tips, err := remote.Branches(ctx, upgrade.BranchPrefix)
		if err != nil {
			return err
		}
		p.tips = tips
		there := slices.Collect(maps.Values(tips))
		maps.DeleteFunc(p.own, func(tip string, _ bool) bool { return !slices.Contains(there, tip) })
		return nil
	})
}

// wrote says whether the hub made the tip of a branch: by its signature where it has a key, or else by what the commit says of itself.
// Of a tip that the branch has left, or that the server does not know yet, nobody can say.
func (o *Options) wrote(ctx context.Context, branch, tip string) (own bool, err error) {
	err = o.Committer.Clone(ctx, func(ctx context.Context, remote *workspace.Remote) error {
		at := *remote
		at.Branch = branch
		return at.Look(ctx, 1, func(t *workspace.Tip) error {
			if t.ID != tip {
				return fmt.Errorf("it is at %.12s, and was listed at %.12s", t.ID, tip)
			}
			if own, err = o.Committer.Made(t, committer.Author(self)); err != nil || !own {
				return err
			}
			past, err := t.Past()
			if err == nil {
				_, own = upgrade.Past(t.ID, past[0].Message, past[0].Time)
			}
			return err
		})
	})
	return own, err
}
