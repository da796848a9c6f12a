// Package doctor owns the checks of everything that a fleet depends on.
//
// It refuses to know how a finding is shown, and mends nothing: each check that fails says what to do, which is a person's to
// decide.
//
// Checks makes the list out of what there is: a machine, perhaps a repo, perhaps clusters and a hub. Examine runs it, many at
// once, each with a deadline. What several checks stand on is asked for once, and where that is away they are skipped with its
// name, so that one cause is told once.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"filippo.io/age"
	"k8s.io/client-go/rest"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

// State is how a check came out.
type State string

// The states, from good to bad. A check is skipped when there is nothing to check, or what it stands on is away.
const (
	OK      State = "ok"
	Skipped State = "skipped"
	Warn    State = "warning"
	Fail    State = "failed"
)

// Result is what a check found.
type Result struct {
	State State `json:"state"`
	// Text says what is there, Cause why that is not as it should be, Fix what to do about it.
	Text  string `json:"text,omitempty"`
	Cause string `json:"cause,omitempty"`
	Fix   string `json:"fix,omitempty"`
}

func ok(format string, args ...any) Result {
	return Result{State: OK, Text: fmt.Sprintf(format, args...)}
}

func skipped(format string, args ...any) Result {
	return Result{State: Skipped, Text: fmt.Sprintf(format, args...)}
}

func warn(fix, format string, args ...any) Result {
	return Result{State: Warn, Text: fmt.Sprintf(format, args...), Fix: fix}
}

func fail(fix, format string, args ...any) Result {
	return Result{State: Fail, Text: fmt.Sprintf(format, args...), Fix: fix}
}

// because is a failure by an error, which may know its fix.
func because(err error, text, fix string) Result {
	r := Result{State: Fail, Text: text, Cause: err.Error(), Fix: fix}
	var refused *workspace.Error
	var known interface {
		error
		Fix() string
	}
	switch {
	case errors.As(err, &refused):
		r.Cause, r.Fix = refused.Message, refused.Fix
	case errors.As(err, &known):
		r.Cause, r.Fix = known.Error(), cmp.Or(known.Fix(), fix)
	}
	return r
}

// Check is one thing to look at.
type Check struct {
	Group, Name string
	// Before says that it can be looked at, and matters, before anything is installed.
	Before bool
	// Run looks. It returns soon after ctx ends.
	Run func(ctx context.Context) Result
}

// Hub is a hub as a person may ask it.
type Hub interface {
	Status(ctx context.Context) (*v1.Status, error)
	Hub(ctx context.Context) (*v1.Hub, error)
	Clusters(ctx context.Context) (*v1.List[v1.Cluster], error)
	Me(ctx context.Context) (*v1.Me, error)
}

// Env is what there is to examine.
type Env struct {
	// Version is this program's, Program where it lies.
	Version, Program string
	// Repo is the installation repo, nil for none; NoRepo says why.
	Repo   *workspace.Repo
	NoRepo error
	// Environment is what git has besides this process's: its filter is this program.
	Environment []string
	// NoInput keeps git from asking for passwords.
	NoInput bool
	// Identities are the person's keys. It may be called more than once.
	Identities func() ([]age.Identity, error)
	// Clusters are those that this machine reaches, by name. NoClusters says why it reaches none.
	Clusters   map[string]*rest.Config
	NoClusters error
	// HubURL is where the hub is meant to be, empty when nothing says; HubCA holds PEM certificates to trust for it besides the
	// system's; Hub asks it as the person. NoHub says why it cannot be asked.
	HubURL string
	HubCA  []byte
	Hub    Hub
	NoHub  error
	// Local says that the fleet is one of this machine, whose processes plural local starts and stops.
	Local bool
	// Folders are those in which this program writes, besides the repo.
	Folders []string
	// Now is the clock; nil is the system's.
	Now func() time.Time
}

// Finding is a check with what it found.
type Finding struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	Result
	Seconds float64 `json:"seconds"`
}

// Options say how checks are run; the zero value is the usual.
type Options struct {
	// Parallel bounds how many run at once; 0 means 8.
	Parallel int
	// Deadline is how long each may take; 0 means 10 s.
	Deadline time.Duration
}

const (
	parallel = 8
	deadline = 10 * time.Second
)

// Examine runs checks, and returns what they found in their order.
func Examine(ctx context.Context, checks []Check, o Options) []Finding {
	slots := make(chan struct{}, cmp.Or(o.Parallel, parallel))
	limit := cmp.Or(o.Deadline, deadline)
	findings := make([]Finding, len(checks))
	var group sync.WaitGroup
	for i, c := range checks {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			findings[i] = examine(ctx, c, limit)
		})
	}
	group.Wait()
	return findings
}

func examine(ctx context.Context, c Check, limit time.Duration) Finding {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := c.Run(within)
	if r.State == Fail && within.Err() != nil && ctx.Err() == nil {
		r.Cause = fmt.Sprintf("no answer within %s", limit)
	}
	return Finding{Group: c.Group, Name: c.Name, Result: r, Seconds: time.Since(began).Seconds()}
}

// Checks are all checks of what there is. With before set, they are those that matter before anything is installed.
func Checks(env Env, before bool) []Check {
	x := &exam{Env: env}
	if x.Now == nil {
		x.Now = time.Now
	}
	x.repo = once(x.readRepo)
	x.remote = once(x.askRemote)
	x.fleet = once(x.loadFleet)
	x.hub = once(x.askHub)
	x.status = once(x.askStatus)
	var all []Check
	for _, group := range [][]Check{x.machine(), x.git(), x.keys(), x.files(), x.clusters(), x.hubs()} {
		for _, c := range group {
			if c.Before || !before {
				all = append(all, c)
			}
		}
	}
	return all
}

// exam is one examination: what there is, with what its checks share.
type exam struct {
	Env
	repo   func(context.Context) (*clone, error)
	remote func(context.Context) (map[string]string, error)
	fleet  func(context.Context) (*state, error)
	hub    func(context.Context) (*reply, error)
	status func(context.Context) (*v1.Status, error)
}

// manifest is plural.yaml, nil when it cannot be read, which the check of the files says.
func (x *exam) manifest(ctx context.Context) *fleet.Workspace {
	if s, err := x.fleet(ctx); err == nil {
		return &s.fleet.Workspace
	}
	return nil
}

// once asks at most once, on the time of who comes first; who comes meanwhile waits, no longer than its own.
func once[T any](ask func(context.Context) (T, error)) func(context.Context) (T, error) {
	turn := make(chan struct{}, 1)
	var done bool
	var value T
	var err error
	return func(ctx context.Context) (T, error) {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			var zero T
			return zero, context.Cause(ctx)
		}
		defer func() { <-turn }()
		if !done {
			value, err = ask(ctx)
			done = true
		}
		return value, err
	}
}

// plural is a count with its noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// some are the first few of a list, in words.
func some(list []string) string {
	const few = 5
	text := ""
	for i, item := range list {
		if i == few {
			return fmt.Sprintf("%s and %d more", text, len(list)-few)
		}
		if i > 0 {
			text += ", "
		}
		text += item
	}
	return text
}
