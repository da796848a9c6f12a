package history

import "context"

// maxChain is how many times in a row something may have been undone and redone.
const maxChain = 1000

// Undoable is the newest step from a commit back that has its effect: it is not taken back by a later one, and does not itself take
// one back. So to undo twice in a row undoes the step before, as editors do. Nil: there is none.
func (l *Log) Undoable(ctx context.Context, from string, scope Scope) (*Revision, error) {
	var found *Revision
	undone, left := map[string]bool{}, MaxWalk
	err := l.walk(ctx, from, scope, func(r *Revision, _ string, _ bool) bool {
		left--
		switch {
		case r == nil || undone[r.ID]:
		case r.Reverts != "":
			undone[r.Reverts] = true
		default:
			found = r
		}
		return found == nil && left > 0
	})
	return found, err
}

// Redoable is the newest step that took another back and has its effect, as long as nothing but undoing and redoing came after it.
// Nil: there is none.
func (l *Log) Redoable(ctx context.Context, from string, scope Scope) (*Revision, error) {
	var found *Revision
	undone, left := map[string]bool{}, maxChain
	err := l.walk(ctx, from, scope, func(r *Revision, _ string, _ bool) bool {
		left--
		switch {
		case r == nil || undone[r.ID]:
		case r.Reverts == "":
			return false
		case l.undoes(r.Reverts):
			found = r
		default: // it brings something back
			undone[r.Reverts] = true
		}
		return found == nil && left > 0
	})
	return found, err
}

// undoes says whether to take a commit back undoes something: it is no undo itself, or the redoing of something.
func (l *Log) undoes(id string) bool {
	undoes := true
	for range maxChain {
		c, err := l.commit(id)
		if err != nil {
			return undoes
		}
		r := describe(c)
		if r.Reverts == "" && r.Merge {
			r.Reverts = l.mergedRevert(c)
		}
		if r.Reverts == "" {
			return undoes
		}
		undoes, id = !undoes, r.Reverts
	}
	return undoes
}

// Undone says by which later step each commit is taken back, as far as the steps of a page tell, the newest of which come first.
func Undone(steps []Revision) map[string]string {
	by := map[string]string{}
	for i := range steps {
		if r := &steps[i]; r.Reverts != "" && by[r.ID] == "" && by[r.Reverts] == "" {
			by[r.Reverts] = r.ID
		}
	}
	return by
}
