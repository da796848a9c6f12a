package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/pluralsh/plural/crypto/seal"
)

// Held is the right to write the record. It is safe for concurrent use. Release ends it, and must be called.
type Held struct {
	// Lock is the one that is held, TookOver the one of a run that ended without releasing it, nil for none.
	Lock     Lock
	TookOver *Lock

	ledger *Ledger
	guard  *guarded
	// turn is held by the one that writes, for itself and for all that have queued up meanwhile.
	turn chan struct{}

	mu       sync.Mutex // guards all below
	queue    []*update
	seen     *snapshot
	released bool
}

// update is a change on its way.
type update struct {
	change func(*Record)
	files  map[string][]byte
	done   chan struct{}
	err    error // set before done is closed
}

// Record is the record as it was written last. It is the caller's.
func (h *Held) Record() *Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	record, _ := h.seen.record() // this process has read it, or written it itself
	return record
}

// Update changes the record and puts files into it, and returns when the remote has it all. A file is named by the step that it
// belongs to, as State, Inputs or part of Module, and goes when no step names it any more; nil takes one out. What goes below
// sealed/ must be sealed; a module's files are to be given as git keeps them, since nobody seals them here.
//
// Updates that come while another one is being written are written together. The change may be called more than once, each
// time on a record that does not have it: somebody may have broken the lock, and then the error is a *LostError. When ctx ends
// it is open whether the change was written.
func (h *Held) Update(ctx context.Context, change func(*Record), files map[string][]byte) error {
	if err := checkFiles(files); err != nil {
		return err
	}
	u := &update{change: change, files: files, done: make(chan struct{})}
	h.mu.Lock()
	h.queue = append(h.queue, u)
	h.mu.Unlock()
	select {
	case <-u.done:
		return u.err
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
		h.lead(ctx, u)
	case <-ctx.Done():
		select { // it may be under way, on the time of whoever writes it
		case <-u.done:
		case h.turn <- struct{}{}:
			defer func() { <-h.turn }()
			if h.withdraw(u) {
				return context.Cause(ctx)
			}
		}
	}
	<-u.done
	return u.err
}

// lead writes all that has queued up, u among it, unless somebody did while this one waited for its turn. Only whoever has the
// turn calls it, as it does withdraw: what is in no queue then is done.
func (h *Held) lead(ctx context.Context, u *update) {
	h.mu.Lock()
	batch := h.queue
	own := slices.Contains(batch, u)
	if own {
		h.queue = nil
	}
	h.mu.Unlock()
	if !own {
		return
	}
	err := h.write(ctx, batch, message(len(batch)))
	if err != nil && ctx.Err() != nil { // the others have time of their own
		h.mu.Lock()
		h.queue = append(slices.DeleteFunc(slices.Clone(batch), func(other *update) bool { return other == u }), h.queue...)
		h.mu.Unlock()
		batch = []*update{u}
	}
	for _, each := range batch {
		each.err = err
		close(each.done)
	}
}

// withdraw takes an update out of the queue; ok is false when it is not there any more.
func (h *Held) withdraw(u *update) (ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.Index(h.queue, u)
	if at >= 0 {
		h.queue = slices.Delete(h.queue, at, at+1)
	}
	return at >= 0
}

// write publishes some updates together. Only whoever has the turn calls it.
func (h *Held) write(ctx context.Context, batch []*update, message string) error {
	h.mu.Lock()
	s, released := h.seen, h.released
	h.mu.Unlock()
	if released {
		return ErrReleased
	}
	for range races {
		record, err := s.record()
		if err != nil {
			return err
		}
		if record.Lock == nil || record.Lock.ID != h.Lock.ID {
			return &LostError{Lock: h.Lock, Now: record.Lock}
		}
		r := revision{record: record, files: map[string][]byte{}}
		for _, u := range batch {
			u.change(record)
			for path, content := range u.files {
				r.files[path] = content
			}
		}
		next, err := h.ledger.publish(ctx, s, r, message)
		if err == nil {
			h.mu.Lock()
			h.seen = next
			h.mu.Unlock()
			return nil
		}
		if !errors.Is(err, errMoved) {
			return err
		}
		if s, err = h.ledger.look(ctx); err != nil {
			return err
		}
	}
	return errMoved
}

func message(changes int) string {
	if changes == 1 {
		return "Record a change"
	}
	return fmt.Sprintf("Record %d changes", changes)
}

// Release lets others write, once what is being written is. The right ends here, whatever the error: a lock that could not be
// taken out of the record is taken over by the next run in this clone, and one that was lost before, a *LostError, is not there
// to be released. It may be called twice.
func (h *Held) Release(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), h.end())
	}
	defer func() { <-h.turn }()
	h.mu.Lock()
	released := h.released
	h.mu.Unlock()
	if released {
		return nil
	}
	err := h.write(ctx, []*update{{change: func(r *Record) { r.Lock = nil }}}, "Release the lock")
	return errors.Join(err, h.end())
}

// end lets other processes of this clone ask for the lock.
func (h *Held) end() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return nil
	}
	h.released = true
	return h.guard.close()
}

// checkFiles refuses files that have no place in the record.
func checkFiles(files map[string][]byte) error {
	for path, content := range files {
		switch {
		case !fs.ValidPath(path) || !strings.HasPrefix(path, sealedDir):
			return fmt.Errorf("record %q: a file lies below %s", path, sealedDir)
		case content != nil && !seal.IsSealed(content):
			return fmt.Errorf("record %q: it is not sealed", path)
		case len(content) > seal.MaxFile:
			return fmt.Errorf("record %q: it is larger than %d MiB", path, seal.MaxFile>>20)
		}
	}
	return nil
}
