package pkg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/packs"
	"github.com/pluralsh/plural/workspace/versions"
)

// installed is what the repo has of a package.
type installed struct {
	Name    string `json:"name"`
	Package string `json:"package"`
	Version string `json:"version"`
	Catalog string `json:"catalog"`
	// Range is what the repo asks for.
	Range    string            `json:"range,omitempty"`
	Requires map[string]string `json:"requires,omitempty"`
	Policy   string            `json:"policy"`
}

// list is what the repo has, by name.
func (d *packageRepo) list() []installed {
	all := []installed{}
	for i := range d.World.Fleet.Installations {
		in := &d.World.Fleet.Installations[i]
		one := installed{
			Name: in.Metadata.Name, Package: in.PackageName(), Range: in.Spec.Version,
			Policy: cmp.Or(in.Spec.Upgrade.Policy, fleet.UpgradeManual),
		}
		if e, ok := d.World.Lock.Entry(in.Metadata.Name); ok {
			one.Version, one.Catalog, one.Requires = e.Version, e.Catalog, e.Requires
		}
		all = append(all, one)
	}
	return all
}

// installedTable and installedSchema are how what the repo has is sorted and picked: in the words of the hub's list of upgrades.
func installedTable() paging.Table[installed] {
	return paging.Table[installed]{
		Columns: map[string]paging.Column[installed]{
			"name":    {Text: func(i installed) string { return i.Name }},
			"package": {Text: func(i installed) string { return i.Package }},
			"catalog": {Text: func(i installed) string { return i.Catalog }},
			"policy":  {Text: func(i installed) string { return i.Policy }},
		},
		ID: []string{"name"},
	}
}

func installedSchema() filter.Schema[installed] {
	name := func(i installed) string { return i.Name }
	return filter.Schema[installed]{
		Fields: map[string]filter.Field[installed]{
			"name": {Get: name}, "installation": {Get: name},
			"package": {Get: func(i installed) string { return i.Package }},
			"catalog": {Get: func(i installed) string { return i.Catalog }},
			"version": {Get: func(i installed) string { return i.Version }},
			"range":   {Get: func(i installed) string { return i.Range }},
			"policy": {
				Get:   func(i installed) string { return i.Policy },
				Words: []string{fleet.UpgradeManual, fleet.UpgradePatch, fleet.UpgradeMinor},
			},
		},
		Names: []func(installed) string{name, func(i installed) string { return i.Package }},
	}
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	var selection cmdutil.Selection
	cmd := &cobra.Command{
		Use:   "list [NAME...]",
		Short: "List what the installation repo has of packages",
		Long: "List what the installation repo has of packages, all of them or those that are named or fit a filter.\n\n" +
			"A filter's keys are name, package, catalog, version, range and policy. A star in a name stands for any text.",
		Example: cmdutil.Example("plural package list --filter '!policy:manual'", "plural pkg list -o name"),
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := selection.Query("name", args)
			if err != nil {
				return err
			}
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			d, err := open(f)
			if err != nil {
				return err
			}
			list, err := cmdutil.PickFrom(&selection, q, installedSchema(), installedTable(), d.list())
			if err != nil {
				return err
			}
			rows, names := make([][]string, len(list)), make([]string, len(list))
			for i, p := range list {
				rows[i] = []string{p.Name, p.Package, cmdutil.OrDash(p.Version), cmp.Or(p.Range, "any"), cmdutil.OrDash(p.Catalog), p.Policy}
				names[i] = "package/" + p.Name
			}
			if err := selection.Missing("package", args, names); err != nil {
				return err
			}
			view := ui.View{Value: list, Rows: rows, Names: names, Columns: []ui.Column{
				{Name: "NAME"}, {Name: "PACKAGE"}, {Name: "VERSION"}, {Name: "ASKED"}, {Name: "CATALOG"}, {Name: "UPGRADES"},
			}}
			if view.Note = selection.Note("packages", len(list), len(list)); view.Note == "" && len(list) == 0 {
				view.Note = "no package is installed; plural package search lists what there is"
			}
			return f.Print(printer, view)
		},
	}
	selection.Flags(cmd.Flags())
	return cmd
}

