package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/document"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/completions"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// tagPrefix is before a tag's key, where parameters have none.
const tagPrefix = "tag."

func newCmdCreate(f *cmdutil.Factory) *cobra.Command {
	c := document.New(f, yamledit.Cluster)
	var tags map[string]string
	cmd := &cobra.Command{
		Use:   "create NAME [PARAMETER=VALUE]...",
		Short: "Write a cluster that has no agent yet",
		Long: `Write a cluster that has no agent yet.

It becomes clusters/NAME.yaml, which is shown, committed and pushed. Services that
its tags select are meant for it from then on, and run there once it is registered:
plural cluster register NAME.`,
		Example: cmdutil.Example(
			"plural cluster create edge-1 --tag env=prod domain=edge-1.example.org",
			"plural cl create edge-2 --tag env=dev --dry-run"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &ui.Err{Msg: "NAME is missing", Fix: cmd.UseLine(), Doc: ui.DocUsage}
			}
			return nil
		},
	}
	cmd.Flags().StringToStringVar(&tags, "tag", nil, "a tag, `KEY=VALUE`; may be repeated")
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cluster := &fleet.Cluster{Metadata: fleet.Metadata{Name: args[0]}, Spec: fleet.ClusterSpec{Tags: tags}}
		given, err := document.Assigned(args[1:], func(key string) string { return key })
		if err != nil {
			return err
		}
		for _, p := range given {
			text, ok := p.Value.(string)
			if !ok {
				return &ui.Err{Msg: "a new cluster has no parameter " + p.Key, Fix: p.Key + "=VALUE", Doc: ui.DocUsage}
			}
			if cluster.Spec.Parameters == nil {
				cluster.Spec.Parameters = map[string]string{}
			}
			cluster.Spec.Parameters[p.Key] = text
		}
		return c.Create(cmd.Context(), args[0], cluster)
	}
	return cmd
}

func newCmdSet(f *cmdutil.Factory) *cobra.Command {
	c := document.New(f, yamledit.Cluster)
	confirm := ""
	var tags map[string]string
	cmd := &cobra.Command{
		Use:   "set NAME [tag.KEY=VALUE | PARAMETER=VALUE | KEY-]...",
		Short: "Change a cluster's tags and parameters",
		Long: `Change a cluster's tags and parameters, and wait until it runs what they ask for.

tag.KEY=VALUE sets a tag, by which services select clusters, PARAMETER=VALUE what
services read as .cluster.parameters; with a dash at its end a key is taken away.
Nothing else in the cluster's file changes. Where tags decide what the cluster can
open of what is sealed, the command says what has to follow. Where a change of tags
takes services off the cluster you are asked, and for the last of them the cluster's
name has to be typed.`,
		Example: cmdutil.Example(
			"plural cluster set edge-1 tag.env=prod tag.region=eu",
			"plural cluster set edge-1 domain=edge-1.example.org tag.old- --dry-run"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &ui.Err{Msg: "NAME is missing", Fix: cmd.UseLine(), Doc: ui.DocUsage}
			}
			return nil
		},
		ValidArgsFunction: cmdutil.Complete(f, completions.Clusters),
	}
	cmd.Flags().StringToStringVar(&tags, "tag", nil, "the same as tag.KEY=VALUE, `KEY=VALUE`; may be repeated")
	confirmFlag(cmd, &confirm)
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		assigned := args[1:]
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			assigned = append(assigned, tagPrefix+key+"="+tags[key])
		}
		fields, err := document.Assigned(assigned, func(key string) string {
			if tag, ok := strings.CutPrefix(key, tagPrefix); ok {
				return yamledit.Key("spec", "tags", tag)
			}
			return yamledit.Key("spec", "parameters", key)
		})
		if err != nil {
			return err
		}
		c.Check = checks(f, c, args[0], &confirm)
		return c.Set(cmd.Context(), args[0], "plural cluster set "+args[0]+" tag.KEY=VALUE, or PARAMETER=VALUE", fields)
	}
	return cmd
}

