package mirror

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/pluralsh/plural/internal/httpclient"
)

// Upstream is where a mirror's commits come from: a git remote, a Helm repository, an OCI repository, or another
// replica's mirror of one of these. It is used by one fetch at a time.
type Upstream interface {
	// Fetch asks what the refs name now, and brings what the mirror lacks, through into. The error means that nobody
	// answered; a ref that cannot be had is a *RefError in Answer.Problems.
	Fetch(ctx context.Context, refs []string, into Receiver) (Answer, error)
	// Traffic counts since the Upstream was made.
	Traffic() Traffic
}

// Traffic is what an upstream was asked for, and how many bytes it answered.
type Traffic struct{ Requests, Bytes int64 }

// Answer is what an upstream said.
type Answer struct {
	// Tips are by ref.
	Tips map[string]Tip
	// Problems are of type *RefError.
	Problems []error
	// Fetched is when the upstream itself answered; zero means now.
	Fetched time.Time
}

// Tip is what a ref names.
type Tip struct {
	// ID changes when what the ref names does: an object's id at the remote, an archive's digest.
	ID string `json:"id"`
	// Commit is 40 hex digits; all that it holds is in the mirror.
	Commit string `json:"commit"`
	// Revision is for people: the commit, or "6.7.0@sha256:1f0c...".
	Revision string `json:"revision,omitempty"`
	// Rewound is not empty after the ref left its history, and says how, until it next advances plainly.
	Rewound string `json:"rewound,omitempty"`
}

// Receiver is the mirror as an upstream sees it during one fetch. It is large because git brings packs, and Helm, OCI and HTTP bring
// charts, files and archives.
type Receiver interface {
	// Tip is the last good one of a ref; zero when there is none.
	Tip(ref string) Tip
	// Complete says whether a commit is here with all that it holds.
	Complete(commit string) bool
	// Commits are those that need not be sent again.
	Commits() []string
	// Object gives a "commit" or a "tag" of at most 1 MiB, also one that was just received.
	Object(id string) (kind string, body []byte, err error)
	// Pack takes a git pack in: bounded, verified, indexed.
	Pack(ctx context.Context, r io.Reader) error
	// MaxFile is how large a file may be that is read, in bytes: larger ones need not be sent.
	MaxFile() int64
	// Unsent says that files larger than MaxFile may be missing in the packs that come.
	Unsent()
	// LeaveOut says which files larger than a limit are missing in the packs that come, with what each measures, zero where that
	// is not known. A lower limit than MaxFile counts for nothing.
	LeaveOut(left map[string]int64, most int64) error
	// HasPack says whether a pack of that name is here.
	HasPack(name string) bool
	// Tree makes one commit without parents of files. The same files and About give the same id on every machine.
	Tree(ctx context.Context, files fs.FS, about About) (commit string, err error)
	// Graft makes a commit in which the gitlinks at the given paths are replaced by the trees of other commits.
	Graft(ctx context.Context, commit string, at map[string]string) (grafted string, err error)
}

// About is what a made commit says of itself.
type About struct {
	Author, Message string
	Time            time.Time
}

// RefError says that one ref could not be brought up to date; its last good commit stays.
type RefError struct {
	Ref string
	Err error
}

func (e *RefError) Error() string { return fmt.Sprintf("ref %q: %v", e.Ref, e.Err) }
func (e *RefError) Unwrap() error { return e.Err }

// RetryError says that the upstream wants to be left alone for a while.
type RetryError = httpclient.RetryError

// Manifest is what another replica needs to hold the same.
type Manifest struct {
	// Fetched is when the upstream last answered.
	Fetched time.Time `json:"fetched"`
	// Tips are by ref; Before are older commits that are still kept.
	Tips   map[string]Tip `json:"tips"`
	Before []string       `json:"before,omitempty"`
	// Packs are the newest first.
	Packs []Pack `json:"packs"`
	// MaxFile is how large a file may be that is read; LeftOut are larger ones, as in Receiver. Replicas of earlier releases know
	// neither, and take no commit that has such a file.
	MaxFile int64            `json:"maxFile,omitempty"`
	LeftOut map[string]int64 `json:"leftOut,omitempty"`
}

// Pack is one file of a mirror.
type Pack struct {
	Name string `json:"name"`
	// Size is in bytes.
	Size int64 `json:"size"`
}
