// Package waitfor owns the wait until a commit has taken effect.
//
// It refuses to know what the commit changes and how it was made: it is told by name what has to be well, or gone.
//
// The hub is told that there is something to look at, and then asked again and again: first which commit it serves, then how what
// was named is at that commit. Each change of what is seen is one line on stderr and, once it takes long, so is each change of what
// is waited for, with the reason that the hub knows. What is refused, fails, or cannot be fetched ends the wait at once; what waits
// for a person, and what is not there when the time is over, ends it with ui.ExitPending.
package waitfor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

const (
	// lookEvery is the wait between two looks at the hub.
	lookEvery = 500 * time.Millisecond
	// Timeout is how long is waited where --timeout says nothing: a silent cluster must not keep a person waiting.
	Timeout = 2 * time.Minute
	// askAfter is how many looks it takes until a hub is asked whether it has come past the commit already.
	askAfter = 6
	// nameAfter is when a person is told what is waited for.
	nameAfter = 5 * time.Second
	// fetching is how long a source that could not be fetched may take to be tried again, before nobody waits for it any more: a
	// person who waits is told before nameAfter.
	fetching = 4 * time.Second
	// SecondLook is how long what is ill may take to be tried once more, before it counts as what came of a change.
	SecondLook = 5 * time.Second
)

// About is what has to be well once the commit is served. Where it names nothing, the commit only has to be served.
type About struct {
	Services []string
	Clusters []string
	// Gone says that they have to be there no more.
	Gone bool
}

// Hub is what is asked of a hub; *client.Client is one.
type Hub interface {
	Status(ctx context.Context) (*v1.Status, error)
	Service(ctx context.Context, name string) (*v1.Service, error)
	Cluster(ctx context.Context, name string) (*v1.ClusterDetail, error)
	Revision(ctx context.Context, commit string) (*v1.Revision, error)
	Sync(ctx context.Context, source string) error
}

// errUnsettled is why a wait ended that nobody bounded.
var errUnsettled = errors.New("it was not observed in time")

// Commit waits until the hub serves the commit, or a newer one that holds it, and what it is about is as it has to be. The
// error is a *ui.Err, with ExitPending when the time was over before.
func Commit(ctx context.Context, f *cmdutil.Factory, hub Hub, commit string, about About) error {
	_ = hub.Sync(ctx, ".") // a hub that is not told looks by itself, later
	w := &wait{f: f, hub: hub, commit: commit, about: about, told: map[string]string{}, since: f.Now()}
	return Until(ctx, f, w.look, w.pending)
}

// wait is one wait for a commit.
type wait struct {
	f      *cmdutil.Factory
	hub    Hub
	commit string
	about  About

	// served says that the hub has been seen to serve it; since is when that was, or else when the wait began. What is not good
	// may be what came of it only when it has stayed so for a while.
	served bool
	since  time.Time
	// head is the newest commit that the hub was seen to have, after so many looks; ask says that ours may be among those before.
	head  string
	looks int
	ask   bool
	// told is what was said last of each subject.
	told map[string]string
	// last is how everything was when it was looked at last, and status what the hub said of itself before it served the commit.
	last   []outcome
	status *v1.Status
}

// look is one look. It says what has changed since the one before.
func (w *wait) look(ctx context.Context) (bool, error) {
	if !w.served {
		served, err := w.serves(ctx)
		if err != nil || !served {
			return false, w.away(err)
		}
		w.served, w.since = true, w.f.Now()
		w.say("the hub", "serves "+cmdutil.ShortCommit(w.commit))
	}
	outcomes, err := w.outcomes(ctx)
	if err != nil {
		return false, w.away(err)
	}
	w.last = outcomes
	worst := well
	for _, o := range outcomes {
		w.say(ui.Clean(o.subject), o.told)
		worst = worse(worst, o.verdict)
	}
	switch worst {
	case ill:
		return false, w.failed(ctx)
	case blocked:
		return false, w.blocked()
	case underWay, well:
	}
	return worst == well, nil
}

