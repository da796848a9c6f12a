package pkg

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/versions"
)

// found is a package in a catalog.
type found struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Catalog     string   `json:"catalog"`
	Installed   []string `json:"installed,omitempty"`
	Description string   `json:"description,omitempty"`
}

func newCmdSearch(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "search [WORD]",
		Short: "Find packages in the catalogs",
		Long: `Find packages in the catalogs.

A package is found by a word of its name, of its description, or of a name that it
provides. Without a word all are listed. In an installation repo the catalogs are
those of plural.yaml, elsewhere the one that the program brings along.`,
		Example: cmdutil.Example("plural package search", "plural package search certificates -o wide"),
		Args:    cmdutil.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return search(cmd.Context(), f, strings.ToLower(strings.Join(args, "")))
		},
	}
}

func search(ctx context.Context, f *cmdutil.Factory, word string) error {
	printer, err := f.Printer("")
	if err != nil {
		return err
	}
	d, err := browse(f)
	if err != nil {
		return err
	}
	all, err := d.Catalogs.Packages(ctx)
	if err != nil {
		return err
	}
	list := []found{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		entries, from, err := d.Catalogs.Versions(ctx, all[name], name)
		if err != nil {
			return err
		}
		newest := newestOf(entries)
		if newest == nil || !matches(newest.Package, word) {
			continue
		}
		one := found{Name: name, Version: newest.Version, Catalog: from, Description: newest.Package.Spec.Description}
		for i := range d.World.Lock.Packages {
			if e := &d.World.Lock.Packages[i]; e.Package == name {
				one.Installed = append(one.Installed, e.Version)
			}
		}
		list = append(list, one)
	}
	rows, names := make([][]string, len(list)), make([]string, len(list))
	for i, p := range list {
		rows[i] = []string{p.Name, p.Version, cmp.Or(strings.Join(p.Installed, ", "), "-"), p.Catalog, p.Description}
		names[i] = "package/" + p.Name
	}
	columns := []ui.Column{{Name: "PACKAGE"}, {Name: "NEWEST"}, {Name: "INSTALLED"}, {Name: "CATALOG"}, {Name: "DESCRIPTION"}}
	view := ui.View{Value: list, Columns: columns, Rows: rows, Names: names}
	if len(list) == 0 {
		view.Note = "no package fits; plural package search lists all"
	}
	return f.Print(printer, view)
}

func matches(p *packages.Package, word string) bool {
	texts := []string{p.Metadata.Name, p.Spec.Description}
	for _, provided := range p.Spec.Provides {
		texts = append(texts, provided.Name)
	}
	return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(strings.ToLower(s), word) })
}

// newestOf is the newest version that is no pre-release, else the newest; nil when none can be used.
func newestOf(entries []catalog.Entry) *catalog.Entry {
	var any *catalog.Entry
	for i := range entries {
		e := &entries[i]
		if e.Problem != nil {
			continue
		}
		if v := versions.Parse(e.Version); v != nil && v.Prerelease() == "" {
			return e
		}
		if any == nil {
			any = e
		}
	}
	return any
}

func newCmdShow(f *cmdutil.Factory) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:     "show NAME[@VERSION]",
		Short:   "Show what a package is, needs, asks and does",
		Example: cmdutil.Example("plural package show hub", "plural package show agent@0.1.0 -o yaml"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return show(cmd.Context(), f, args[0], from)
		},
	}
	cmd.Flags().StringVar(&from, "catalog", "", "the `CATALOG` to look in; else the first that has the package")
	return cmd
}

// shown is one version of a package with what the catalog says of it.
type shown struct {
	*packages.Package
	Catalog  string   `json:"catalog"`
	Digest   string   `json:"digest"`
	Versions []string `json:"versions"`
}