func newCmdGraph(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "graph",
		Short:   "Show which package needs which",
		Long:    "Show which package needs which, as plural.lock has it. With -o dot it is a graph that Graphviz draws.",
		Example: cmdutil.Example("plural package graph", "plural package graph -o dot"),
		Args:    cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			d, err := open(f)
			if err != nil {
				return err
			}
			if f.Output == "dot" {
				return dot(f.IO.Out, d.list())
			}
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			list := d.list()
			var rows [][]string
			for _, p := range list {
				needs := []string{}
				for _, dependency := range slices.Sorted(maps.Keys(p.Requires)) {
					needs = append(needs, edge(dependency, p.Requires[dependency]))
				}
				rows = append(rows, []string{p.Name, cmdutil.OrDash(p.Version), cmdutil.OrDash(strings.Join(needs, ", "))})
			}
			return printer.Print(ui.View{Value: list, Columns: []ui.Column{{Name: "NAME"}, {Name: "VERSION"}, {Name: "NEEDS"}}, Rows: rows})
		},
	}
}

// edge is what stands for a dependency, with the dependency's name where that is another.
func edge(dependency, by string) string {
	if dependency == by {
		return by
	}
	return by + " (as " + dependency + ")"
}

// dot writes the graph for Graphviz. Names are quoted: they come from files.
func dot(w io.Writer, list []installed) error {
	var b strings.Builder
	b.WriteString("digraph packages {\n")
	for _, p := range list {
		fmt.Fprintf(&b, "  %s [label=%s];\n", strconv.Quote(p.Name), strconv.Quote(strings.TrimSpace(p.Name+" "+p.Version)))
		for _, dependency := range slices.Sorted(maps.Keys(p.Requires)) {
			label := ""
			if by := p.Requires[dependency]; by != dependency {
				label = fmt.Sprintf(" [label=%s]", strconv.Quote(dependency))
			}
			fmt.Fprintf(&b, "  %s -> %s%s;\n", strconv.Quote(p.Name), strconv.Quote(p.Requires[dependency]), label)
		}
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// outdated is an installation for which there is something newer.
type outdated struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Fits is what plural package upgrade would bring; Newest what the catalog has.
	Fits   string `json:"fits"`
	Newest string `json:"newest"`
	Reason string `json:"reason,omitempty"`
	// Hub is what the hub says of it, if one can be asked.
	Hub *v1.Upgrade `json:"hub,omitempty"`
}

func outdatedTable() paging.Table[outdated] {
	return paging.Table[outdated]{
		Columns: map[string]paging.Column[outdated]{"name": {Text: func(o outdated) string { return o.Name }}}, ID: []string{"name"},
	}
}

func outdatedSchema() filter.Schema[outdated] {
	name := func(o outdated) string { return o.Name }
	return filter.Schema[outdated]{
		Fields: map[string]filter.Field[outdated]{
			"name": {Get: name}, "installation": {Get: name},
			"version": {Get: func(o outdated) string { return o.Version }},
			"fits":    {Get: func(o outdated) string { return o.Fits }},
			"newest":  {Get: func(o outdated) string { return o.Newest }},
			"reason":  {Get: func(o outdated) string { return o.Reason }},
		},
		Names: []func(outdated) string{name},
	}
}

func newCmdOutdated(f *cmdutil.Factory) *cobra.Command {
	var exitCode bool
	var selection cmdutil.Selection
	cmd := &cobra.Command{
		Use:   "outdated [NAME...]",
		Short: "List newer versions of packages, and what keeps them",
		Long: "List newer versions of packages, and what keeps them: of all, or of those that are named or fit a filter.\n\n" +
			"A filter's keys are name, version, fits, newest and reason.",
		Example: cmdutil.Example(
			"plural package outdated",
			"plural package outdated 'ingress-*' --exit-code"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := showOutdated(cmd.Context(), f, &selection, args)
			if err == nil && exitCode && len(list) > 0 {
				return ui.Silent(ui.ExitDiffers)
			}
			return err
		},
	}
	selection.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "end with 2 when something is outdated")
	return cmd
}

func showOutdated(ctx context.Context, f *cmdutil.Factory, selection *cmdutil.Selection, args []string) ([]outdated, error) {
	q, err := selection.Query("name", args)
	if err != nil {
		return nil, err
	}
	printer, err := f.Printer("")
	if err != nil {
		return nil, err
	}
	d, err := open(f)
	if err != nil {
		return nil, err
	}
	var known []string
	for _, p := range d.list() {
		known = append(known, "package/"+p.Name)
	}
	if err := selection.Missing("package", args, known); err != nil {
		return nil, err
	}
	list, err := d.outdated(ctx)
	if err != nil {
		return nil, err
	}
	list, err = cmdutil.PickFrom(selection, q, outdatedSchema(), outdatedTable(), list)
	if err != nil {
		return nil, err
	}
	unreached := d.unreached(ctx)
	for _, warning := range unreached {
		f.Say("%s", ui.Clean(warning))
	}
	hubSays(ctx, f, list)
	defer sayHub(f, list)
	rows, names := make([][]string, len(list)), make([]string, len(list))
	for i, o := range list {
		rows[i] = []string{o.Name, o.Version, o.Fits, o.Newest, cmdutil.OrDash(o.Reason)}
		names[i] = "package/" + o.Name
	}
	if len(list) == 0 && printer.Human() {
		if len(unreached) == 0 {
			f.Say("every package is at its newest version")
		} else {
			f.Say("every package is at the newest version of the catalogs that answered")
		}
		return nil, nil
	}
	columns := []ui.Column{{Name: "NAME"}, {Name: "VERSION"}, {Name: "FITS"}, {Name: "NEWEST"}, {Name: "REASON"}}
	return list, printer.Print(ui.View{Value: list, Columns: columns, Rows: rows, Names: names})
}

