package act

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// Care is what a person has to say before an action is carried out. What changes several things at once takes Ask at least, and
// more than many of them Typed.
type Care uint8

// How much care there is.
const (
	// None carries it out at once.
	None Care = iota
	// Ask shows the commands, and asks y/N.
	Ask
	// Look shows what --dry-run says besides.
	Look
	// Typed wants the name typed besides or, of several, how many there are.
	Typed
)

// many is how many things a y is enough for.
const many = 20

// The verbs of v1.Me.
const (
	verbSync = "sync"
	verbEdit = "edit"
)

// unwatched has a command end when it has done its part: the console shows what comes of it.
const unwatched = "--wait=false"

// Targets are what an action is done to, which is not always what the rows are about: a service is suspended on all clusters.
type Targets struct {
	// Noun is the word for several of them.
	Noun  string
	Names []string
}

// String names one, and counts several.
func (t Targets) String() string {
	if len(t.Names) == 1 {
		return t.Names[0]
	}
	return fmt.Sprintf("%d %s", len(t.Names), t.Noun)
}

// Action is something that can be done to subjects, by commands of this program.
type Action struct {
	Binding key.Binding
	// Name says what is done, as a verb.
	Name string
	// Verb is the one of v1.Me that it takes; empty: anybody may ask for it.
	Verb string
	// Writes says that it changes something: a console that only reads does not offer it.
	Writes bool
	// Asks says that the hub is asked for it.
	Asks bool
	// LogsIn says that it lets the person in again, whom the hub does not know any more.
	LogsIn bool
	// Terminal says that its command talks to the person, on the console's terminal.
	Terminal bool
	// Outside says that its commands are programs of the person's, and not commands of this one.
	Outside bool
	// InCluster says that a cluster itself is changed by it, at once and past git: in production that wants to be typed too.
	InCluster bool
	// Background says that it goes on beside everything else, until a person ends it.
	Background bool
	// Heals says that agents may put back what git says, which is told first.
	Heals bool
	// Care is what is asked first. From Look on its commands know --dry-run.
	Care Care
	// Deletes says that something goes by it: in production that wants to be typed.
	Deletes bool
	// Applies says whether it can be done to these, of which there may be none.
	Applies func([]pane.Subject) bool
	// About is what it is done to.
	About func([]pane.Subject) Targets
	// Commands are plural's arguments, one command each. The error says why there are none.
	Commands func([]pane.Subject) ([][]string, error)
	// Needs, in place of Commands, is what a person has to say first about the one object, of which live is how it is now, if known.
	Needs func(o *v1.Object, live map[string]any) need
	// Copies is what goes to the clipboard, in place of commands.
	Copies func([]pane.Subject) string
}

// care is what is asked before it is done to n.
func (a *Action) care(n int) Care {
	switch {
	case !a.Writes:
		return None
	case n > many:
		return Typed
	case n > 1:
		return max(a.Care, Ask)
	}
	return a.Care
}

func bind(k, text string) key.Binding { return key.NewBinding(key.WithKeys(k), key.WithHelp(k, text)) }

// Actions are all that there are. Of those with one key, the first that applies is meant.
func (d *Desk) Actions() []Action {
	return slices.Concat(d.login(), d.objects(), d.now(), d.written(), d.back(), d.tools(), d.copies(), d.owned())
}

// login is what lets a person in again.
func (d *Desk) login() []Action {
	return []Action{{
		Binding: bind("L", "log in"), Name: "log in to", LogsIn: true, Terminal: true,
		Applies:  func([]pane.Subject) bool { return true },
		About:    func([]pane.Subject) Targets { return Targets{"hubs", []string{"the hub"}} },
		Commands: func([]pane.Subject) ([][]string, error) { return [][]string{{"auth", "login"}}, nil },
	}}
}