func newCmdEdit(f *cmdutil.Factory) *cobra.Command {
	c := document.New(f, yamledit.Cluster)
	confirm := ""
	cmd := &cobra.Command{
		Use:   "edit NAME",
		Short: "Edit a cluster's file, and wait until it runs so",
		Long: `Edit a cluster's file, and wait until it runs what that asks for.

The editor ($VISUAL, $EDITOR, else vi) works on a copy. What comes of it is checked
with all of the repo: where it would be a mistake, its line is told, and you can
edit again. Then it is shown, committed and pushed; --ask wants a yes first.`,
		Example: cmdutil.Example("plural cluster edit edge-1", "plural cl edit edge-1 --no-push"),
		Args:    cmdutil.Exactly("NAME"),
	}
	confirmFlag(cmd, &confirm)
	c.EditFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.Check = checks(f, c, args[0], &confirm)
		return c.Edit(cmd.Context(), args[0])
	}
	return cmd
}

func confirmFlag(cmd *cobra.Command, confirm *string) {
	cmd.Flags().StringVar(confirm, "confirm", "", "the cluster's `NAME` once more, where all services leave it")
}

// checks says what a change of a cluster means for what it runs, and for what it can open.
func checks(f *cmdutil.Factory, c *document.Change, name string, confirm *string) func(*workspace.Repo, *fleet.Fleet) error {
	return func(repo *workspace.Repo, after *fleet.Fleet) error {
		files := os.DirFS(repo.Root())
		before, err := fleet.Load(files)
		if errors.As(err, new(fleet.Errors)) {
			return nil // what its tags were is not known
		}
		if err != nil {
			return err
		}
		if err := mistaken(f, name, before, after); err != nil {
			return err
		}
		leaving(f, c, name, confirm, before, after)
		return groupsChange(f, files, name, before, after)
	}
}

// mistaken refuses a new parameter that has the name of a tag: the tag was meant, more often than not.
func mistaken(f *cmdutil.Factory, name string, before, after *fleet.Fleet) error {
	was, known := before.Cluster(name)
	is, stays := after.Cluster(name)
	if !known || !stays || f.Yes {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(is.Spec.Parameters)) {
		_, before := was.Spec.Parameters[key]
		if _, tag := was.Spec.Tags[key]; tag && !before {
			return &ui.Err{
				Msg: fmt.Sprintf("%s is a tag of cluster %s, and %[1]s=%[3]s would be a parameter: nothing was changed", key, name,
					is.Spec.Parameters[key]),
				Fix: fmt.Sprintf("plural cluster set %s tag.%s=%s; or, for the parameter all the same: --yes", name, key, is.Spec.Parameters[key]),
				Doc: ui.DocUnconfirmed,
			}
		}
	}
	return nil
}

// groupsChange says which groups' sealed files a cluster's tags give it, or give it no more: memberships are envelopes, which no
// change of a tag makes or takes back.
func groupsChange(f *cmdutil.Factory, files fs.FS, name string, before, after *fleet.Fleet) error {
	p, err := policy.Load(files)
	if errors.Is(err, policy.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	was, known := before.Cluster(name)
	is, stays := after.Cluster(name)
	if !known || !stays {
		return nil
	}
	old, now := p.GroupsOf(name, was.Spec.Tags), p.GroupsOf(name, is.Spec.Tags)
	for _, group := range now {
		if !slices.Contains(old, group) {
			f.Say("its tags put it into the group %s: plural crypto share cluster/%s --group %[1]s", ui.Clean(group), name)
		}
	}
	for _, group := range old {
		if !slices.Contains(now, group) {
			f.Say("its tags put it into the group %s no more: plural crypto revoke cluster/%s --group %[1]s", ui.Clean(group), name)
		}
	}
	return nil
}