func (d *packageRepo) outdated(ctx context.Context) ([]outdated, error) {
	proposal, err := d.Upgrade(ctx, nil, "")
	if err != nil {
		return nil, err
	}
	fits, held := map[string]string{}, map[string]packs.HeldBack{}
	for _, pick := range proposal.Changed() {
		fits[pick.As] = pick.Version
	}
	for _, h := range proposal.Held {
		held[h.Installation] = h
	}
	list := []outdated{}
	for _, p := range d.list() {
		entries, _, err := d.Catalogs.Versions(ctx, p.Catalog, p.Package)
		if err != nil {
			return nil, err
		}
		newest := newestOf(entries)
		if newest == nil || p.Version == "" {
			continue
		}
		o := outdated{Name: p.Name, Version: p.Version, Fits: cmp.Or(fits[p.Name], p.Version), Newest: newest.Version}
		if !isNewer(o.Newest, o.Version) && o.Fits == o.Version {
			continue
		}
		o.Reason = d.reason(p, o, held)
		list = append(list, o)
	}
	return list, nil
}

// unreached are warnings of the catalogs that did not answer: what they have is in no comparison.
func (d *packageRepo) unreached(ctx context.Context) []string {
	var warnings []string
	for _, ref := range d.World.Fleet.Workspace.Spec.Catalogs {
		_, _, err := d.Catalogs.Versions(ctx, ref.Name, "any") // opens it, without reading all that is in it
		var told *catalog.CatalogError
		if !errors.As(err, &told) {
			continue
		}
		address := ""
		if s, ok := d.World.Fleet.Source(ref.Source); ok {
			address = " (" + httpclient.Redact(s.URL()) + ")"
		}
		warnings = append(warnings,
			fmt.Sprintf("warning: source %s%s of catalog %s cannot be reached: %v", ref.Source, address, ref.Name, told.Err), "  fix: "+told.Fix())
	}
	return warnings
}

// reason is why an installation does not have the newest version.
func (d *packageRepo) reason(p installed, o outdated, held map[string]packs.HeldBack) string {
	if h, ok := held[p.Name]; ok {
		return h.Why + ": " + h.Instead
	}
	switch r, err := versions.ParseRange(p.Range); {
	case o.Fits == o.Newest:
		return "plural package upgrade " + p.Name
	case err == nil && p.Range != "" && !r.Has(versions.Parse(o.Newest), false):
		return fmt.Sprintf("the repo asks for %s", p.Range)
	}
	if by := d.heldBy(p, o.Newest); by != "" {
		return by
	}
	return "it does not fit the others: plural package upgrade " + p.Name + " --to " + o.Newest + " says why"
}

// heldBy names the packages that need an installation at another version than the newest.
func (d *packageRepo) heldBy(p installed, newest string) string {
	var by []string
	for i := range d.World.Lock.Packages {
		e := &d.World.Lock.Packages[i]
		for dependency, stands := range e.Requires {
			if stands != p.Name {
				continue
			}
			needs, err := d.Installed(e.Name)
			if err != nil {
				continue // whoever composes it says what is wrong
			}
			for n := range needs.Spec.Dependencies {
				if dep := &needs.Spec.Dependencies[n]; dep.Key() == dependency && !takes(dep, p.Package, newest) {
					by = append(by, fmt.Sprintf("%s %s needs %s", e.Name, e.Version, dependencyText(dep)))
				}
			}
		}
	}
	return strings.Join(by, "; ")
}

// takes says whether a version of a package would do for a dependency. One that it is not asked for by its own name would, as far
// as can be told here.
func takes(d *packages.Dependency, name, version string) bool {
	for _, c := range d.Choices() {
		r, err := versions.ParseRange(c.Version)
		if c.Package != name || err != nil || r.Has(versions.Parse(version), false) {
			return true
		}
	}
	return false
}

func isNewer(a, b string) bool {
	va, vb := versions.Parse(a), versions.Parse(b)
	return va != nil && vb != nil && va.GreaterThan(vb)
}
