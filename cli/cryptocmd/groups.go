package cryptocmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/keys"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/workspace/rekey"
)

// group is a group as it is printed.
type group struct {
	Name      string   `json:"name"`
	Epoch     int      `json:"epoch"`
	Recipient string   `json:"recipient"`
	Members   []string `json:"members"`
	// Clusters is the selector that picks clusters for the group, empty when none does.
	Clusters string   `json:"clusters,omitempty"`
	Patterns []string `json:"patterns"`
}

func newCmdGroups(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "groups",
		Short:   "See, make and confirm groups",
		Example: cmdutil.Example("plural crypto groups list", "plural crypto groups create prod --member alice --cluster-tag env=prod"),
	}, newCmdGroupsList(f), newCmdGroupsGet(f), newCmdGroupsCreate(f), newCmdGroupsDelete(f), newCmdGroupsConfirm(f))
}

func newCmdGroupsList(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List all groups",
		Example: cmdutil.Example("plural crypto groups list", "plural crypto groups list -o json"),
		Args:    cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			v, err := openVault(f)
			if err != nil {
				return err
			}
			list := allGroups(v)
			rows, names := make([][]string, len(list)), make([]string, len(list))
			for i, g := range list {
				rows[i] = []string{g.Name, strconv.Itoa(g.Epoch), strconv.Itoa(len(g.Members)), cmdutil.OrDash(g.Clusters), cmdutil.OrDash(strings.Join(g.Patterns, " "))}
				names[i] = "group/" + g.Name
			}
			return printer.Print(ui.View{
				Value:   map[string]any{"items": list, "total": len(list)},
				Columns: []ui.Column{{Name: "GROUP"}, {Name: "EPOCH"}, {Name: "MEMBERS"}, {Name: "CLUSTERS"}, {Name: "PATHS"}}, Rows: rows, Names: names,
			})
		},
	}
}

func newCmdGroupsGet(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "get GROUP",
		Short:   "Show one group with its members and paths",
		Example: cmdutil.Example("plural crypto groups get fleet", "plural crypto groups get prod -o yaml"),
		Args:    cmdutil.Exactly("GROUP"),
		RunE: func(_ *cobra.Command, args []string) error {
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			v, err := openVault(f)
			if err != nil {
				return err
			}
			for _, g := range allGroups(v) {
				if g.Name == args[0] {
					return printer.Print(ui.View{Value: g, Names: []string{"group/" + g.Name}, Screen: func(w io.Writer) error { return g.screen(f, w) }})
				}
			}
			return unknownGroup(args[0], v.Groups().Names())
		},
	}
}

func (g group) screen(f *cmdutil.Factory, w io.Writer) error {
	rows := [][]string{{"epoch", strconv.Itoa(g.Epoch)}, {"recipient", g.Recipient}, {"clusters", cmdutil.OrDash(g.Clusters)}}
	for _, m := range g.Members {
		rows = append(rows, []string{"member", m})
	}
	for _, p := range g.Patterns {
		rows = append(rows, []string{"path", p})
	}
	return f.IO.Aligned(w, []ui.Column{{Name: "GROUP"}, {Name: g.Name}}, rows)
}

func allGroups(v *sealer.Vault) []group {
	list := []group{}
	for _, name := range v.Groups().Names() {
		found, ok := v.Groups().Group(name)
		if !ok {
			continue
		}
		g := group{Name: name, Epoch: found.Epoch, Recipient: found.Recipient.Text, Members: []string{}, Patterns: []string{}}
		for _, m := range found.Members {
			g.Members = append(g.Members, m.String())
		}
		for _, entry := range v.Policy().Groups {
			if entry.Name == name && entry.Clusters != nil {
				g.Clusters = entry.Clusters.String()
			}
		}
		for _, p := range v.Policy().Paths {
			for _, of := range p.Groups {
				if of == name {
					g.Patterns = append(g.Patterns, p.Pattern)
				}
			}
		}
		list = append(list, g)
	}
	return list
}

type createOptions struct {
	change
	name         string
	members      []string
	allClusters  bool
	clusterNames []string
	clusterTags  map[string]string
	patterns     []string
	postQuantum  bool
	identity     string
}

