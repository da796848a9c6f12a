package configcmd

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/editor"
	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/cli/ui"
)

func newCmdEdit(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "edit",
		Short: "Edit the settings in your editor",
		Long: "Edit the settings in your editor: PLURAL_EDITOR, the setting editor, VISUAL, EDITOR, or vi. A text with mistakes is not saved; " +
			"where somebody can be asked, it can be edited again.",
		Example: cmdutil.Example("plural config edit", "plural config edit --no-input"),
		Args:    cmdutil.Exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return edit(cmd.Context(), f) },
	}
}

func edit(ctx context.Context, f *cmdutil.Factory) error {
	old, err := settings.Text(f.ConfigDir())
	if err != nil {
		return err
	}
	text := old
	if len(text) == 0 {
		text = template()
	}
	draft, err := editor.Open(f, "config.yaml", text)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			draft.Wipe()
		}
	}()
	for {
		if err := draft.Edit(ctx); err != nil {
			return err
		}
		changed, err := draft.Text(settings.MaxFile)
		if err != nil {
			kept = true // the error says where it is
			return err
		}
		if bytes.Equal(changed, text) {
			f.Say("nothing changed")
			return nil
		}
		err = Explain(settings.Save(f.ConfigDir(), changed))
		if err == nil || !f.Prompter().Able() {
			return err
		}
		ui.Render(f.IO.ErrOut, err)
		again, asked := f.Prompter().Confirm(ctx, "Edit it again?", "--no-input")
		if asked != nil || !again {
			return err
		}
	}
}

// template is what a person without settings begins with.
func template() []byte {
	var b bytes.Buffer
	for _, s := range settings.All() {
		fmt.Fprintf(&b, "# %s (default: %s)\n# %s:\n", s.About, cmdutil.OrDash(s.Default), s.Key)
	}
	return b.Bytes()
}
