package pkg

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// packageState is what the repo has of one package, with what the hub says of it, if one can be asked.
type packageState struct {
	installed
	Hub *v1.Upgrade `json:"hub,omitempty"`
}

func newCmdGet(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show what the installation repo has of one package",
		Long: "Show what the installation repo has of one package, and where its upgrade stands, if a hub can be asked.\n\n" +
			"What a package is, and asks for, says plural package show.",
		Example: cmdutil.Example("plural package get ingress-nginx", "plural pkg get ingress-nginx -o json"),
		Args:    cmdutil.Exactly("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return get(cmd.Context(), f, args[0]) },
	}
}

func get(ctx context.Context, f *cmdutil.Factory, name string) error {
	printer, err := f.Printer("")
	if err != nil {
		return err
	}
	d, err := open(f)
	if err != nil {
		return err
	}
	list := d.list()
	i := slices.IndexFunc(list, func(p installed) bool { return p.Name == name })
	if i < 0 {
		return &ui.Err{
			Msg: fmt.Sprintf("the installation repo has no package %q", name), Fix: "plural package list", Doc: ui.DocNotFound,
		}
	}
	s := packageState{installed: list[i], Hub: upgrades(ctx, f)[name]}
	return printer.Print(ui.View{
		Value: s, Names: []string{"package/" + name},
		Screen: func(w io.Writer) error { return f.IO.Aligned(w, []ui.Column{{Name: "NAME"}, {Name: name}}, s.facts()) },
	})
}

// facts are what people read.
func (s *packageState) facts() [][]string {
	facts := [][]string{
		{"package", s.Package},
		{"version", cmdutil.OrDash(s.Version)},
		{"asked", cmp.Or(s.Range, "any")},
		{"catalog", cmdutil.OrDash(s.Catalog)},
		{"upgrades", s.Policy},
	}
	for _, dependency := range slices.Sorted(maps.Keys(s.Requires)) {
		facts = append(facts, []string{"needs", edge(dependency, s.Requires[dependency])})
	}
	if s.Hub == nil {
		return facts
	}
	facts = append(facts, []string{"state", string(s.Hub.State)})
	if s.Hub.Newest != "" {
		facts = append(facts, []string{"newest", s.Hub.Newest})
	}
	for _, r := range s.Hub.Reasons {
		facts = append(facts, []string{"reason", r.Message})
	}
	if s.Hub.URL != "" {
		facts = append(facts, []string{"proposal", s.Hub.URL})
	}
	return facts
}
