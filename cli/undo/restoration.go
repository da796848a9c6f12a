package undo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/rekey"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/revert"
	"github.com/pluralsh/plural/workspace/treediff"
)

// Restoration is the way from a plan that brings something back to a commit that is observed.
type Restoration struct {
	Factory *cmdutil.Factory
	Making  *change.CommitOptions
	Repo    *workspace.Repo
	Plan    *revert.Plan
	// Commit is the one that is taken back, or gone back to. Message is that of the new one.
	Commit, Message string
	// Unasked, if set, looks at the fleet as it is and as it will be, and refuses before anything is shown.
	Unasked func(before, after *fleet.Fleet) error
	// Question is asked once everything is shown. Agreed, if set, is asked before it, and refuses.
	Question string
	Agreed   func(context.Context, revert.Touched) error
	// Foretold, if set, is what a dry run says of what Agreed will want.
	Foretold func(revert.Touched) []string
}

// Do shows what is brought back, asks, makes it, and waits for it.
func (b Restoration) Do(ctx context.Context) error {
	if err := b.standing(); err != nil {
		return Explain(err)
	}
	now, err := loaded(b.Repo, b.Plan.Head, b.Plan.Files)
	if err != nil {
		return unfit(err)
	}
	if b.Unasked != nil && now.broken == nil { // what cannot be read has to be mended, by whichever commit
		if err := b.Unasked(now.before, now.after); err != nil {
			return err
		}
	}
	b.sayBroken(ctx, now)
	var touched, queued revert.Touched
	if now.still == nil { // else nobody knows what is there afterwards
		touched, queued = b.touched(now.before, now.after), b.queued(ctx, now.after)
	}
	for _, line := range summary(touched, b.Plan) {
		b.Factory.Say("%s", line)
	}
	if more := without(queued.Services, touched.Services); len(more) > 0 {
		b.Factory.Say("with it comes what the hub has refused until now, for the services: %s", cmdutil.Few(more))
	}
	if gone := without(queued.Gone, touched.Gone); len(gone) > 0 {
		b.Factory.Say("with it goes what the hub has kept until now, of the services: %s", cmdutil.Few(gone))
	}
	readers, err := b.readers(touched)
	if err != nil {
		return err
	}
	if b.Making.DryRun && b.Foretold != nil {
		for _, line := range b.Foretold(touched) {
			b.Factory.Say("%s", line)
		}
	}
	b.Making.On, b.Making.Ask = b.Plan.Head, func(ctx context.Context) error { return b.ask(ctx, touched) }
	made, err := b.Making.CarryOutFiles(ctx, b.Repo, b.Plan.Files, nil, b.Message)
	if readers != nil && made.Written && made.Branch == "" {
		err = errors.Join(err, readers.Confirm())
	}
	if err != nil {
		return err
	}
	touched.Services = append(touched.Services, without(queued.Services, touched.Services)...)
	return b.Making.Finish(ctx, made, about(touched))
}

// queued is what else comes into force where the hub refuses what is there, and takes it with this: all that was changed since
// the commit that it serves.
func (b Restoration) queued(ctx context.Context, after *fleet.Fleet) revert.Touched {
	status := b.Making.Refusing(ctx)
	if status == nil {
		return revert.Touched{}
	}
	served, err := offline.At(b.Repo, status.Commit.ID)
	if err != nil { // nothing is served, or this clone does not have it
		return revert.Touched{}
	}
	objects, err := b.Repo.Objects()
	if err != nil {
		return revert.Touched{}
	}
	changes, err := history.Of(objects).Changes(ctx, status.Commit.ID, b.Plan.Head, history.Scope{})
	if err != nil { // it is too much to be told
		return revert.Touched{}
	}
	since := revert.Plan{Files: map[string][]byte{}}
	for _, c := range changes {
		since.Files[c.Path] = nil
	}
	for path, content := range b.Plan.Files {
		was, err := fs.ReadFile(served.Taken().FS(), path)
		if same := err == nil && content != nil && bytes.Equal(was, content); same || errors.Is(err, fs.ErrNotExist) && content == nil {
			delete(since.Files, path)
		}
	}
	return since.Touches(served.Fleet, after, served)
}

// without are those of a list that are not among others.
func without(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(others, name) })
}

// readers says who can open what afterwards, where that changes: whoever agrees to it confirms it by that. It is nil where
// nothing does, and where it is not as the person has confirmed it already, which is to be looked at apart.
func (b Restoration) readers(touched revert.Touched) (*rekey.Standing, error) {
	if len(b.Plan.Trust) == 0 && len(touched.Agents) == 0 {
		return nil, nil
	}
	now, err := rekey.Stand(b.Repo, nil, b.Factory.Confirmed())
	if errors.Is(err, policy.ErrNone) || err == nil && len(now.Changes) > 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	after, err := rekey.Stand(b.Repo, b.Plan.Files, b.Factory.Confirmed())
	if errors.Is(err, policy.ErrNone) || err == nil && len(after.Changes) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	words := make([]string, len(after.Changes))
	for i, c := range after.Changes {
		words[i] = c.String()
	}
	b.Factory.Say("who can open what: %s", cmdutil.Few(words))
	return after, nil
}