// now are actions that clusters and the hub are asked for.
func (d *Desk) now() []Action {
	deployed := func(all []pane.Subject) bool { return every(all, isDeployment) }
	return []Action{
		{
			Binding: bind("S", "sync now"), Name: "sync", Verb: verbSync, Writes: true, Asks: true,
			Applies: func(all []pane.Subject) bool {
				return every(all, isDeployment) || every(all, is(pane.KindService, pane.KindCluster, pane.KindSource))
			},
			About: about,
			Commands: func(all []pane.Subject) ([][]string, error) {
				if deployed(all) {
					return perService(all, []string{"service", "sync"}, unwatched), nil
				}
				var out [][]string
				for _, s := range all {
					switch s.Kind { //nolint:exhaustive // Applies left these
					case pane.KindService:
						out = append(out, []string{"service", "sync", s.Name, unwatched})
					case pane.KindCluster:
						out = append(out, []string{"cluster", "sync", s.Name})
					case pane.KindSource:
						out = append(out, []string{"source", "sync", s.Name})
					}
				}
				return out, nil
			},
		},
		{
			Binding: bind("R", "restart pods"), Name: "restart the pods of", Writes: true, Asks: true, Care: Ask,
			Applies: func(all []pane.Subject) bool { return deployed(all) || every(all, is(pane.KindService)) },
			About:   about,
			Commands: func(all []pane.Subject) ([][]string, error) {
				return perService(all, []string{"service", "restart"}), nil
			},
		},
	}
}

// written are actions that are commits.
func (d *Desk) written() []Action {
	ofServices := func(suspended bool) func([]pane.Subject) bool {
		return func(all []pane.Subject) bool {
			return every(all, is(pane.KindService, pane.KindDeployment)) &&
				slices.ContainsFunc(all, func(s pane.Subject) bool { return !s.Suspended }) != suspended
		}
	}
	named := func(verb string) func([]pane.Subject) ([][]string, error) {
		return func(all []pane.Subject) ([][]string, error) { return perName(services(all), "service", verb), nil }
	}
	aboutServices := func(all []pane.Subject) Targets { return Targets{"services", services(all)} }
	return []Action{
		{
			Binding: bind("u", "suspend"), Name: "suspend", Verb: verbEdit, Writes: true, Care: Look,
			Applies: ofServices(false), About: func(all []pane.Subject) Targets { return aboutServices(going(all)) },
			Commands: func(all []pane.Subject) ([][]string, error) { return named("suspend")(going(all)) },
		},
		{
			Binding: bind("u", "resume"), Name: "resume", Verb: verbEdit, Writes: true, Care: Look,
			Applies: ofServices(true), About: aboutServices, Commands: named("resume"),
		},
		{
			Binding: bind("a", "agree to delete"), Name: "agree to deletions of", Verb: verbEdit, Writes: true, Asks: true, Care: Look, Deletes: true,
			Applies: func(all []pane.Subject) bool { return slices.ContainsFunc(all, waits) },
			About:   func(all []pane.Subject) Targets { return about(filtered(all, waits)) },
			Commands: func(all []pane.Subject) ([][]string, error) {
				all = filtered(all, waits)
				out := perService(filtered(all, is(pane.KindService, pane.KindDeployment)), []string{"service", "ack"}, unwatched)
				for _, s := range filtered(all, is(pane.KindCluster)) {
					out = append(out, []string{"service", "ack", "--cluster-removals", s.Name, unwatched})
				}
				return out, nil
			},
		},
		{
			Binding: bind("U", "upgrade"), Name: "upgrade", Verb: verbEdit, Writes: true, Care: Look,
			Applies: only(pane.KindPackage), About: about,
			Commands: func(all []pane.Subject) ([][]string, error) {
				return [][]string{slices.Concat([]string{"package", "upgrade"}, names(all))}, nil
			},
		},
		{
			Binding: deletes("delete"), Name: "delete",
			Verb: verbEdit, Writes: true, Care: Typed,
			Applies:  func(all []pane.Subject) bool { return len(kinds(all)) == 1 && every(all, isWritten) },
			About:    about,
			Commands: func(all []pane.Subject) ([][]string, error) { return deletions(all), nil },
		},
	}
}

func deletions(all []pane.Subject) [][]string {
	if all[0].Kind == pane.KindPackage {
		return [][]string{slices.Concat([]string{"package", "remove"}, names(all))}
	}
	var out [][]string
	for _, s := range all {
		args := []string{string(s.Kind), "delete", s.Name, "--confirm=" + s.Name}
		if s.Kind != pane.KindCluster { // which waits for nothing
			args = append(args, unwatched)
		}
		out = append(out, args)
	}
	return out
}

