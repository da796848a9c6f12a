// Package explain owns `plural explain`: what people can write in the files of a fleet, field by field.
//
// It refuses to know the kinds: the schemas that docs brings along have them, with the words of their types' comments, and the
// pages of the reference have the examples.
package explain

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
)

// NewCmdExplain is `plural explain`.
func NewCmdExplain(f *cmdutil.Factory) *cobra.Command {
	recursive := false
	cmd := &cobra.Command{
		Use:     "explain [KIND[.FIELD]...]",
		GroupID: cmdutil.GroupTool,
		Short:   "Say what can be written in a fleet's files, by field",
		Long: `Say what can be written in the files of a fleet, field by field.

Without a kind, all kinds are listed with the files that hold them. A path names
a field as errors do: service.spec.dependsOn[0].condition. Lists and maps are
passed through. It works offline, and shows what this version of the program
reads; editors have the same from .plural/schema in the installation repo.`,
		Example: cmdutil.Example(
			"plural explain",
			"plural explain service.spec.sync",
			"plural explain service --recursive",
			"plural explain source.spec.git -o json"),
		Args: cmdutil.AtMost(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return complete(typed)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return list(printer)
			}
			e, err := explained(args[0], recursive)
			if err != nil {
				return err
			}
			return printer.Print(ui.View{
				Value: e, Names: []string{"field/" + e.Path},
				Screen: func(w io.Writer) error { return e.screen(w, f.IO, recursive) },
			})
		},
	}
	cmd.Flags().BoolVar(&recursive, "recursive", false, "show all fields below it, by name and type alone")
	return cmd
}

// field is one place in a kind, as programs read it.
type field struct {
	Path        string  `json:"path"`
	Kind        string  `json:"kind,omitempty"`
	Files       string  `json:"files,omitempty"`
	Type        string  `json:"type"`
	Required    bool    `json:"required,omitempty"`
	Description string  `json:"description,omitempty"`
	Enum        []any   `json:"enum,omitempty"`
	Default     any     `json:"default,omitempty"`
	Fields      []field `json:"fields,omitempty"`
	Example     string  `json:"example,omitempty"`
	Page        string  `json:"page,omitempty"`
}

func list(printer *ui.Printer) error {
	all, err := kinds()
	if err != nil {
		return err
	}
	found := []field{}
	view := ui.View{Columns: []ui.Column{{Name: "KIND"}, {Name: "FILES"}, {Name: "DESCRIPTION"}}}
	for _, k := range all {
		found = append(found, field{Path: k.name(), Kind: k.Title, Files: k.Files, Type: "object", Description: k.Description, Page: k.Page})
		view.Names = append(view.Names, "kind/"+k.name())
		view.Rows = append(view.Rows, []string{k.name(), k.Files, k.Description})
	}
	view.Value = found
	return printer.Print(view)
}

// index is the place of an entry in a path, as errors have it.
var index = regexp.MustCompile(`\[[0-9]*\]`)

// find follows a path as far as a schema. The fields are those of the path, below the kind.
func find(typed string) (k kind, s *schema, fields []string, required bool, err error) {
	all, err := kinds()
	if err != nil {
		return k, nil, nil, false, err
	}
	name, rest, more := strings.Cut(index.ReplaceAllString(strings.TrimSuffix(typed, "."), ""), ".")
	i := slices.IndexFunc(all, func(k kind) bool { return strings.EqualFold(name, k.name()) || strings.EqualFold(name, k.name()+"s") })
	if i < 0 {
		names := make([]string, len(all))
		for i, k := range all {
			names[i] = k.name()
		}
		return k, nil, nil, false, &ui.Err{
			Msg: fmt.Sprintf("no kind is called %q", name), Fix: yamlstrict.DidYouMean(strings.ToLower(name), names, "kinds"), Doc: ui.DocNotFound,
		}
	}
	k = all[i]
	s = k.schema
	if more {
		fields = strings.Split(rest, ".")
	}
	at := k.name()
	for _, f := range fields {
		object := k.object(s)
		if object == nil {
			return k, nil, nil, false, &ui.Err{
				Msg: fmt.Sprintf("%s has no fields: it is %s", at, typeOf(s)), Fix: "plural explain " + at,
				Doc: ui.DocNotFound,
			}
		}
		next, ok := object.Properties[f]
		if !ok {
			known := slices.Sorted(maps.Keys(object.Properties))
			return k, nil, nil, false, &ui.Err{
				Msg: fmt.Sprintf("%s has no field %q", at, f), Fix: yamlstrict.DidYouMean(f, known, "fields"), Doc: ui.DocNotFound,
			}
		}
		s, required, at = next, slices.Contains(object.Required, f), at+"."+f
	}
	return k, s, fields, required, nil
}