func (w *wait) outcomes(ctx context.Context) ([]outcome, error) {
	var list []outcome
	for _, name := range w.about.Services {
		o, err := w.service(ctx, name)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	for _, name := range w.about.Clusters {
		o, err := w.cluster(ctx, name)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// serves says whether the hub serves the commit. The error is that of a commit that the hub refuses.
func (w *wait) serves(ctx context.Context) (bool, error) {
	status, err := w.hub.Status(ctx)
	if err != nil {
		return false, err
	}
	w.status = status
	if err := Refused(status, w.commit); err != nil {
		return false, err
	}
	if status.Commit.ID == w.commit {
		return true, nil
	}
	if fault := cmdutil.Unfetched(status, "."); fault != "" && status.Head.ID != w.commit && w.f.Now().Sub(w.since) >= fetching {
		return false, &ui.Err{
			Msg:   fmt.Sprintf("the change is pushed as %s, and the hub cannot fetch the installation repo", cmdutil.ShortCommit(w.commit)),
			Cause: fault, Fix: "mend that, then: plural source sync . && plural status --wait", Doc: ui.DocNotConverged,
		}
	}
	w.looks++
	if status.Head.ID != w.head { // somebody else may have pushed on top of it before the hub looked
		w.ask = w.head != ""
		w.head = status.Head.ID
	}
	if !w.ask && w.looks != askAfter || status.Head.ID == "" {
		return false, nil
	}
	w.ask = false
	return w.contained(ctx, status)
}

// contained says whether what the hub serves has come out of the commit.
func (w *wait) contained(ctx context.Context, status *v1.Status) (bool, error) {
	r, err := w.hub.Revision(ctx, w.commit)
	if err != nil { // it has no history, or not so far back: the next look may find the commit itself
		return false, w.unanswered(err)
	}
	switch r.Result {
	case v1.ResultCurrent, v1.ResultSuperseded:
		return true, nil
	case v1.ResultRefused:
		return false, Refused(status, status.Head.ID)
	case v1.ResultWaiting:
	}
	w.ask = true
	return false, nil
}

// unanswered is nil for an answer that is no answer to this question.
func (w *wait) unanswered(err error) error {
	var answer *client.Error
	if errors.As(err, &answer) {
		return nil
	}
	return err
}

// away says once that the hub does not answer. One that somebody stopped is not waited for.
func (w *wait) away(err error) error {
	if stopped := cmdutil.Stopped(err); stopped != nil {
		return &ui.Err{
			Msg: fmt.Sprintf("the change is pushed as %s, and %s", cmdutil.ShortCommit(w.commit), stopped.Msg),
			Fix: stopped.Fix + " brings it up, with the change", Doc: ui.DocLocal, Code: ui.ExitPending,
		}
	}
	var gone *client.Unreachable
	if errors.As(err, &gone) {
		w.say("the hub", "cannot be reached; waiting for it")
	}
	return err
}

// say tells what changed of a subject.
func (w *wait) say(subject, text string) {
	if text == "" || w.told[subject] == text {
		return
	}
	w.told[subject] = text
	w.f.Say("%s %s", subject, text)
}

// problems are what keeps something from being as it has to be.
func (w *wait) problems(all bool) []ui.Problem {
	var list []ui.Problem
	for _, o := range w.last {
		list = append(list, o.problems...)
		if all && len(o.problems) == 0 && o.verdict == underWay {
			list = append(list, ui.Problem{Where: o.subject, Message: cmp.Or(o.why, o.told)})
		}
	}
	return list
}

func (w *wait) failed(ctx context.Context) error {
	place := ""
	for _, o := range w.last {
		place = cmp.Or(place, o.place)
	}
	return &ui.Err{
		Msg:      fmt.Sprintf("%s is served, and not everything is well with it", cmdutil.ShortCommit(w.commit)),
		Problems: w.problems(false), Fix: "plural status" + w.takeBack(ctx, place), Doc: ui.DocUnhealthy,
	}
}

// takeBack is how the change is taken back, as the end of an advice; empty where it took another back itself.
func (w *wait) takeBack(ctx context.Context, place string) string {
	if undo := w.f.Undo(ctx, place, w.commit); undo != "" {
		return "; to take the change back: " + undo
	}
	return ""
}

func (w *wait) blocked() error {
	return &ui.Err{
		Msg:      fmt.Sprintf("%s is served, and waits for a person", cmdutil.ShortCommit(w.commit)),
		Problems: w.problems(false), Fix: "plural status", Doc: ui.DocHeld, Code: ui.ExitPending,
	}
}

// pending is the error of a wait that took too long.
func (w *wait) pending() error {
	told := &ui.Err{
		Fix: "plural status; the change is pushed, and needs nobody to wait for it", Code: ui.ExitPending, Problems: w.problems(true), Doc: ui.DocNotConverged,
	}
	told.Msg = fmt.Sprintf("the change is pushed as %s, and the hub does not serve it after %s", cmdutil.ShortCommit(w.commit), Timeout)
	switch {
	case w.served:
		told.Msg = fmt.Sprintf("%s is served, and still under way after %s", cmdutil.ShortCommit(w.commit), Timeout)
	case w.status != nil:
		told.Cause = fmt.Sprintf("the hub to serve %s: it serves %s", cmdutil.ShortCommit(w.commit),
			cmdutil.OrDash(cmdutil.ShortCommit(w.status.Commit.ID)))
		if w.status.Head.ID == w.commit {
			told.Cause += ", and has seen the commit"
		} else if fault := cmdutil.Unfetched(w.status, "."); fault != "" {
			told.Cause += ", and cannot fetch the installation repo: " + fault
		}
	}
	return told
}

// Until looks at the hub until look says that there is no more to wait for. A hub that is away for a while is waited for, but
// not one on this machine which somebody stopped. When the time is over that is taken where --timeout says nothing, the
// error is what pending says, and once the wait takes long a person is told each time that this changes.
func Until(ctx context.Context, f *cmdutil.Factory, look func(context.Context) (done bool, err error), pending func() error) error {
	if f.Timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, Timeout, errUnsettled)
		defer cancel()
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	begun, named := f.Now(), ""
	for {
		done, err := look(ctx)
		var away *client.Unreachable
		switch {
		case ctx.Err() != nil:
			return ended(ctx, pending)
		case err != nil && (!errors.As(err, &away) || cmdutil.Stopped(err) != nil):
			return err
		case err == nil && done:
			return nil
		}
		if text := waiting(pending()); f.Now().Sub(begun) >= nameAfter && text != named {
			named = text
			f.Say("%s", ui.Clean(text))
		}
		select {
		case <-ctx.Done():
			return ended(ctx, pending)
		case <-ticker.C:
		}
	}
}

// waiting says in one line what is pending; empty where that is not known.
func waiting(pending error) string {
	const most = 3
	var told *ui.Err
	if !errors.As(pending, &told) || told.Cause == "" && len(told.Problems) == 0 {
		return ""
	}
	var parts []string
	if told.Cause != "" {
		parts = append(parts, told.Cause)
	}
	for _, p := range told.Problems[:min(most, len(told.Problems))] {
		parts = append(parts, strings.TrimPrefix(p.Where+": "+p.Message, ": "))
	}
	text := "waiting for " + strings.Join(parts, "; ")
	if rest := len(told.Problems) - most; rest > 0 {
		text += fmt.Sprintf("; and %d more", rest)
	}
	return text
}

// ended is why a wait ended before it was over. Where --timeout did it, what is pending goes with the reason.
func ended(ctx context.Context, pending func() error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return cause
	}
	told := pending()
	var shown *ui.Err
	if !errors.Is(cause, errUnsettled) && errors.As(told, &shown) {
		shown.Err = cause
	}
	return told
}

// Refused is the error about a commit that the hub does not take, or nil.
func Refused(status *v1.Status, commit string) error {
	if status.Head.ID != commit || len(status.Refused) == 0 {
		return nil
	}
	var problems []ui.Problem
	for _, p := range status.Refused {
		problems = append(problems, cmdutil.HubProblem(p))
	}
	told := cmdutil.Problems("the commit "+cmdutil.ShortCommit(commit), problems)
	first := status.Refused[0]
	if first.Since == nil { // a hub of before does not say
		first.Since = &status.Head
	}
	told.Cause = cmdutil.Inherited(first, commit)
	told.Fix = cmdutil.Mend(first, status.Commit.ID) + "; clusters keep what they have: plural status"
	told.Doc = ui.DocRefusedCommit
	return told
}
