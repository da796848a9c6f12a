package application

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/hubsvc/idtoken"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// keysFile is where the keys are put that have no place yet.
const keysFile = "secrets/hub/oidc.yaml"

func newCmdRotateKeys(f *cmdutil.Factory) *cobra.Command {
	m, seen := &change.CommitOptions{Factory: f, Unobserved: true}, false
	cmd := &cobra.Command{
		Use:   "rotate-keys",
		Short: "Make a new key that signs logins to applications",
		Long: "Make a new key that signs logins to applications.\n\n" +
			"The first makes the hub an identity provider. The keys are kept in a file that is sealed for the hub, which plural.yaml\n" +
			"names as spec.hub.signingKeys. Applications are shown a new key an hour before it signs, and the one before until the\n" +
			"next is made. With --seen, for keys that somebody may have seen, none of the old is kept, and the new one signs at once.",
		Example: cmdutil.Example("plural application rotate-keys", "plural application rotate-keys --seen"),
		Args:    cmdutil.AtMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			repo, err := f.Repo()
			if err != nil {
				return err
			}
			return rotateKeys(cmd.Context(), m, repo, seen)
		},
	}
	cmd.Flags().BoolVar(&seen, "seen", false, "somebody may have seen the keys: keep none of them")
	m.Flags(cmd.Flags())
	return cmd
}

func rotateKeys(ctx context.Context, m *change.CommitOptions, repo *workspace.Repo, seen bool) error {
	written := os.DirFS(repo.Root())
	w, err := fleet.LoadWorkspace(written)
	if err != nil {
		return err
	}
	name, first := w.Spec.Hub.SigningKeys, w.Spec.Hub.SigningKeys == ""
	if first {
		name = keysFile
	}
	old, err := readKeys(repo, name)
	if err != nil {
		return err
	}
	next, err := idtoken.Rotate(old, m.Factory.Now(), seen)
	if tooSoon := new(idtoken.TooSoonError); errors.As(err, &tooSoon) {
		return &ui.Err{
			Msg: "the newest key signs only from " + tooSoon.Until.UTC().Format(time.RFC3339), Err: err,
			Fix: "wait until then; --seen if somebody may have seen the keys",
		}
	}
	if err != nil {
		return &ui.Err{Msg: fmt.Sprintf("%s holds no signing keys: %v", name, err), Fix: "--seen makes them anew", Err: err}
	}
	text, err := yaml.Marshal(next)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	files := map[string][]byte{name: text}
	if first {
		manifest := yamledit.Document{Kind: yamledit.Workspace, Name: w.Metadata.Name}
		planned, err := yamledit.Set(overlay.New(written, files), manifest, yamledit.Field{Key: "spec.hub.signingKeys", Value: name})
		if err != nil {
			return change.Explained(err)
		}
		files[planned.File] = planned.After
	}
	made, err := m.CarryOutFiles(ctx, repo, files, nil, "Rotate the keys that sign logins to applications")
	if made.Written {
		m.Factory.Say("%s", signsFrom(next, m.Factory.Now()))
	}
	return err
}

// signsFrom says from when the newest key of a file signs.
func signsFrom(file map[string]string, now time.Time) string {
	if keys, err := idtoken.Parse(file); err == nil && keys.Newest().After(now) {
		from := keys.Newest().UTC().Format(time.RFC3339)
		return "the new key signs from " + from + "; until then applications see both, and the old one signs"
	}
	return "the new key signs as soon as the hub serves the commit"
}

// readKeys are the keys of a file that nobody but the hub, and people, can open; none where it is not there.
func readKeys(repo *workspace.Repo, name string) (map[string]string, error) {
	groups, err := sealedFor(repo, name)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(groups, []string{fleet.HubGroup}) {
		return nil, &ui.Err{
			Msg:   fmt.Sprintf("%q is not sealed for the group %s alone", name, fleet.HubGroup),
			Cause: "whoever opens the keys can log in to every application as anybody",
			Fix: "plural crypto groups create " + fleet.HubGroup + " --member YOU --path 'secrets/hub/**', where YOU is one of plural crypto" +
				" members list; then plural crypto share KEY --name plural-hub --group " + fleet.HubGroup +
				", where KEY is the age public key of the hub's --identity",
		}
	}
	vault, err := repo.Vault(nil)
	if err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(vault.FS(os.DirFS(repo.Root())), name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var keys map[string]string
	if yaml.Unmarshal(text, &keys) != nil { // its text may be quoted by the error
		return nil, &ui.Err{
			Msg: fmt.Sprintf("%s is no list of keys", name),
			Fix: "git log " + name + "; plural application rotate-keys --seen, once the file is removed",
		}
	}
	return keys, nil
}
