package why

import (
	"errors"
	"slices"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
)

// readable is the newest commit that reads as a fleet, with its state. The error is unreadable where there is no such
// commit, or where it is the file of the service that is asked for which has a mistake.
func (o options) readable(repo *workspace.Repo, subject string, unreadable error) (*offline.State, *offline.Commit, error) {
	var mistakes fleet.Errors
	if !errors.As(unreadable, &mistakes) {
		return nil, nil, unreadable
	}
	state, steps := offline.LastReadable(repo)
	if state == nil {
		return nil, nil, unreadable
	}
	name := o.nameOf(subject)
	files := []string{"services/" + name + ".yaml", "services/" + name + ".yml"}
	if s, ok := state.Fleet.Service(name); ok {
		files = append(files, s.Position.File)
	}
	if slices.ContainsFunc(mistakes, func(m *fleet.Error) bool { return concerns(m, files) }) {
		return nil, nil, unreadable
	}
	commit, err := offline.Ancestor(repo, steps)
	if err != nil || commit == nil {
		return nil, nil, unreadable
	}
	return state, commit, nil
}

// sayReadAt says which commit an answer is from that is not from the files as they are, and why.
func (a *asked) sayReadAt() {
	if a.readAt == nil {
		return
	}
	id, subject := cmdutil.ShortCommit(a.readAt.ID), ui.Clean(a.readAt.Subject)
	a.f.Say("warning: the installation repo has an error: %s", cmdutil.FirstMistake(a.unreadable))
	a.f.Say("  this answer is from commit %s %q, the newest that can be read", id, subject)
	a.f.Say("  fix: mend the file: plural validate names all mistakes")
}

// concerns says that a mistake is in one of the files, or names a place in one: that of a dependency cycle names each step.
func concerns(m *fleet.Error, files []string) bool {
	return slices.ContainsFunc(files, func(file string) bool {
		return m.File == file || strings.Contains(" "+m.Message, " "+file+":") || strings.Contains(m.Message, "("+file+":")
	})
}
