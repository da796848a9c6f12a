package service

import (
	"context"
	"fmt"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/unread"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// warnUnread warns, before anything is written, of parameters and values that are set and that nothing of the service reads. Who sits
// at a terminal is asked; where nobody does, what was probably misspelt is refused, and --yes sets it all the same.
func warnUnread(ctx context.Context, f *cmdutil.Factory, name string, fields []yamledit.Field, dry bool, after *offline.State) error {
	warned, misspelt, correct := false, "", "correct the name"
	for _, n := range unreadBy(after, name) {
		if !yamledit.Sets(fields, n.Field) {
			continue
		}
		warned = true
		text := fmt.Sprintf("warning: nothing in service %s reads %s", name, n.Field)
		switch {
		case n.Value:
			misspelt, correct = n.Field, asValue(fields, n)
			text += fmt.Sprintf("; did you mean the Helm value? %s", correct)
		case n.Nearest != "":
			misspelt = n.Field
			text += fmt.Sprintf("; did you mean %s?", n.Nearest)
		case strings.HasPrefix(n.Field, "spec.parameters."):
			text += fmt.Sprintf("; a file reads it as {{ .parameters.%s }} where its name ends in .tmpl",
				strings.TrimPrefix(n.Field, "spec.parameters."))
		}
		f.Say("%s", ui.Clean(text))
	}
	prompter := f.Prompter()
	switch {
	case !warned || f.Yes:
		return nil
	case !prompter.Able() && (misspelt == "" || dry):
		return nil
	case !prompter.Able():
		return &ui.Err{
			Msg: fmt.Sprintf("%s of service %s is probably misspelt: nothing was changed", misspelt, name),
			Fix: correct + ", or set it all the same: --yes", Doc: ui.DocUnconfirmed,
		}
	}
	yes, err := prompter.Confirm(ctx, "Set it all the same?", "--yes")
	if err == nil && !yes {
		err = &ui.Err{Msg: "nothing was changed", Fix: "plural service get " + name + " shows what it sets", Doc: ui.DocUnconfirmed}
	}
	return err
}

// asValue is the flag that sets a Helm value in the place of a parameter.
func asValue(fields []yamledit.Field, n unread.Name) string {
	flag := "--value " + strings.TrimPrefix(n.Field, "spec.parameters.") + "="
	for _, f := range fields {
		if text, ok := f.Value.(string); ok && yamledit.Plain(f.Key) == n.Field {
			flag += text
		}
	}
	return flag
}

// unreadBy is what nothing reads of what a service sets; nothing where it cannot be looked into here.
func unreadBy(state *offline.State, name string) []unread.Name {
	s, ok := state.Fleet.Service(name)
	if !ok {
		return nil
	}
	resolver := resolve.New()
	for i := range state.Fleet.Clusters {
		d, runs := resolver.One(state.Fleet, name, state.Fleet.Clusters[i].Metadata.Name, state)
		switch {
		case !runs:
		case d.Hold != nil: // the commit is checked by others
			return nil
		default:
			return unread.Of(d, s)
		}
	}
	return nil
}
