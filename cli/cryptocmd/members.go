package cryptocmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/keys"
	"github.com/pluralsh/plural/crypto/sealer"
)

// member is a person, cluster or group as it is printed.
type member struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Groups are all that the member can open, also through groups.
	Groups []string    `json:"groups"`
	Keys   []memberKey `json:"keys,omitempty"`
}

type memberKey struct {
	Kind        string `json:"kind"`
	Fingerprint string `json:"fingerprint"`
	PublicKey   string `json:"publicKey"`
}

func newCmdMembers(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "members",
		Short:   "See who can open what",
		Example: cmdutil.Example("plural crypto members list", "plural crypto members get alice"),
	}, newCmdMembersList(f), newCmdMembersGet(f))
}

func newCmdMembersList(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List people, clusters and groups with what they open",
		Example: cmdutil.Example("plural crypto members list", "plural crypto members list -o json"),
		Args:    cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			printer, set, err := printed(f)
			if err != nil {
				return err
			}
			list := allMembers(set)
			rows, names := make([][]string, len(list)), make([]string, len(list))
			for i, m := range list {
				rows[i] = []string{m.Name, m.Kind, cmdutil.OrDash(strings.Join(m.Groups, " ")), cmdutil.OrDash(fingerprints(m.Keys))}
				names[i] = "member/" + m.Name
			}
			return printer.Print(ui.View{
				Value:   map[string]any{"items": list, "total": len(list)},
				Columns: []ui.Column{{Name: "MEMBER"}, {Name: "KIND"}, {Name: "GROUPS"}, {Name: "KEYS"}}, Rows: rows, Names: names,
			})
		},
	}
}

func newCmdMembersGet(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "get MEMBER",
		Short:   "Show one member with its keys and groups",
		Example: cmdutil.Example("plural crypto members get alice", "plural crypto members get cluster/edge-1"),
		Args:    cmdutil.Exactly("MEMBER"),
		RunE: func(_ *cobra.Command, args []string) error {
			printer, set, err := printed(f)
			if err != nil {
				return err
			}
			for _, m := range allMembers(set) {
				if m.Name == args[0] {
					return printer.Print(ui.View{Value: m, Names: []string{"member/" + m.Name}, Screen: func(w io.Writer) error { return m.screen(f, w) }})
				}
			}
			return &ui.Err{
				Msg: fmt.Sprintf("there is no member %q", args[0]), Fix: "plural crypto members list", Doc: ui.DocNotFound,
			}
		},
	}
}

func (m member) screen(f *cmdutil.Factory, w io.Writer) error {
	rows := [][]string{{"kind", m.Kind}, {"groups", cmdutil.OrDash(strings.Join(m.Groups, " "))}}
	for _, key := range m.Keys {
		rows = append(rows, []string{key.Fingerprint, key.PublicKey})
	}
	return f.IO.Aligned(w, []ui.Column{{Name: "MEMBER"}, {Name: m.Name}}, rows)
}

// printed is what a command needs that only shows the groups.
func printed(f *cmdutil.Factory) (*ui.Printer, *groups.Set, error) {
	printer, err := f.Printer("")
	if err != nil {
		return nil, nil, err
	}
	v, err := openVault(f)
	if err != nil {
		return nil, nil, err
	}
	return printer, v.Groups(), nil
}

// openVault opens the installation repo's sealed side with the person's keys.
func openVault(f *cmdutil.Factory) (*sealer.Vault, error) {
	repo, err := f.Repo()
	if err != nil {
		return nil, err
	}
	v, err := repo.Vault(nil)
	return v, err
}

// allMembers are the people, whether they are in a group or not, then the clusters and groups that are.
func allMembers(set *groups.Set) []member {
	list := []member{}
	for _, p := range set.People() {
		list = append(list, member{p.Name, "person", orEmpty(set.GroupsOf(groups.Member{Kind: groups.Person, Name: p.Name})), printKeys(p.Keys)})
	}
	seen := map[groups.Member]bool{}
	for _, name := range set.Names() {
		group, _ := set.Group(name)
		for _, m := range group.Members {
			if m.Kind == groups.Person || seen[m] {
				continue
			}
			seen[m] = true
			kind, _, _ := strings.Cut(m.String(), "/")
			list = append(list, member{m.String(), kind, orEmpty(set.GroupsOf(m)), nil})
		}
	}
	return list
}

func printKeys(list []keys.Recipient) []memberKey {
	var out []memberKey
	for _, key := range list {
		out = append(out, memberKey{string(key.Kind), keys.Fingerprint(key.Text), key.Text})
	}
	return out
}

func fingerprints(list []memberKey) string {
	var texts []string
	for _, key := range list {
		texts = append(texts, key.Kind+" "+key.Fingerprint)
	}
	return strings.Join(texts, ", ")
}

// orEmpty is list, and an empty one in the place of nil, so that JSON has a list.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
