package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrReleased means that the lock was released before.
var ErrReleased = errors.New("the lock on the record of deployments was released before")

// LockedError says that somebody else works on the fleet.
type LockedError struct {
	Lock Lock
	// Gone says that the process ran on this machine and does not any more.
	Gone bool
}

// Error names who, where, what and since when.
func (e *LockedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has locked the fleet since %s", e.Lock.Holder, e.Lock.Since.UTC().Format(time.RFC3339))
	if e.Lock.Purpose != "" {
		fmt.Fprintf(&b, " for %q", e.Lock.Purpose)
	}
	fmt.Fprintf(&b, " (host %s, process %d, lock %s)", e.Lock.Host, e.Lock.PID, e.Lock.ID)
	if e.Gone {
		b.WriteString("; that process is gone")
	}
	return b.String()
}

// Fix is what can be done about it.
func (e *LockedError) Fix() string {
	if e.Gone {
		return "run the command in the clone where that process ran, or take the lock away: plural deploy --unlock " + e.Lock.ID
	}
	return "wait for it to end; only when you know that it does not run any more: plural deploy --unlock " + e.Lock.ID
}

// LostError says that the lock of this process was taken away while it ran.
type LostError struct {
	// Lock is the one that was held, Now the one that is held instead, nil for none.
	Lock Lock
	Now  *Lock
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("somebody has taken away lock %s, which this run held", e.Lock.ID)
	if e.Now != nil {
		text += fmt.Sprintf("; %s has locked the fleet now (host %s, process %d, lock %s)",
			e.Now.Holder, e.Now.Host, e.Now.PID, e.Now.ID)
	}
	return text
}

// Fix is what can be done about it.
func (e *LostError) Fix() string {
	return "run the command again when the other one has ended: what this run did and could not record is done once more"
}

// RemoteError says that the remote could not be asked.
type RemoteError struct {
	Remote string
	Err    error
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("ask remote %q for the record of deployments: %s", e.Remote, gist(e.Err))
}

// Fix is what can be done about it.
func (e *RemoteError) Fix() string {
	return "see that the remote can be reached, with your credentials: git ls-remote " + e.Remote
}

// Unwrap is what git said.
func (e *RemoteError) Unwrap() error { return e.Err }

// RefusedError says that the remote does not take the record.
type RefusedError struct {
	// Remote is its name, empty when the record lies in this clone alone.
	Remote string
	Err    error
}

func (e *RefusedError) Error() string {
	if e.Remote == "" {
		return fmt.Sprintf("write the record of deployments to %s: %s", Ref, gist(e.Err))
	}
	return fmt.Sprintf("remote %q refuses %s, where the record of deployments lies: %s", e.Remote, Ref, gist(e.Err))
}

// Fix is what can be done about it.
func (e *RefusedError) Fix() string {
	if e.Remote == "" {
		return "see that you may write into the clone's .git folder"
	}
	return "let its server take pushes to refs/plural/* from you (write access, no rule against refs outside of refs/heads), " +
		"or keep the fleet on one that does"
}

// Unwrap is what git said.
func (e *RefusedError) Unwrap() error { return e.Err }

// gist is what git said in one line, without what it says of every failure.
func gist(err error) string {
	var told []string
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "error: failed to push some refs"),
			line == "fatal: Could not read from remote repository.",
			line == "Please make sure you have the correct access rights", line == "and the repository exists.":
			continue
		}
		told = append(told, line)
	}
	return strings.Join(told, "; ")
}
