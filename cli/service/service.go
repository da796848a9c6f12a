// Package service owns the commands about services.
//
// It refuses to know how the hub is found and asked, and how a change is made. A command asks the hub one question and shows the
// answer, or says what is to be changed of a service's document and sees what comes of it.
package service

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/diff"
	"github.com/pluralsh/plural/cli/rendercmd"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/filter"
)

// NewCmdService is `plural service`.
func NewCmdService(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "service",
		GroupID: cmdutil.GroupFleet,
		Aliases: []string{"svc"},
		Short:   "See and steer the fleet's services",
		Example: cmdutil.Example("plural service list", "plural service get podinfo"),
	}, newCmdList(f), newCmdGet(f), newCmdCreate(f), newCmdSet(f), newCmdEdit(f), newCmdDelete(f), newCmdAck(f), newCmdSync(f),
		newCmdSuspend(f), newCmdResume(f), newCmdTree(f), newCmdEvents(f), newCmdRestart(f), newCmdHistory(f), newCmdRollback(f),
		rendercmd.NewCmdOfService(f), diff.NewCmdOfService(f))
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	var selection cmdutil.Selection
	watching := cmdutil.Watching{Kinds: []v1.ChangeKind{v1.ChangedServices}}
	cmd := &cobra.Command{
		Use:   "list [NAME...]",
		Short: "List services and how they are",
		Long: "List all services and how they are, or those that are named or fit a filter.\n\n" +
			"A star in a name stands for any text. How services are cluster by cluster says plural status NAME.",
		Example: cmdutil.Example(
			"plural service list --filter source:podinfo",
			"plural svc list --sort -health --limit 10 -o wide",
			"plural svc list --watch -o json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := selection.Query("name", args)
			if err != nil {
				return err
			}
			watching.Filter = q.Filter
			return f.Show(cmd.Context(), watching, func(ctx context.Context, hub *client.Client, _ *ui.Printer) (ui.View, error) {
				list, err := cmdutil.Pick(ctx, &selection, q, hub.ServicesPage)
				if err != nil {
					return ui.View{}, err
				}
				view := ui.View{
					Value: list, Columns: columns(), Rows: rows(list.Items), Names: names(list.Items),
					Note: selection.Note("services", len(list.Items), list.Total),
				}
				if list.Total == 0 && q.Filter == "" {
					view.Note = "there are no services: a service is a file in services/"
				}
				view.IDs = cmdutil.IDs(view.Names)
				return view, selection.Missing("service", args, view.Names)
			})
		},
	}
	selection.Flags(cmd.Flags())
	watching.Flags(cmd.Flags())
	return cmd
}

func newCmdGet(f *cmdutil.Factory) *cobra.Command {
	watching := cmdutil.Watching{Kinds: []v1.ChangeKind{v1.ChangedServices, v1.ChangedDeployments}}
	cmd := &cobra.Command{
		Use:     "get NAME",
		Short:   "Show one service, cluster by cluster",
		Example: cmdutil.Example("plural service get podinfo", "plural svc get podinfo -o json", "plural svc get podinfo --watch"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			watching.Filter = filter.OneOf("service", args)
			return f.Show(cmd.Context(), watching, func(ctx context.Context, hub *client.Client, _ *ui.Printer) (ui.View, error) {
				s, err := hub.Service(ctx, args[0])
				if err != nil {
					return ui.View{}, f.Unknown(ctx, "service", args[0], err)
				}
				return ui.View{
					Value: s, Names: names([]v1.Service{*s}),
					Screen: func(w io.Writer) error { return screen(f.IO, w, s) },
				}, nil
			})
		},
	}
	watching.Flags(cmd.Flags())
	return cmd
}

func screen(streams *ui.Streams, w io.Writer, s *v1.Service) error {
	facts := [][]string{
		{"phase", phase(s)},
		{"clusters", cmdutil.Ratio(s.Ready, s.Clusters) + " ready"},
		{"source", origin(s)},
		{"path", s.Path},
		{"renderer", s.Renderer},
		{"namespace", s.Namespace},
		{"commit", cmdutil.ShortCommit(s.Commit)},
		{"reason", cmdutil.OrDash(s.Message)},
	}
	if s.Suspended {
		facts = append(facts, []string{"suspended", "resume it: plural service resume " + s.Name})
	}
	if err := streams.Aligned(w, []ui.Column{{Name: "SERVICE"}, {Name: s.Name}}, facts); err != nil {
		return err
	}
	if len(s.Deployments) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	if err := streams.Aligned(w, cmdutil.DeploymentColumns(), cmdutil.DeploymentRows(s.Deployments)); err != nil {
		return err
	}
	return details{streams, w}.write(s)
}

func columns() []ui.Column {
	return []ui.Column{
		{Name: "SERVICE"},
		{Name: "PHASE", Style: cmdutil.PhaseStyle},
		{Name: "CLUSTERS"},
		{Name: "SOURCE"},
		{Name: "COMMIT"},
		{Name: "NAMESPACE", Wide: true},
		{Name: "RENDERER", Wide: true},
		{Name: "PATH", Wide: true},
		{Name: "REASON"},
	}
}

func rows(list []v1.Service) [][]string {
	out := make([][]string, len(list))
	for i, s := range list {
		out[i] = []string{
			s.Name, phase(&s), cmdutil.Ratio(s.Ready, s.Clusters), origin(&s), cmdutil.ShortCommit(s.Commit),
			s.Namespace, s.Renderer, s.Path, cmdutil.OrDash(s.Message),
		}
	}
	return out
}

// phase is that of a service, for people: one that runs nowhere is not healthy for that.
func phase(s *v1.Service) string {
	if s.Clusters == 0 && s.Phase == v1.Healthy {
		return "nowhere"
	}
	return string(s.Phase)
}

// origin is the service's source, with its ref where one is named.
func origin(s *v1.Service) string {
	switch {
	case s.Source == "" || s.Source == ".":
		return "this repo"
	case s.Ref == "":
		return s.Source
	}
	return s.Source + "@" + s.Ref
}

func names(list []v1.Service) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = "service/" + s.Name
	}
	return out
}
