package upgrader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/hubsvc/upgrade"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/merge"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// actionError is an action that cannot be put together, for a reason that people can do something about.
type actionError struct{ reason v1.UpgradeReason }

func (u *actionError) Error() string { return u.reason.Message }

// self is the author of what the hub commits by itself. Nobody who has the hub commit is called so: their names have no space.
const self = "plural hub"

// act carries an action out, on the commit that it was decided for and no other. It says whether there is a commit now.
func (u *Upgrader) act(ctx context.Context, now *sources.Commit, set *catalog.Set, a *upgrade.Action) (bool, error) {
	what, plan := "upgrade", u.forward
	if a.Revert != "" {
		what, plan = "revert", u.backward
	}
	proposal := workspace.Proposal{By: committer.Author(self), To: a.Branch, Depth: committer.HistoryDepth}
	commit, err := u.Committer.Commit(ctx, proposal, func(tip *workspace.Tip) (*workspace.Plan, error) {
		if tip.ID != now.ID() {
			return nil, errMoved
		}
		return plan(ctx, tip, set, a)
	})
	cannot := new(actionError)
	switch {
	case errors.Is(err, errMoved):
		u.Hint()
		return false, nil // decided anew once that is served
	case errors.Is(err, workspace.ErrBranchExists):
		u.branches.looked = time.Time{} // decided anew once it is known
		return false, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.As(err, &cannot):
		u.failed[a.Key()] = failure{cannot.reason, time.Now().Add(restUnfit)}
	case err != nil:
		u.Log.Error("a move of packages was not committed", "action", what, "changes", a.Key(), "error", err)
		u.failed[a.Key()] = failure{v1.UpgradeReason{Code: v1.ReasonPlan, Message: people(err)}, time.Now().Add(restAway)}
	}
	if err != nil {
		u.commits.WithLabelValues(what, "failed").Inc()
		return false, nil
	}
	u.commits.WithLabelValues(what, "done").Inc()
	u.Log.Info("packages are moved", "action", what, "changes", a.Key(), "commit", commit, "branch", a.Branch)
	if a.Branch != "" {
		u.branches.add(a.Branch, commit, u.propose(ctx, a))
	}
	return true, nil
}

// propose asks for an action's branch to be merged, and gives the address of the pull request, if there is one.
func (u *Upgrader) propose(ctx context.Context, a *upgrade.Action) string {
	title := make([]string, len(a.Changes))
	for i, change := range a.Changes {
		title[i] = change.Installation + " to " + change.To
	}
	return u.Committer.Open(ctx, committer.PullRequest{
		Branch: a.Branch, Title: "Upgrade " + strings.Join(title, ", "),
		Body: "Proposed by the hub by the policy in packages/" + a.Changes[0].Installation +
			"/package.yaml. Delete the branch to have it proposed anew.",
	})
}

// forward plans that installations have other versions.
func (u *Upgrader) forward(ctx context.Context, tip *workspace.Tip, set *catalog.Set, a *upgrade.Action) (*workspace.Plan, error) {
	f, err := fleet.Load(tip.Files)
	if err != nil {
		return nil, err
	}
	lock, err := lockfile.Load(tip.Files)
	if err != nil {
		return nil, err
	}
	names, changes := make([]string, len(a.Changes)), make([]pkgupgrade.Change, len(a.Changes))
	for i, c := range a.Changes {
		names[i] = c.Installation
		changes[i] = pkgupgrade.Change{Installation: c.Installation, Version: c.To, Requires: c.Requires}
	}
	world := &compose.World{Fleet: f, Repo: tip.Files, Lock: lock, Blind: true}
	result, err := pkgupgrade.Plan(ctx, world, set, changes, pastOf(tip))
	take := "plural package upgrade " + strings.Join(names, " ")
	if err != nil {
		return nil, &actionError{v1.UpgradeReason{
			Code: v1.ReasonPlan, Message: "it cannot be put together: " + oneLine(err), Fix: fixOf(err, take),
		}}
	}
	if len(result.Conflicts) > 0 {
		return nil, &actionError{v1.UpgradeReason{
			Code: v1.ReasonConflict, Message: "what was changed here and what the new version changes conflict in " + strings.Join(result.Conflicts, ", "),
			Fix: take,
		}}
	}
	return &workspace.Plan{Files: result.Changes, Message: upgrade.Signed(result.Message)}, nil
}

