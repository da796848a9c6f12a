// Package leakcheck owns the search for files that should be sealed and are not.
//
// It refuses to know whose keys there are and how a person is told: findings come back as values, and nothing is printed.
// Of git it changes one thing, the index that is about to be committed.
//
// Rules judge one state of a repository: a file system, the index, a commit, the work tree. Names are matched first; only
// what must be sealed is read, and without a vault only its header is understood, which takes no identity. PreCommit
// and PrePush are what git's hooks run on top of that. PreCommit mends what it can by sealing anew in the index; PrePush
// looks at every commit that the remote does not have.
package leakcheck

// Report is what a hook found.
type Report struct {
	// Mended were sealed anew, and are in order now; of each, what was wrong. Sorted by path.
	Mended []Finding
	// Refused are the findings that must stop git.
	Refused []Finding
	// Warned are findings that stood there before and got no worse.
	Warned []Finding
}

// Err is a *RefusedError when anything was refused; action is what git was about to do: "commit", "push".
func (r *Report) Err(action string) error {
	if len(r.Refused) == 0 {
		return nil
	}
	return &RefusedError{Action: action, Findings: r.Refused}
}
