package gitpoller

import (
	"context"
	"errors"
	"time"

	"github.com/pluralsh/plural/internal/plaintext"
	"github.com/pluralsh/plural/workspace/mirror"
)

// warmTimeout bounds what a new owner takes from another replica: the upstream is there too.
const warmTimeout = 30 * time.Second

// errPatience is a turn in which the upstream was left alone, as it had asked.
var errPatience = errors.New("the upstream asked to be left alone")

// errEnough is a turn in which a follower, which asks more often than it would the upstream, left that alone.
var errEnough = errors.New("the upstream answered a moment ago")

// ErrOtherTrust is what Owner and Warm refuse a replica for that believes others than this one: see [Want.Trust].
var ErrOtherTrust = errors.New("it believes other keys, another floor or rewinds")

// fetch is one turn. Its error slows the loop down; an upstream that answers but lacks a ref is no reason for that.
func (a *Agent) fetch(ctx context.Context) error {
	refs, from, err := a.begin()
	following := from != nil && from == a.options.Owner
	if err != nil {
		a.finish(nil, err, false, false)
		return err
	}
	if from == nil {
		return nil
	}
	limited, leave, err := a.options.Slots.enter(ctx, a.slow)
	if err != nil {
		return err
	}
	defer func() { a.slow = leave() }()
	limited, cancel := context.WithTimeout(limited, a.options.Timeout)
	defer cancel()
	a.warm(limited, refs)
	before := a.mirror.Fetched()
	_, mended := a.mirror.Damage()
	defer func() { a.tellDamage(mended) }()
	changed, err := a.mirror.Fetch(limited, from, refs)
	if following && errors.Is(err, ErrOtherTrust) { // nor is it waited for, which may be replaced only after this one
		if from, err = a.ask(); errors.Is(err, errEnough) {
			return nil
		}
		if err == nil {
			changed, err = a.mirror.Fetch(limited, from, refs)
		}
		following = false
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	answered := err == nil || a.mirror.Fetched().After(before)
	a.finish(changed, err, answered, following)
	if answered {
		return nil
	}
	return err
}

// tellDamage says that the mirror is damaged, or no more since it was mended so many times.
func (a *Agent) tellDamage(before int64) {
	damaged, mended := a.mirror.Damage()
	if !damaged && mended == before {
		return
	}
	a.log.Warn("the mirror on disk was damaged", "mended", !damaged)
	if a.options.Damaged != nil {
		a.options.Damaged(!damaged)
	}
}

// warm takes what another replica has, so that a new owner asks the upstream for the difference only. What cannot be had
// there the upstream gives.
func (a *Agent) warm(ctx context.Context, refs []string) {
	a.mu.Lock()
	due := a.role == Own && !a.synced && !a.warmed && a.options.Warm != nil
	a.warmed = a.warmed || due
	a.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	if _, err := a.mirror.Fetch(ctx, a.options.Warm, refs); err != nil {
		a.log.Debug("no other replica has the mirror", "error", err)
	}
}

// begin says what to ask for, and whom; nobody when there is nothing to do.
func (a *Agent) begin() ([]string, mirror.Upstream, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(a.refs) == 0 || a.role == Idle:
		return nil, nil, nil
	case a.role == Follow:
		return a.refNames(), a.options.Owner, nil
	}
	from, err := a.asked()
	return a.refNames(), from, err
}

// ask is for a follower that asks the upstream itself: what the owner said of it does not count any more.
func (a *Agent) ask() (mirror.Upstream, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owners = nil
	if time.Now().Before(a.enough) {
		return nil, errEnough
	}
	a.enough = time.Now().Add(time.Duration(float64(a.interval) * (1 - jitter)))
	return a.asked()
}

// asked is the upstream, which is about to be asked. It is called with mu held.
func (a *Agent) asked() (mirror.Upstream, error) {
	if time.Now().Before(a.quiet) {
		return nil, errPatience
	}
	a.status.LastAttempt = time.Now()
	return a.upstream, a.broken
}

// finish takes down what came of a turn, and tells whoever waits when that is news. What an owner could not be asked is
// not the upstream's failure.
func (a *Agent) finish(changed []string, err error, answered, following bool) {
	if errors.Is(err, errPatience) {
		return
	}
	text := ""
	if err != nil {
		text = plaintext.Of(err.Error())
	}
	a.mu.Lock()
	news := text != a.status.LastError || answered && !a.synced
	a.synced = a.synced || answered
	if !answered {
		a.enough = time.Time{}
	}
	a.status.LastError = text
	a.status.Changes += int64(len(changed))
	if !following {
		a.status.count(err, time.Now())
	}
	if retry := new(mirror.RetryError); errors.As(err, &retry) {
		a.quiet = time.Now().Add(min(retry.After, mostPatience))
	}
	a.problems = refProblems(err)
	a.mu.Unlock()
	a.report(changed, news, following, err)
	if news || len(changed) > 0 {
		a.changed()
	}
}

// count takes down how an attempt ended.
func (s *Status) count(err error, now time.Time) {
	s.Attempts++
	if err == nil {
		s.FailingSince, s.InARow = time.Time{}, 0
		return
	}
	s.Failures++
	if s.InARow++; s.InARow == 1 {
		s.FailingSince = now
	}
}

func (a *Agent) report(changed []string, news, following bool, err error) {
	tips := a.mirror.Tips()
	for _, ref := range changed {
		tip := tips[ref]
		a.log.Info("upstream changed", "ref", ref, "commit", tip.Commit)
		if tip.Rewound != "" {
			a.log.Warn("upstream left its history", "ref", ref, "commit", tip.Commit, "how", tip.Rewound)
		}
	}
	switch {
	case news && err != nil && following:
		a.log.Debug("owner cannot be asked; the last good commits stay", "error", err)
	case news && err != nil:
		a.log.Warn("upstream cannot be fetched as asked; the last good commits stay", "error", err)
	case news && !following:
		a.log.Debug("upstream is fetched")
	}
}

// setRole says whether the role, or the owner to follow, is a new one.
func (a *Agent) setRole(role Role, owner string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.role == role && a.owner == owner {
		return false
	}
	a.owner = owner
	a.role, a.status.LastError, a.problems, a.owners, a.synced, a.warmed = role, "", nil, nil, false, false
	a.status.FailingSince, a.status.InARow = time.Time{}, 0
	a.enough = time.Time{}
	return true
}

// refProblems finds what concerns single refs among joined errors.
func refProblems(err error) map[string]error {
	found := map[string]error{}
	var collect func(error)
	collect = func(err error) {
		if problem, ok := err.(*mirror.RefError); ok { //nolint:errorlint // the tree is walked node by node here
			found[problem.Ref] = problem
			return
		}
		switch wrapped := err.(type) { //nolint:errorlint // as above
		case interface{ Unwrap() error }:
			collect(wrapped.Unwrap())
		case interface{ Unwrap() []error }:
			for _, e := range wrapped.Unwrap() {
				collect(e)
			}
		}
	}
	collect(err)
	return found
}