// pastOf finds a package's files as they came, in the history of the installation repo.
func pastOf(tip *workspace.Tip) pkgupgrade.Past {
	return func(ctx context.Context, installation, digest string) (fs.FS, error) {
		past, err := tip.Past()
		if err != nil {
			return nil, err
		}
		seen := map[any]bool{}
		for _, p := range past {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			files, err := tip.At(p.ID)
			if err != nil {
				return nil, err
			}
			folder, err := fs.Stat(files, compose.Payload(installation))
			if err != nil || seen[folder.Sys()] {
				continue
			}
			seen[folder.Sys()] = true
			below, err := fs.Sub(files, compose.Payload(installation))
			if err != nil {
				return nil, err
			}
			if found, err := packages.Digest(below); err == nil && found == digest {
				return below, nil
			}
		}
		return nil, fs.ErrNotExist
	}
}

// fixOf is what an error says of itself to do, or what is always possible.
func fixOf(err error, otherwise string) string {
	var fixed interface{ Fix() string }
	if errors.As(err, &fixed) && fixed.Fix() != "" {
		return fixed.Fix()
	}
	return otherwise
}

// longestReason bounds what is shown of an error, in bytes.
const longestReason = 500

func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > longestReason {
		text = strings.ToValidUTF8(text[:longestReason], "") + "..."
	}
	return text
}

// backward plans that a move is taken back: what it changed becomes what it was, merged with what people have changed since, and
// the versions are skipped from now on.
func (u *Upgrader) backward(_ context.Context, tip *workspace.Tip, _ *catalog.Set, a *upgrade.Action) (*workspace.Plan, error) {
	parent, err := parentOf(tip, a.Revert)
	if err != nil {
		return nil, err
	}
	after, err := tip.At(a.Revert)
	if err != nil {
		return nil, err
	}
	before, err := tip.At(parent)
	if err != nil {
		return nil, err
	}
	files, conflicts, err := undo(after, tip.Files, before)
	if err != nil {
		return nil, err
	}
	if len(conflicts) > 0 {
		return nil, &actionError{v1.UpgradeReason{
			Code: v1.ReasonConflict, Fix: "git revert " + a.Revert,
			Message: a.Why + "; it cannot be taken back, since others changed the same in " + strings.Join(conflicts, ", "),
		}}
	}
	for _, c := range a.Changes {
		skip, err := yamledit.Skipped(overlay.New(tip.Files, files), c.Installation, c.From)
		if err != nil {
			return nil, err
		}
		files[skip.File] = skip.After
	}
	if _, err := fleet.Load(overlay.New(tip.Files, files)); err != nil {
		return nil, err
	}
	return &workspace.Plan{Files: files, Message: a.Message()}, nil
}

func parentOf(tip *workspace.Tip, commit string) (string, error) {
	past, err := tip.Past()
	if err != nil {
		return "", err
	}
	for _, p := range past {
		if p.ID == commit && p.Parent != "" {
			return p.Parent, nil
		}
	}
	return "", fmt.Errorf("find what commit %s was made on: it is further back than %d commits", commit, committer.HistoryDepth)
}

// undo are the changes that take ours back by what lies between after and before, in all that an upgrade touches.
func undo(after, ours, before fs.FS) (map[string][]byte, []string, error) {
	const folder = "packages"
	labels := merge.Labels{Base: "upgraded", Ours: "now", Theirs: "before the upgrade"}
	var parts [3]fs.FS
	for i, files := range []fs.FS{after, ours, before} {
		below, err := fs.Sub(files, folder)
		if err != nil {
			return nil, nil, err
		}
		parts[i] = below
	}
	below, conflicts, err := merge.Folder(parts[0], parts[1], parts[2], labels)
	if err != nil {
		return nil, nil, err
	}
	changes := make(map[string][]byte, len(below)+1)
	for name, text := range below {
		changes[folder+"/"+name] = text
	}
	for i := range conflicts {
		conflicts[i] = folder + "/" + conflicts[i]
	}
	locks := [3][]byte{}
	for i, files := range []fs.FS{after, ours, before} {
		if locks[i], err = fs.ReadFile(files, lockfile.File); err != nil {
			return nil, nil, err
		}
	}
	merged, n := merge.Three(locks[0], locks[1], locks[2], labels)
	if n > 0 {
		conflicts = append(conflicts, lockfile.File)
	}
	maps.Copy(changes, map[string][]byte{lockfile.File: merged})
	return changes, conflicts, nil
}