// explained is what there is to say of a place.
func explained(typed string, recursive bool) (*field, error) {
	k, s, fields, required, err := find(typed)
	if err != nil {
		return nil, err
	}
	e := k.describe(strings.Join(append([]string{k.name()}, fields...), "."), s, required)
	e.Kind, e.Files, e.Page = k.Title, k.Files, k.Page
	if of := k.object(s); of != nil && of != s && of.Description != "" {
		e.Description = strings.TrimSpace(e.Description + " " + of.Description)
	}
	e.Fields = k.below(e.Path, s, recursive)
	e.Example, err = example(k, fields)
	return &e, err
}

func (k kind) describe(path string, s *schema, required bool) field {
	e := field{Path: path, Type: typeOf(s), Required: required, Description: s.Description, Enum: s.Enum, Default: s.Default}
	if s.Items != nil {
		e.Enum = s.Items.Enum
	}
	if s.Const != nil {
		e.Enum = []any{s.Const}
	}
	return e
}

// below are the fields of a place, in order of name, with all below them where it is recursive.
func (k kind) below(path string, s *schema, recursive bool) []field {
	object := k.object(s)
	if object == nil {
		return nil
	}
	var all []field
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		property := object.Properties[name]
		e := k.describe(path+"."+name, property, slices.Contains(object.Required, name))
		if recursive {
			e.Fields = k.below(e.Path, property, true)
		}
		all = append(all, e)
	}
	return all
}

// columns is how wide the text is.
const columns = 80

func (e *field) screen(w io.Writer, io *ui.Streams, recursive bool) error {
	b := &strings.Builder{}
	title := func(text string) { fmt.Fprintf(b, "\n%s\n", io.Paint(ui.Bold, text)) }
	fmt.Fprintf(b, "KIND:     %s\nVERSION:  %s\nFILES:    %s\n", e.Kind, fleet.APIVersion, e.Files)
	if _, path, below := strings.Cut(e.Path, "."); below {
		fmt.Fprintf(b, "FIELD:    %s <%s>%s\n", path, e.Type, e.mark())
	}
	title("DESCRIPTION:")
	paragraph(b, "  ", e.Description)
	e.limits(b, "  ")
	if len(e.Fields) > 0 {
		title("FIELDS:")
		tree(b, "  ", e.Fields, recursive)
	}
	if e.Example != "" && !recursive {
		title("EXAMPLE:")
		for line := range strings.Lines(e.Example) {
			b.WriteString("  " + line)
		}
	}
	if e.Page != "" {
		fmt.Fprintf(b, "\nMORE:     %s\n", e.Page)
	}
	_, err := w.Write([]byte(b.String()))
	return err
}

// tree are fields, each with its words or, where it is recursive, with those below it.
func tree(b *strings.Builder, indent string, fields []field, recursive bool) {
	for i := range fields {
		e := &fields[i]
		fmt.Fprintf(b, "%s%s <%s>%s\n", indent, e.Path[strings.LastIndexByte(e.Path, '.')+1:], e.Type, e.mark())
		if recursive {
			tree(b, indent+"  ", e.Fields, true)
			continue
		}
		e.limits(b, indent+"  ")
		paragraph(b, indent+"  ", e.Description)
		if i < len(fields)-1 {
			b.WriteByte('\n')
		}
	}
}

func (e *field) mark() string {
	if e.Required {
		return " -required-"
	}
	return ""
}

// limits says which words there are, and what counts without the field.
func (e *field) limits(b *strings.Builder, indent string) {
	if len(e.Enum) > 0 {
		words := make([]string, len(e.Enum))
		for i, word := range e.Enum {
			words[i] = fmt.Sprint(word)
		}
		paragraph(b, indent, "one of: "+strings.Join(words, ", "))
	}
	if e.Default != nil {
		fmt.Fprintf(b, "%sdefault: %v\n", indent, e.Default)
	}
}

func paragraph(b *strings.Builder, indent, text string) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(ansi.Wordwrap(text, columns-len(indent), ""), "\n") {
		fmt.Fprintf(b, "%s%s\n", indent, line)
	}
}

// complete are the kinds, or the fields of what is typed as far as its last dot.
func complete(typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	var words []cobra.Completion
	dot := strings.LastIndexByte(typed, '.')
	if dot < 0 {
		all, err := kinds()
		for _, k := range all {
			words = append(words, cobra.CompletionWithDesc(k.name(), k.Files))
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return words, directive
	}
	k, s, _, _, err := find(typed[:dot])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, e := range k.below(typed[:dot], s, false) {
		words = append(words, cobra.CompletionWithDesc(e.Path, e.Description))
	}
	return words, directive
}