// sayBroken says what it means that the fleet cannot be read as it is: that nothing of it is in force; and, where this changes
// nothing about that, what does.
func (b Restoration) sayBroken(ctx context.Context, now *forecast) {
	if now.loose != nil {
		b.Factory.Say("files that are not committed have a mistake: %s", cmdutil.FirstMistake(now.loose))
	}
	if now.broken == nil {
		return
	}
	b.Factory.Say("the fleet cannot be read as it is, so the hub keeps what it served before: %s", cmdutil.FirstMistake(now.broken))
	if now.still != nil {
		b.Factory.Say("with this it still cannot be read, and the hub refuses it too: %s", cmdutil.FirstMistake(now.still))
		b.Factory.Say("what works: %s", b.mending(ctx, now.sound))
	} else if len(now.after.Clusters) > 0 {
		b.Factory.Say("with this it can be read again; what is in force changes only where it differs from what is served")
	}
}

// mending is what makes a fleet of the repo again: to take back the commit that broke it, where that is enough, or all that came
// after the newest one that reads as a fleet, whose steps from HEAD sound counts.
func (b Restoration) mending(ctx context.Context, sound int) string {
	if sound < 0 {
		return "mend the files: plural validate names all mistakes"
	}
	if r := b.breaking(ctx, sound-1); r != nil && r.ID != b.Commit {
		return fmt.Sprintf("plural undo %s, which takes back %q, by which it broke", cmdutil.ShortCommit(r.ID), ui.Clean(r.Subject))
	}
	to, err := b.Repo.Resolve(fmt.Sprintf("HEAD~%d", sound))
	if err != nil {
		return "mend the files: plural validate names all mistakes"
	}
	return cmdutil.GoBack(to) + ", back to the newest commit that can be read"
}

// breaking is the commit so many steps back from HEAD, if the repo is a fleet without it; nil if not.
func (b Restoration) breaking(ctx context.Context, steps int) *history.Revision {
	id, err := b.Repo.Resolve(fmt.Sprintf("HEAD~%d", steps))
	if err != nil {
		return nil
	}
	objects, err := b.Repo.Objects()
	if err != nil {
		return nil
	}
	r, err := history.Of(objects).Revision(ctx, id)
	if err != nil {
		return nil
	}
	plan, err := revert.Of(ctx, objects, b.Plan.Head, r)
	if err != nil { // it cannot be taken back alone
		return nil
	}
	if _, err := fleet.Load(overlay.New(os.DirFS(b.Repo.Root()), plan.Files)); err != nil {
		return nil
	}
	return r
}