func show(ctx context.Context, f *cmdutil.Factory, text, from string) error {
	printer, err := f.Printer("")
	if err != nil {
		return err
	}
	d, err := browse(f)
	if err != nil {
		return err
	}
	name, version, _ := strings.Cut(text, "@")
	if in, ok := d.World.Fleet.Installation(name); ok {
		name, from = in.PackageName(), cmp.Or(from, in.Spec.Catalog)
	}
	entries, from, err := d.Catalogs.Versions(ctx, from, name)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return &ui.Err{Msg: fmt.Sprintf("no catalog has a package %q", name), Fix: "plural package search", Doc: ui.DocPackage}
	}
	s := shown{Catalog: from}
	chosen := newestOf(entries)
	for i := range entries {
		s.Versions = append(s.Versions, entries[i].Version)
		if entries[i].Version == version {
			chosen = &entries[i]
		}
	}
	switch {
	case version != "" && chosen.Version != version:
		return &ui.Err{
			Msg: fmt.Sprintf("catalog %s has no %s %s", from, name, version), Fix: "one of " + strings.Join(s.Versions, ", "), Doc: ui.DocPackage,
		}
	case chosen == nil:
		return entries[0].Problem
	case chosen.Problem != nil:
		return chosen.Problem
	}
	s.Package, s.Digest = chosen.Package, chosen.Digest
	return printer.Print(ui.View{Value: s, Names: []string{"package/" + name}, Screen: func(w io.Writer) error { return s.screen(f, w) }})
}

// screen shows a package to people.
func (s shown) screen(f *cmdutil.Factory, w io.Writer) error {
	spec := &s.Spec
	facts := [][]string{
		{"version", spec.Version},
		{"description", cmdutil.OrDash(spec.Description)},
		{"home", cmdutil.OrDash(spec.Home)},
		{"catalog", s.Catalog},
		{"digest", cmdutil.OrDash(s.Digest)},
		{"versions", strings.Join(s.Versions, ", ")},
	}
	for _, p := range spec.Provides {
		facts = append(facts, []string{"provides", strings.TrimSpace(p.Name + " " + p.Version)})
	}
	for i := range spec.Dependencies {
		facts = append(facts, []string{"needs", dependencyText(&spec.Dependencies[i])})
	}
	for _, b := range spec.Breaking {
		facts = append(facts, []string{"breaks since " + b.Since, strings.Join(strings.Fields(b.Note), " ")})
	}
	if err := f.IO.Aligned(w, []ui.Column{{Name: "PACKAGE"}, {Name: s.Metadata.Name}}, facts); err != nil {
		return err
	}
	if len(spec.Questions) > 0 {
		rows := make([][]string, len(spec.Questions))
		for i := range spec.Questions {
			q := &spec.Questions[i]
			rows[i] = []string{q.Name, typeText(q), defaultText(q), q.Ask()}
		}
		fmt.Fprintln(w)
		if err := f.IO.Aligned(w, []ui.Column{{Name: "QUESTION"}, {Name: "TYPE"}, {Name: "DEFAULT"}, {Name: "MEANS"}}, rows); err != nil {
			return err
		}
	}
	if len(spec.Steps) == 0 {
		return nil
	}
	rows := make([][]string, len(spec.Steps))
	for i := range spec.Steps {
		step := &spec.Steps[i]
		rows[i] = []string{step.Name, step.Kind(), cmp.Or(strings.Join(s.Needs(step.Name), ", "), "-")}
	}
	fmt.Fprintln(w)
	return f.IO.Aligned(w, []ui.Column{{Name: "STEP"}, {Name: "KIND"}, {Name: "AFTER"}}, rows)
}

func dependencyText(d *packages.Dependency) string {
	var choices []string
	for _, c := range d.Choices() {
		choices = append(choices, strings.TrimSpace(c.Package+" "+c.Version))
	}
	text := strings.Join(choices, ", or ")
	if d.Optional {
		text += " (optional)"
	}
	return text
}

func typeText(q *packages.Question) string {
	if q.Type == packages.TypeEnum {
		return strings.Join(q.Options, "|")
	}
	return q.Type
}

func defaultText(q *packages.Question) string {
	switch {
	case q.Default != nil:
		return fmt.Sprint(q.Default)
	case q.Generate != nil:
		return "(made up)"
	case q.Optional:
		return "-"
	}
	return "(asked)"
}
