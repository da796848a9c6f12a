// Package ledger owns the record of what was deployed of a fleet's packages.
package ledger

import (
	"context"
	"errors"

	"github.com/pluralsh/plural/workspace"
)

// Ref is where the record lies in the installation repo's git repository, here and at its remote.
const Ref = "refs/plural/deployments"

// Ledger is the record of one installation repo.
type Ledger struct {
	// NoInput keeps git from asking anybody for a password or a passphrase.
	NoInput bool
}

// Open finds out where the record of a repo lies. It asks no remote.
func Open(*workspace.Repo) (*Ledger, error) { return nil, errors.New("not written yet") }

// Read is the record as the remote has it, or this clone where there is no remote. What was never written is empty.
func (l *Ledger) Read(context.Context) (*Record, error) { return nil, errors.New("not written yet") }

// File is a file of the record that Read gave last.
func (l *Ledger) File(context.Context, string) ([]byte, error) {
	return nil, errors.New("not written yet")
}

// Acquire makes this process the only one that writes the record. ID, Host, PID and Since are filled in, and Holder when it is empty.
func (l *Ledger) Acquire(context.Context, Lock) (*Held, error) {
	return nil, errors.New("not written yet")
}

// Break takes a lock away from whoever has it.
func (l *Ledger) Break(context.Context, string) error { return errors.New("not written yet") }

// Held is the right to write the record. It is safe for concurrent use.
type Held struct {
	// Lock is the one that is held, TookOver the one of a run that ended without releasing it, nil for none.
	Lock     Lock
	TookOver *Lock
}

// Record is the record as it was written last.
func (h *Held) Record() *Record { return nil }

// Update changes the record, and puts files into it (nil takes one out), and returns when the remote has it all.
func (h *Held) Update(context.Context, func(*Record), map[string][]byte) error {
	return errors.New("not written yet")
}

// Release lets others write.
func (h *Held) Release(context.Context) error { return errors.New("not written yet") }

// LockedError says that somebody else works on the fleet.
type LockedError struct {
	Lock Lock
	// Gone says that the process ran on this machine and does not any more.
	Gone bool
}

func (e *LockedError) Error() string { return "locked" }