// standing judges what comes back sealed.
func (b Restoration) standing() error {
	if len(b.Plan.Sealed) == 0 {
		return nil
	}
	vault, err := b.Repo.Vault(b.Plan.Files)
	if errors.Is(err, policy.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	return b.Plan.Standing(vault, b.Commit)
}

func (b Restoration) touched(before, after *fleet.Fleet) revert.Touched {
	var src resolve.Sources
	if now, err := offline.Open(b.Repo, "HEAD"); err == nil {
		src = now
	}
	return b.Plan.Touches(before, after, src)
}

func (b Restoration) ask(ctx context.Context, touched revert.Touched) error {
	if b.Agreed != nil {
		if err := b.Agreed(ctx, touched); err != nil {
			return err
		}
	}
	if b.Factory.Yes {
		return nil
	}
	yes, err := b.Factory.Prompter().Confirm(ctx, b.Question, "--yes")
	if err == nil && !yes {
		err = &ui.Err{Msg: "nothing was done", Fix: "--yes does it without asking", Doc: ui.DocUnconfirmed}
	}
	return err
}

// summary says what a change is about, each thing in one line.
func summary(t revert.Touched, p *revert.Plan) []string {
	var lines []string
	add := func(title string, names []string) {
		if len(names) > 0 {
			lines = append(lines, title+cmdutil.Few(names))
		}
	}
	add("services: ", t.Services)
	add("takes away the services: ", t.Gone)
	add("on clusters: ", t.Clusters)
	add("changes the clusters: ", t.Changed)
	add("comes back as it was sealed: ", p.Sealed)
	add("stays as it is, since it is sealed: ", p.Kept)
	return lines
}

// maxWatched is how many services are waited for one by one: of more, the hub is only asked whether it serves the commit.
const maxWatched = 20

// about is what has to be well afterwards. What is taken away may wait for a person: that is the budget's to say.
func about(t revert.Touched) waitfor.About {
	switch {
	case len(t.Services) > maxWatched, len(t.Gone) > maxWatched:
		return waitfor.About{}
	case len(t.Services) == 0 && len(t.Gone) > 0:
		return waitfor.About{Services: t.Gone, Gone: true}
	}
	return waitfor.About{Services: t.Services}
}

// Explain names what stands in the way of a plan.
func Explain(err error) error {
	if errors.As(err, new(*treediff.TooManyError)) {
		return &ui.Err{
			Msg: "too much changes for it to be brought back here; nothing was changed", Cause: err.Error(),
			Fix: "git revert COMMIT, or git restore --source COMMIT FOLDER, or name another commit", Doc: ui.DocUndo, Err: err,
		}
	}
	var stuck *revert.ConflictError
	if !errors.As(err, &stuck) {
		return err
	}
	told := &ui.Err{
		Msg: fmt.Sprintf("%s cannot be taken back as it is; nothing was changed", cmdutil.ShortCommit(stuck.Commit)), Err: err,
		Fix: "undo the later commits first, or edit the files: git revert " + cmdutil.ShortCommit(stuck.Commit) + " shows both sides",
		Doc: ui.DocUndo,
	}
	for _, c := range stuck.Conflicts {
		told.Problems = append(told.Problems, ui.Problem{Where: c.Path, Message: c.Reason})
		for _, r := range c.Since {
			told.Problems = append(told.Problems, ui.Problem{
				Where: c.Path, Message: fmt.Sprintf("changed by %s %q, %s", cmdutil.ShortCommit(r.ID), r.Subject, r.Author),
			})
		}
	}
	return told
}

// unfit is about a fleet that would be none.
func unfit(err error) error {
	var mistakes fleet.Errors
	if !errors.As(err, &mistakes) {
		return err
	}
	return &ui.Err{
		Msg: "the fleet would not be one any more; nothing was changed", Problems: cmdutil.FleetProblems(mistakes),
		Fix: "undo what came after it first, or change the files by hand", Doc: ui.DocUndo, Err: err,
	}
}

// forecast is the fleet as the hub has it, and as it will be.
type forecast struct {
	before, after *fleet.Fleet
	// broken is why the files as they are now are no fleet, if so, and still why they are none afterwards. Then before is the
	// newest commit before that reads as a fleet, which the hub keeps serving, and from which the plan leads on; sound counts the
	// steps from HEAD back to it, and is negative where there is none.
	broken, still error
	sound         int
	// loose is a mistake of what is not committed alone, of which the hub knows nothing: before and after are without it.
	loose error
}

// loaded reads the fleet before and after files of the commit head are changed.
func loaded(repo *workspace.Repo, head string, files map[string][]byte) (*forecast, error) {
	r, now := &forecast{}, os.DirFS(repo.Root())
	r.before, r.broken = fleet.Load(now)
	r.after, r.still = fleet.Load(overlay.New(now, files))
	committed, err := offline.At(repo, head)
	if r.broken != nil && err == nil {
		r.loose, r.broken, r.before = r.broken, nil, committed.Fleet
		r.after, r.still = fleet.Load(overlay.New(committed.Taken().FS(), files))
	}
	switch {
	case r.broken == nil && (r.still != nil || err != nil):
		return r, r.still // where it is what is not committed that mends it, what is committed is not looked at
	case r.broken == nil:
		return r, homeless(committed, r.after, files)
	case r.still != nil:
		r.after = &fleet.Fleet{}
	}
	r.before = &fleet.Fleet{}
	var readable *offline.State
	if readable, r.sound = offline.LastReadable(repo); readable != nil {
		r.before = readable.Fleet
	}
	return r, nil
}

// homeless are the services whose folder is in the repo no more once files of the commit are changed, and that it does not lack
// already: the hub would refuse them. What is not committed does not count, nor do empty folders, which git does not know.
func homeless(committed *offline.State, after *fleet.Fleet, files map[string][]byte) error {
	was, will := committed.Taken().FS(), overlay.New(committed.Taken().FS(), files)
	var mistakes fleet.Errors
	for i := range after.Services {
		s := &after.Services[i]
		source := s.Spec.Source
		if source.Name != "" || source.Path == "" || !lacks(will, source.Path) {
			continue
		}
		if old, ok := committed.Fleet.Service(s.Metadata.Name); ok && old.Spec.Source == source && lacks(was, source.Path) {
			continue
		}
		fix := "undo the newer commit that uses the folder first, or plural service delete " + s.Metadata.Name
		if _, ok := committed.Fleet.Service(s.Metadata.Name); !ok {
			fix = "undo the commit that took the folder away first"
		}
		mistakes = append(mistakes, &fleet.Error{
			Position: s.Place("spec.source.path"), Fix: fix,
			Message: fmt.Sprintf("%s: path %q does not exist", s.Metadata.Name, path.Clean(source.Path)),
		})
	}
	if len(mistakes) > 0 {
		return mistakes
	}
	return nil
}

// lacks says that a folder is not there, or has nothing in it.
func lacks(fsys fs.FS, folder string) bool {
	entries, err := fs.ReadDir(fsys, path.Clean(folder))
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
}
