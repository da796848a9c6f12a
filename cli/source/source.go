// Package source owns the commands about sources.
//
// It refuses to know how the hub is found and asked, and how a change is made. A command asks the hub one question and shows the
// answer, or says which fields of a source's document are to be what.
package source

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/filter"
)

// NewCmdSource is `plural source`.
func NewCmdSource(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "source",
		GroupID: cmdutil.GroupFleet,
		Aliases: []string{"src"},
		Short:   "See the repositories that services come from",
		Example: cmdutil.Example("plural source list", "plural source get podinfo", "plural source sync podinfo"),
	}, newCmdList(f), newCmdGet(f), newCmdAdd(f), newCmdSet(f), newCmdEdit(f), newCmdDelete(f), newCmdSync(f))
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	var selection cmdutil.Selection
	watching := cmdutil.Watching{Kinds: []v1.ChangeKind{v1.ChangedSources}}
	cmd := &cobra.Command{
		Use:   "list [NAME...]",
		Short: "List sources and how fresh they are",
		Long: "List all sources and how fresh they are, or those that are named or fit a filter.\n\n" +
			"A star in a name stands for any text. The installation repo itself is the source named \".\".",
		Example: cmdutil.Example(
			"plural source list --filter '!error:'",
			"plural src list --sort -age --watch",
			"plural src list --jq '.items[].commit'"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := selection.Query("name", args)
			if err != nil {
				return err
			}
			watching.Filter = q.Filter
			return f.Show(cmd.Context(), watching, func(ctx context.Context, hub *client.Client, _ *ui.Printer) (ui.View, error) {
				list, err := cmdutil.Pick(ctx, &selection, q, hub.SourcesPage)
				if err != nil {
					return ui.View{}, err
				}
				view := ui.View{
					Value: list, Columns: columns(), Rows: rows(f, list.Items), Names: names(list.Items), Still: cmdutil.StillSources(list.Items),
					Note: selection.Note("sources", len(list.Items), list.Total),
				}
				view.IDs = cmdutil.IDs(view.Names)
				return view, selection.Missing("source", args, view.Names)
			})
		},
	}
	selection.Flags(cmd.Flags())
	watching.Flags(cmd.Flags())
	return cmd
}

func newCmdGet(f *cmdutil.Factory) *cobra.Command {
	watching := cmdutil.Watching{Kinds: []v1.ChangeKind{v1.ChangedSources}}
	cmd := &cobra.Command{
		Use:     "get NAME",
		Short:   "Show one source",
		Long:    "Show one source. The installation repo itself is the source named \".\".",
		Example: cmdutil.Example("plural source get podinfo", "plural src get . -o yaml"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			watching.Filter = filter.OneOf("name", args)
			return f.Show(cmd.Context(), watching, func(ctx context.Context, hub *client.Client, _ *ui.Printer) (ui.View, error) {
				s, err := hub.Source(ctx, args[0])
				if err != nil {
					return ui.View{}, err
				}
				return ui.View{
					Value: s, Names: names([]v1.Source{*s}), Still: cmdutil.StillSources([]v1.Source{*s})[0],
					Screen: func(w io.Writer) error { return screen(f, w, s) },
				}, nil
			})
		},
	}
	watching.Flags(cmd.Flags())
	return cmd
}

func screen(f *cmdutil.Factory, w io.Writer, s *v1.Source) error {
	rows := [][]string{
		{"kind", s.Kind},
		{"url", s.URL},
		{"ref", cmdutil.OrDash(s.Ref)},
		{"commit", cmdutil.OrDash(s.Commit)},
		{"fetched", cmdutil.Ago(f.Now(), s.LastFetch)},
		{"fetches", fmt.Sprintf("%d, %d failed", s.Fetches, s.Failures)},
		{"traffic", fmt.Sprintf("%d requests, %d bytes received", s.Requests, s.ReceivedBytes)},
		{"error", cmdutil.OrDash(s.Error)},
	}
	if s.FailingSince != nil {
		rows = append(rows, []string{"failing", cmdutil.Failing(f.Now(), s)})
	}
	if s.Owner != "" {
		rows = append(rows, []string{"owner", s.Owner})
	}
	for _, ref := range s.Refs {
		name := "ref " + cmdutil.OrDash(ref.Ref)
		rows = append(rows, []string{name, cmp.Or(ref.Revision, cmdutil.ShortCommit(ref.Commit))})
		if ref.Rewound != "" {
			rows = append(rows, []string{"", "left its history: " + ref.Rewound})
		}
	}
	return f.IO.Aligned(w, []ui.Column{{Name: "SOURCE"}, {Name: s.Name}}, rows)
}

func columns() []ui.Column {
	return []ui.Column{
		{Name: "SOURCE"}, {Name: "KIND", Wide: true}, {Name: "REF"}, {Name: "COMMIT"}, {Name: "FETCHED", Age: true}, {Name: "URL"}, {Name: "ERROR"},
	}
}

func rows(f *cmdutil.Factory, list []v1.Source) [][]string {
	out := make([][]string, len(list))
	for i, s := range list {
		out[i] = []string{
			s.Name, s.Kind, cmdutil.OrDash(s.Ref), cmdutil.ShortCommit(s.Commit), cmdutil.Ago(f.Now(), s.LastFetch),
			s.URL, cmdutil.OrDash(s.Error),
		}
	}
	return out
}

func names(list []v1.Source) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = "source/" + s.Name
	}
	return out
}
