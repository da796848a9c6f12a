package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/history"
	"github.com/pluralsh/plural/workspace/offline"
)

// historyLimit is how many commits are listed when nobody says.
const historyLimit = 30

func newCmdHistory(f *cmdutil.Factory) *cobra.Command {
	limit := historyLimit
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the commits that made a service what it is",
		Long: `List the commits that made a service what it is, the newest first: those that
changed its file, what it reads of the installation repo, or a secret that it
names. A merge is one step. The hub says what became of each, and why it refused
one, as far back as it has run; without a hub, the clone is read alone.`,
		Example: cmdutil.Example("plural service history web", "plural svc history web --limit 5 -o wide"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return &ui.Err{Msg: fmt.Sprintf("--limit %d is no number of commits", limit), Fix: fmt.Sprintf("--limit %d", historyLimit)}
			}
			return showHistory(cmd.Context(), f, args[0], limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", historyLimit, "at most so many `COMMITS`")
	return cmd
}

func showHistory(ctx context.Context, f *cmdutil.Factory, name string, limit int) error {
	printer, err := f.Printer("")
	if err != nil {
		return err
	}
	list, err := asked(ctx, f, name, limit)
	if err != nil {
		return err
	}
	if list == nil {
		if list, err = read(ctx, f, name, limit); err != nil {
			return err
		}
	}
	if len(list.Items) == 0 && printer.Human() {
		f.Say("no commit made service %s what it is", ui.Clean(name))
	}
	return printer.Print(ui.View{
		Value: list, Columns: revisionColumns(list.Items), Rows: revisionRows(f, list.Items), Names: revisionNames(list.Items),
	})
}

// asked is the history as the hub knows it; nil where no hub can be asked, and the clone can.
func asked(ctx context.Context, f *cmdutil.Factory, name string, limit int) (*v1.List[v1.Revision], error) {
	_, homeless := workspace.Find(f.WorkDir())
	hub, err := f.HubClient()
	if err != nil {
		if homeless == nil {
			return nil, nil //nolint:nilerr // the clone says it too
		}
		return nil, err
	}
	whole := &v1.List[v1.Revision]{Items: []v1.Revision{}}
	page := func(ctx context.Context, q paging.Query) (*v1.List[v1.Revision], error) {
		list, err := hub.ServiceHistory(ctx, name, q)
		if err == nil {
			whole.Total = list.Total
		}
		return list, err
	}
	for r, err := range client.All(ctx, page, paging.Query{Limit: min(limit, paging.MaxLimit)}) {
		var away *client.Unreachable
		if errors.As(err, &away) && homeless == nil {
			why := "the hub cannot be reached"
			if stopped := cmdutil.Stopped(err); stopped != nil {
				why = stopped.Msg
			}
			f.Say("%s: this is what the clone says", why)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if whole.Items = append(whole.Items, r); len(whole.Items) == limit {
			break
		}
	}
	return whole, nil
}

// read is the history as the clone has it.
func read(ctx context.Context, f *cmdutil.Factory, name string, limit int) (*v1.List[v1.Revision], error) {
	repo, err := f.Repo()
	if err != nil {
		return nil, err
	}
	now, err := offline.Open(repo, "HEAD")
	if err != nil {
		return nil, err
	}
	objects, err := repo.Objects()
	if err != nil {
		return nil, err
	}
	page, err := history.Of(objects).Read(ctx, history.Query{
		From: now.Taken().Commit().ID, Scope: history.Service(now.Fleet, name, now), Limit: limit,
	})
	if err != nil {
		return nil, err
	}
	if page.Cut {
		f.Say("this clone has no more of the history: git fetch --unshallow")
	}
	list := &v1.List[v1.Revision]{Items: []v1.Revision{}, Total: len(page.Items)}
	undone := history.Undone(page.Items)
	for i := range page.Items {
		list.Items = append(list.Items, revision(&page.Items[i], undone))
	}
	return list, nil
}

func revision(r *history.Revision, undone map[string]string) v1.Revision {
	return v1.Revision{
		Commit: v1.Commit{ID: r.ID, Subject: r.Subject, Author: r.Author, Time: &r.Time}, Email: r.Email,
		Files: r.Files, LeftOut: r.LeftOut, Incomplete: r.Incomplete, Merge: r.Merge, Reverts: r.Reverts, RevertedBy: undone[r.ID],
	}
}

// revisionColumns have the reasons of refusals beside the rest only where there are any.
func revisionColumns(list []v1.Revision) []ui.Column {
	refused := slices.ContainsFunc(list, func(r v1.Revision) bool { return r.Refusal != nil })
	return []ui.Column{
		{Name: "COMMIT"},
		{Name: "AGE"},
		{Name: "AUTHOR"},
		{Name: "RESULT"},
		{Name: "SUBJECT"},
		{Name: "REASON", Wide: !refused},
		{Name: "EMAIL", Wide: true},
		{Name: "FILES", Wide: true},
	}
}

func revisionRows(f *cmdutil.Factory, list []v1.Revision) [][]string {
	rows := make([][]string, len(list))
	for i := range list {
		r := &list[i]
		result, reason := string(r.Outcome()), ""
		if r.Refusal != nil {
			p := cmdutil.HubProblem(*r.Refusal)
			reason, _, _ = strings.Cut(strings.TrimPrefix(p.Where+": "+p.Message, ": "), "\n")
		}
		if r.RevertedBy != "" {
			result = strings.TrimPrefix(result+", undone by "+cmdutil.ShortCommit(r.RevertedBy), ", ")
		}
		files := strings.Join(r.Files, " ")
		if r.LeftOut > 0 {
			files += fmt.Sprintf(" and %d more", r.LeftOut)
		}
		if r.Incomplete {
			files = strings.TrimSpace(files + " (not all was compared)")
		}
		rows[i] = []string{
			cmdutil.ShortCommit(r.ID), cmdutil.Ago(f.Now(), r.Time), cmdutil.OrDash(r.Author), cmdutil.OrDash(result), r.Subject,
			cmdutil.OrDash(reason), cmdutil.OrDash(r.Email), cmdutil.OrDash(files),
		}
	}
	return rows
}

func revisionNames(list []v1.Revision) []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = "commit/" + list[i].ID
	}
	return names
}