// back are actions on commits.
func (d *Desk) back() []Action {
	return []Action{
		{
			Binding: bind("z", "undo commit"), Name: "undo", Verb: verbEdit, Writes: true, Care: Look,
			Applies: func(all []pane.Subject) bool { return len(all) == 1 && every(all, is(pane.KindCommit)) }, About: about,
			Commands: func(all []pane.Subject) ([][]string, error) { return [][]string{{"undo", all[0].Name, unwatched}}, nil },
		},
		{
			Binding: bind("z", "undo the last"), Name: "undo", Verb: verbEdit, Writes: true, Care: Look,
			Applies:  func(all []pane.Subject) bool { return !slices.ContainsFunc(all, is(pane.KindCommit)) },
			About:    func([]pane.Subject) Targets { return Targets{"commits", []string{"the fleet's last commit"}} },
			Commands: func([]pane.Subject) ([][]string, error) { return [][]string{{"undo", unwatched}}, nil },
		},
		{
			Binding: bind("Z", "redo"), Name: "redo", Verb: verbEdit, Writes: true, Care: Look,
			Applies:  func([]pane.Subject) bool { return true },
			About:    func([]pane.Subject) Targets { return Targets{"commits", []string{"what was undone last"}} },
			Commands: func([]pane.Subject) ([][]string, error) { return [][]string{{"undo", "--redo", unwatched}}, nil },
		},
	}
}

// tools are programs that take the terminal.
func (d *Desk) tools() []Action {
	inCluster := func(all []pane.Subject) bool { return len(all) == 1 && cluster(all[0]) != "" }
	aboutCluster := func(all []pane.Subject) Targets { return Targets{"clusters", []string{cluster(all[0])}} }
	return []Action{
		{
			Binding: bind("e", "edit its file"), Name: "edit", Verb: verbEdit, Writes: true, Terminal: true,
			Applies: func(all []pane.Subject) bool {
				return len(all) == 1 && every(all, is(pane.KindService, pane.KindDeployment, pane.KindCluster, pane.KindSource))
			},
			About: func(all []pane.Subject) Targets { return Targets{"files", []string{file(all[0]).Name}} },
			Commands: func(all []pane.Subject) ([][]string, error) {
				return [][]string{{string(file(all[0]).Kind), "edit", file(all[0]).Name, "--ask", unwatched}}, nil
			},
		},
		{
			Binding: bind("K", "k9s"), Name: "k9s on", Asks: true, Terminal: true, Applies: inCluster, About: aboutCluster,
			Commands: func(all []pane.Subject) ([][]string, error) {
				if _, err := exec.LookPath("k9s"); err != nil {
					return nil, errors.New("k9s is not on PATH; install it from https://k9scli.io")
				}
				program := []string{"kube", "run", cluster(all[0]), "--", "k9s"}
				if d.world.ReadOnly {
					program = append(program, "--readonly")
				}
				if o := all[0].Object; o != nil && o.Namespace != "" {
					program = append(program, "--namespace", o.Namespace)
				}
				return [][]string{program}, nil
			},
		},
		{
			Binding: bind("X", "kubectl shell"), Name: "shell for", Writes: true, Asks: true, Terminal: true,
			Applies: inCluster, About: aboutCluster,
			Commands: func(all []pane.Subject) ([][]string, error) {
				return [][]string{{"kube", "shell", cluster(all[0])}}, nil
			},
		},
	}
}

func (d *Desk) copies() []Action {
	return []Action{
		{
			Binding: bind("c", "copy name"), Name: "copy", Applies: func(all []pane.Subject) bool { return len(all) > 0 }, About: about,
			Copies: func(all []pane.Subject) string {
				names := about(all).Names
				for i := range names { // a line break of its own would be an enter, where it is pasted
					names[i] = d.world.Look.Clean(names[i])
				}
				return strings.Join(names, "\n")
			},
		},
		{
			Binding: bind("C", "copy command"), Name: "copy", About: about,
			Applies: func(all []pane.Subject) bool {
				return len(all) > 0 && !slices.ContainsFunc(all, func(s pane.Subject) bool { return asked(&s) == nil })
			},
			Copies: func(all []pane.Subject) string {
				var lines []string
				for i := range all {
					lines = append(lines, d.runner.Line(asked(&all[i])))
				}
				return strings.Join(lines, "\n")
			},
		},
	}
}

// Keys are those of all actions.
func Keys() []key.Binding {
	var keys []key.Binding
	for _, a := range (&Desk{}).Actions() {
		keys = append(keys, a.Binding)
	}
	return keys
}
