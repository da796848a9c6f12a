// Package audit owns `plural audit`: who did what where, as the hub's audit log has it.
//
// What is asked of clusters and of the hub itself is in it, and every reading of it as well. The format of the log is
// package hubsvc/audit's; here it is shown, taken out, and checked.
package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/paging"
)

// NewCmdAudit is `plural audit`.
func NewCmdAudit(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "audit",
		GroupID: cmdutil.GroupAccess,
		Short:   "See who did what, and check that the record is whole",
		Example: cmdutil.Example("plural audit list --since 24h", "plural audit export --since 24h --file audit.jsonl", "plural audit verify"),
	}, newCmdList(f), newCmdExport(f), newCmdVerify(f))
}

// usualRows is how many records are listed when nobody says.
const usualRows = 100

type listOptions struct {
	factory      *cmdutil.Factory
	query        v1.AuditQuery
	since, until string
	limit        int
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	o := &listOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List who did what, the newest first",
		Long: "List who did what, on all replicas of the hub, the newest first. It takes a Role with fleet: [audit], and is itself\n" +
			"recorded.\n\n" +
			"What changes something, opens a connection or reads a Secret has a record when it begins and one when it ends; the table shows\n" +
			"the beginning alone of what has not ended. Without --limit these are the newest 100. A replica that cannot be asked is named.",
		Example: cmdutil.Example("plural audit list --person ada --since 24h", "plural audit list --cluster edge-1 --verb create -o wide",
			"plural audit list --decision denied --jq '.items[].record.person'"),
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.query.Person, "person", "", "of this `USER`, by the exact name")
	flags.StringVar(&o.query.Cluster, "cluster", "", "on this `CLUSTER`")
	flags.StringVar(&o.query.Verb, "verb", "", "of this `VERB`, such as get, create or login")
	flags.StringVar(&o.query.Decision, "decision", "", "allowed, denied or limited")
	flags.StringVar(&o.since, "since", "", "written from this `TIME` on: 24h ago, or 2026-11-22T10:00:00Z")
	flags.StringVar(&o.until, "until", "", "written before this `TIME`")
	flags.IntVar(&o.limit, "limit", usualRows, "at most so many `ROWS`")
	return cmd
}

func (o *listOptions) run(ctx context.Context) (err error) {
	f := o.factory
	if o.query.Since, err = moment(f, "since", o.since); err != nil {
		return err
	}
	if o.query.Until, err = moment(f, "until", o.until); err != nil {
		return err
	}
	if o.limit < 1 {
		return &ui.Err{Msg: fmt.Sprintf("--limit %d is no number of rows", o.limit), Fix: "--limit " + strconv.Itoa(usualRows), Doc: ui.DocUsage}
	}
	hub, printer, err := f.Ask()
	if err != nil {
		return err
	}
	list, err := o.read(ctx, hub)
	if err != nil {
		return err
	}
	view := listView(list)
	if len(list.Items) == 0 {
		view.Note = "no records"
	}
	if len(list.Missing) > 0 {
		view.Lacks = append(view.Lacks, missed(list.Missing))
	}
	return f.Print(printer, view)
}

// read puts pages together. A page may be empty, and go on.
func (o *listOptions) read(ctx context.Context, hub *client.Client) (*v1.AuditList, error) {
	whole := &v1.AuditList{Items: []v1.AuditEntry{}}
	for continued := ""; ; {
		o.query.Limit = min(o.limit-len(whole.Items), paging.MaxLimit)
		page, err := hub.Audit(ctx, o.query, continued)
		if err != nil {
			return nil, err
		}
		whole.Items, whole.Missing = append(whole.Items, page.Items...), page.Missing
		if continued = page.Next; continued == "" || len(whole.Items) >= o.limit {
			return whole, nil
		}
	}
}

// moment reads a time, or how long ago it was; empty is none.
func moment(f *cmdutil.Factory, flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return f.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, &ui.Err{
			Msg: fmt.Sprintf("--%s %q is no time", flag, text), Fix: "--" + flag + " 24h, or --" + flag + " 2026-11-22T10:00:00Z",
			Doc: ui.DocUsage, Err: err,
		}
	}
	return at, nil
}

func missed(replicas []string) string {
	return "replicas that could not be asked, whose records are not here: " + strings.Join(replicas, ", ")
}

func listView(list *v1.AuditList) ui.View {
	view := ui.View{Value: list, Past: true, Rows: [][]string{}, Columns: []ui.Column{
		{Name: "TIME"},
		{Name: "PERSON"},
		{Name: "VERB"},
		{Name: "WHAT"},
		{Name: "CLUSTER"},
		{Name: "DECISION", Style: decisionStyle},
		{Name: "STATUS"},
		{Name: "SOURCE", Wide: true},
		{Name: "CREDENTIAL", Wide: true},
		{Name: "REPLICA", Wide: true},
		{Name: "ID", Wide: true},
		{Name: "CAUSE", Wide: true},
	}}
	ended := map[string]bool{}
	for i := range list.Items {
		e := &list.Items[i]
		r := &e.Record
		status := "not ended"
		switch {
		case r.Stage == "end":
			ended[r.ID] = true
			status = cmdutil.OrDash(strings.TrimPrefix(strconv.Itoa(r.Status), "0"))
		case ended[r.ID]:
			continue
		}
		view.Names = append(view.Names, "audit/"+r.ID)
		view.Rows = append(view.Rows, []string{
			r.Time.UTC().Format(time.RFC3339), cmdutil.OrDash(r.Person), r.Verb, cmdutil.OrDash(what(r)), cmdutil.OrDash(r.Cluster),
			r.Decision, status, cmdutil.OrDash(r.Source), cmdutil.OrDash(r.Credential), e.Replica, r.ID, cmdutil.OrDash(r.Cause),
		})
	}
	return view
}

// what is the object of an act: that of a cluster, as kubectl calls it, or the hub's path.
func what(r *v1.AuditRecord) string {
	if r.Resource == "" {
		return r.Path
	}
	text := r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	return strings.TrimSpace(text + " " + strings.Trim(r.Namespace+"/"+r.Name, "/"))
}

func decisionStyle(cell string) ui.Style {
	if cell != "allowed" {
		return ui.Yellow
	}
	return ""
}
