package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Fetch asks an upstream for the refs, spelled as that kind of upstream understands them, and takes in what is new. A ref
// of 40 hex digits is a commit; one that is kept already is not asked for again. Fetch returns those refs whose commit
// changed, which it may do beside an error: a ref that cannot be had, or whose files are refused, is a *RefError in it,
// keeps its last good commit and holds up no other ref.
func (m *Mirror) Fetch(ctx context.Context, from Upstream, refs []string) (changed []string, err error) {
	m.fetching.Lock()
	defer m.fetching.Unlock()
	changed, err = m.fetch(ctx, from, refs)
	if err == nil || ctx.Err() == nil {
		err = errors.Join(err, m.compactIfNeeded(ctx))
	}
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return changed, err
}

func (m *Mirror) fetch(ctx context.Context, from Upstream, refs []string) ([]string, error) {
	r, err := m.receiver(ctx)
	if err != nil {
		return nil, err
	}
	defer r.discard()
	pinned, asked := r.split(refs)
	answer, err := from.Fetch(ctx, asked, r)
	if err != nil {
		return nil, err
	}
	next := r.known.clone()
	changed, problems := r.advance(&next, asked, answer.Tips)
	for _, ref := range pinned {
		if next.Refs[ref].Commit == "" {
			next.Refs[ref], changed = refTip{Tip: Tip{ID: ref, Commit: ref, Revision: ref}}, append(changed, ref)
		}
	}
	problems = slices.Concat(answer.Problems, problems)
	if r.fresh() {
		problems = append(problems, r.salvage(&next)...)
		if len(next.Refs) == 0 && len(r.known.Refs) > 0 { // what is damaged is better than nothing
			return nil, errors.Join(problems...)
		}
	}
	now := time.Now()
	if answer.Fetched.IsZero() {
		answer.Fetched = now
	}
	next.touch(refs, answer.Fetched, now)
	if len(problems) == 0 {
		next.Brought = &answer.Fetched
	}
	slices.Sort(changed)
	return changed, errors.Join(append(problems, m.commit(next, r))...)
}

// split tells refs that name a commit which is kept already from those to ask for.
func (r *receiver) split(refs []string) (pinned, asked []string) {
	for _, ref := range refs {
		if isCommit(ref) && r.known.holds(ref) && r.Complete(ref) {
			pinned = append(pinned, ref)
		} else {
			asked = append(asked, ref)
		}
	}
	return pinned, asked
}

// advance moves refs whose new commit is complete and acceptable.
func (r *receiver) advance(next *state, asked []string, tips map[string]Tip) (changed []string, refused []error) {
	for _, ref := range slices.Sorted(maps.Keys(tips)) {
		tip, known := tips[ref], next.Refs[ref]
		if !slices.Contains(asked, ref) {
			continue
		}
		if err := r.accept(tip.Commit); err != nil {
			refused = append(refused, &RefError{Ref: ref, Err: err})
			continue
		}
		if known.Commit != tip.Commit {
			changed = append(changed, ref)
		}
		next.Refs[ref] = known.moved(tip)
	}
	return changed, refused
}

// salvage brings what still stands in the damaged generation, and was not brought anew, into the one that replaces it.
// What cannot be saved leaves the state.
func (r *receiver) salvage(next *state) (lost []error) {
	saved := map[string]bool{}
	for _, commit := range next.commits() {
		saved[commit] = r.Complete(commit) || r.save(commit) == nil
	}
	for _, ref := range slices.Sorted(maps.Keys(next.Refs)) {
		tip := next.Refs[ref]
		tip.Before = slices.DeleteFunc(slices.Clone(tip.Before), func(c string) bool { return !saved[c] })
		if next.Refs[ref] = tip; saved[tip.Commit] {
			continue
		}
		delete(next.Refs, ref)
		lost = append(lost, &RefError{Ref: ref, Err: fmt.Errorf("its last good commit %s was lost to damage on disk", tip.Commit)})
	}
	return lost
}

// save copies one commit from the current generation.
func (r *receiver) save(commit string) error {
	w := newPackWriter(r.store, splitPack)
	defer w.discard()
	seen := maps.Clone(r.verified)
	if err := w.copyTree(r.ctx, r.m.objects, commit, seen); err != nil {
		return err
	}
	if err := w.finish(); err != nil {
		return err
	}
	return r.accept(commit)
}

// saveEvery is how stale the time of the last answer may be on disk.
const saveEvery = time.Minute

// unsaved says whether next must be written: a poll that found nothing new is worth no write a second.
func (m *Mirror) unsaved(next state) bool {
	age := next.Fetched.Sub(m.saved.Fetched)
	return next.Generation != m.saved.Generation || next.Brought.Equal(next.Fetched) != m.saved.Brought.Equal(m.saved.Fetched) ||
		age >= saveEvery || age < 0 ||
		!maps.EqualFunc(next.Refs, m.saved.Refs, refTip.equal)
}

// commit makes next the state, on disk first. When r filled a new generation, that becomes the current one, and the one
// that it replaces is dropped.
func (m *Mirror) commit(next state, r *receiver) error {
	next.Generation, next.MaxFile = r.generation, m.maxFile
	if m.unsaved(next) {
		if err := next.save(m.dir); err != nil {
			return err
		}
		m.saved = next.clone()
	}
	fresh, old := r.fresh(), m.store
	m.mu.Lock()
	m.state, m.store = next, r.store
	if fresh {
		m.objects.Use(r.store)
	}
	m.mu.Unlock()
	if !fresh {
		return nil
	}
	r.m, m.verified = nil, r.verified
	if m.damaged.Swap(false) {
		m.replaced.Add(1)
	}
	old.close()
	return m.sweep()
}
