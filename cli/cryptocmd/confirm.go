package cryptocmd

import (
	"context"
	"fmt"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/rekey"
)

// confirm shows what changed since the person last confirmed who can open what in the repository at root, asks, and
// remembers.
func confirm(ctx context.Context, f *cmdutil.Factory, root string) error {
	repo, err := workspace.Find(root)
	if err != nil {
		return err
	}
	now, err := rekey.Stand(repo, nil, f.Confirmed())
	if err != nil {
		return err
	}
	if len(now.Changes) == 0 {
		f.Say("nothing changed: this is what you confirmed")
		return nil
	}
	question := "Go on with these changes of who can open what?"
	if now.First {
		question = "Is this who should be able to open what?"
	}
	showChanges(f, now.Changes)
	if err := agree(ctx, f, fmt.Sprintf("%s (%s, first: %s)", question, count(len(now.Changes), "line", "lines"), now.Changes[0])); err != nil {
		return err
	}
	return now.Confirm()
}