func newCmdGroupsCreate(f *cmdutil.Factory) *cobra.Command {
	o := &createOptions{change: change{f: f}}
	cmd := &cobra.Command{
		Use:   "create GROUP",
		Short: "Make a group",
		Long: "Make a group.\n\n" +
			"A group is an age identity that is sealed to each member. Clusters that the selector flags pick are members: those that are registered already at once, others when they are registered. " +
			"With --identity a key that exists already becomes the group's, so that files sealed for it stay readable.",
		Example: cmdutil.Example(
			"plural crypto groups create prod --member alice --member bob --cluster-tag env=prod --path 'secrets/prod/**'",
			"plural crypto groups create legacy --member alice --identity old-key.txt"),
		Args: cmdutil.Exactly("GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(cmd.Context())
		},
	}
	o.flags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&o.members, "member", nil, "a first `MEMBER`: a person, cluster/NAME or group/NAME; may be repeated")
	flags.BoolVar(&o.allClusters, "all-clusters", false, "every cluster is to be a member")
	flags.StringSliceVar(&o.clusterNames, "cluster", nil, "the cluster `NAME` is to be a member; may be repeated")
	flags.StringToStringVar(&o.clusterTags, "cluster-tag", nil, "clusters with this tag, `KEY=VALUE`, are to be members; may be repeated")
	flags.StringSliceVar(&o.patterns, "path", nil, "files that match this `PATTERN` are sealed for the group alone; may be repeated")
	flags.BoolVar(&o.postQuantum, "post-quantum", false, "make an identity that withstands quantum computers")
	flags.StringVar(&o.identity, "identity", "", "take the age identity in this `FILE` instead of a fresh one")
	return cmd
}

func (o *createOptions) run(ctx context.Context) error {
	group := rekey.NewGroup{Name: o.name, PostQuantum: o.postQuantum, Clusters: o.selector(), Patterns: o.patterns}
	for _, text := range o.members {
		m, err := groups.ParseMember(text)
		if err != nil {
			return err
		}
		group.Members = append(group.Members, m)
	}
	if len(group.Members) == 0 {
		return &ui.Err{Msg: fmt.Sprintf("nobody could open what is sealed for %q", o.name), Fix: "--member YOUR-NAME; see plural crypto members list"}
	}
	if o.identity != "" {
		id, err := readIdentity(o.identity, o.f.Identities().Ask)
		if err != nil {
			return err
		}
		group.Identity = id
	}
	editor, err := o.editor(ctx)
	if err != nil {
		return err
	}
	plan, err := editor.CreateGroup(ctx, group)
	if err != nil {
		return err
	}
	_, err = o.carryOut(ctx, plan)
	return err
}

// selector is what the flags say about clusters, nil when they say nothing.
func (o *createOptions) selector() *policy.Selector {
	if !o.allClusters && len(o.clusterNames) == 0 && len(o.clusterTags) == 0 {
		return nil
	}
	return &policy.Selector{All: o.allClusters, Names: o.clusterNames, MatchLabels: o.clusterTags}
}

// readIdentity reads a file with one age identity.
func readIdentity(name string, ask keys.Passphrase) (age.Identity, error) {
	text, err := readBounded(name, maxKeys)
	if err != nil {
		return nil, fmt.Errorf("read identity: %w", err)
	}
	ids, err := keys.ParseIdentities(name, text, ask)
	if err != nil {
		return nil, err
	}
	if len(ids) != 1 {
		return nil, fmt.Errorf("%q holds %d identities: a group has one", name, len(ids))
	}
	return ids[0], nil
}

func readBounded(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%q is larger than %d bytes", name, limit)
	}
	return text, err
}

func newCmdGroupsConfirm(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "confirm",
		Short: "Confirm who can open what, as it stands",
		Long: "Confirm who can open what, as it stands.\n\n" +
			"Before anything is sealed, the program compares who could open it with what you confirmed last. After somebody else's change this shows the difference; look whether you want it, and confirm.",
		Example: cmdutil.Example("plural crypto groups confirm", "plural crypto groups confirm --yes"),
		Args:    cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			repo, err := f.Repo()
			if err != nil {
				return err
			}
			return confirm(cmd.Context(), f, repo.Root())
		},
	}
}
