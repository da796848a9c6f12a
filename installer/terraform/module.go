package terraform

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"
)

// Module is what to run, and where.
type Module struct {
	// Files are the module's own: its root module lies at their root.
	Files fs.FS
	// Dir is this module's working folder, for nobody else and nothing else. It is made, private to its user, and keeps
	// what later runs need. A second Prepare on it waits for the first one's Work to be closed, and for its terraform.
	Dir string
	// Inputs are the values of the module's variables: what JSON can say.
	Inputs map[string]any
	// Secret names the inputs that appear in no log and no error, and whose file goes as soon as it was read.
	Secret map[string]bool
	// Backend completes the backend block that the module has; a module without one refuses it.
	Backend map[string]any
	// State is the newest that the caller knows, in clear; nil where there is none or the backend keeps it.
	State []byte
	// AllowDestroy lets Apply destroy and replace.
	AllowDestroy bool
	// Grace is how long terraform may take to stop once it was asked to, before it is killed; zero is five minutes.
	Grace time.Duration
	// Env has variables for terraform and its providers besides this process's own.
	Env map[string]string
}

// Work is an initialised module. It is for one caller at a time.
type Work struct{}

// Summary is what a plan would do.
type Summary struct {
	// Add, Change and Destroy count resources; Replace counts those that are destroyed and made anew, which are in no
	// other count.
	Add, Change, Destroy, Replace int
	// Changes has each of them, and the outputs that change, in the order of their addresses.
	Changes []Change
	// Empty says that nothing would change, outputs included.
	Empty bool
}

// Change is what happens to one resource or output.
type Change struct {
	// Address is a resource's, or "output.NAME".
	Address string
	// Action is create, update, delete, replace, forget or read.
	Action string
}

// Destroys are the addresses of what a plan destroys or replaces.
func (s *Summary) Destroys() []string { return nil }

// Output is one that a module gives.
type Output struct {
	// Value is what JSON can say; whole numbers are int64, others float64.
	Value any
	// Secret says that the module calls it sensitive.
	Secret bool
}

// Result is what there is after a run, and also after one that failed.
type Result struct {
	Outputs map[string]Output
	// State is in clear; nil where a backend keeps it, and where nothing was ever made.
	State []byte
}

// Prepare waits until nothing else works in the module's folder, unpacks the module, puts the newest state there and
// initialises it. The log gets whole lines, each by one Write; it may be nil.
func (t *Tool) Prepare(ctx context.Context, m Module, log io.Writer) (*Work, error) {
	return nil, errors.ErrUnsupported
}

// HasBackend says whether the module keeps its state elsewhere than in its folder.
func (w *Work) HasBackend() bool { return false }

// Plan works out what would change, and keeps the plan for Apply. A plan that destroys is none that fails: see Destroys.
func (w *Work) Plan(ctx context.Context) (*Summary, error) { return nil, errors.ErrUnsupported }

// Apply does what the last Plan said, or what a new one says. It fails with a *DestroyError, before anything is done,
// when that destroys and the module may not. The Result is never nil; when ctx ends terraform is asked to stop.
func (w *Work) Apply(ctx context.Context) (*Result, error) { return &Result{}, errors.ErrUnsupported }

// Destroy takes away all that the state has, whatever AllowDestroy says. The Result is as Apply's.
func (w *Work) Destroy(ctx context.Context) (*Result, error) { return &Result{}, errors.ErrUnsupported }

// Unlock removes the lock that a backend has under the id of a *LockedError.
func (w *Work) Unlock(ctx context.Context, id string) error { return errors.ErrUnsupported }

// Forget removes the state from the folder: the caller has put it where it is kept.
func (w *Work) Forget() error { return errors.ErrUnsupported }

// Close removes what is secret in the folder but the state, and lets others work there. It may be called twice.
func (w *Work) Close() error { return nil }
