package wait

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
)

// target is what is waited for: kind is service or cluster; the zero value is all that the selection picks.
type target struct{ kind, name string }

func (t target) String() string {
	if t.kind == "" {
		return "all that fits"
	}
	return t.kind + "/" + t.name
}

// look is what there is to see of the targets.
type look struct {
	f         *cmdutil.Factory
	hub       *client.Client
	selection *cmdutil.Selection
	targets   []target
	condition string
	// commit is the one of the condition commit=SHA; served says that the hub was seen to serve it.
	commit string
	served bool
	// ill is since when a service on a cluster has failed.
	ill map[string]time.Time
	// missing is what is not so yet; mend is what may be done about it, or else lacking the first service of it; suspended is what
	// was not waited for.
	missing   []ui.Problem
	mend      string
	lacking   *v1.Deployment
	suspended []string
}

// miss notes what is not so yet.
func (l *look) miss(format string, args ...any) {
	l.missing = append(l.missing, ui.Problem{Message: fmt.Sprintf(format, args...)})
}

// sentences are what is missing, each reason once, with a few of the places.
func (l *look) sentences() []string {
	var out []string
	for _, reason := range cmdutil.ByReason(l.missing) {
		switch places := cmdutil.Few(reason.Places); {
		case places == "":
			out = append(out, reason.Message)
		case len(reason.Places) == 1:
			out = append(out, places+" is "+reason.Message)
		default:
			out = append(out, places+" are "+reason.Message)
		}
	}
	return out
}

// once looks at all targets. Its error says what failed, or waits for a person.
func (l *look) once(ctx context.Context) error {
	l.missing, l.mend, l.lacking, l.suspended = nil, "", nil, nil
	if l.condition != "deleted" {
		if err := l.newest(ctx); err != nil {
			return err
		}
	}
	for _, t := range l.targets {
		if err := l.at(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// newest says what keeps the hub from serving the commit that is meant, else the newest one.
func (l *look) newest(ctx context.Context) error {
	status, err := l.hub.Status(ctx)
	if err != nil {
		return err
	}
	head := status.Head.ID
	switch {
	case l.commit == "":
		l.served = head != "" && head == status.Commit.ID
	case !l.served:
		if l.served, err = l.serves(ctx, status); err != nil {
			return err
		}
		head = l.commit
	}
	if l.served {
		return nil
	}
	if l.commit == "" || strings.HasPrefix(status.Head.ID, l.commit) {
		if err := waitfor.Refused(status, status.Head.ID); err != nil {
			return err
		}
	}
	text := "commit " + cmdutil.ShortCommit(head) + " is not served yet"
	if fault := cmdutil.Unfetched(status, "."); fault != "" {
		text += ": the hub cannot fetch the installation repo: " + fault
		l.mend = "mend that, then: plural source sync ."
	} else if l.commit != "" && !strings.HasPrefix(status.Head.ID, l.commit) {
		text += ": the newest that the hub has seen is " + cmdutil.ShortCommit(status.Head.ID)
		l.mend = "git branch -r --contains " + l.commit + " says whether it is pushed, and to which branch"
	}
	l.miss("%s", text)
	return nil
}

// serves says whether the hub serves the commit, or one that came out of it.
func (l *look) serves(ctx context.Context, status *v1.Status) (bool, error) {
	if strings.HasPrefix(status.Commit.ID, l.commit) {
		return true, nil
	}
	r, err := l.hub.Revision(ctx, l.commit)
	if absent(err) {
		return false, nil
	}
	return err == nil && (r.Result == v1.ResultCurrent || r.Result == v1.ResultSuperseded), err
}

// at looks at one target.
func (l *look) at(ctx context.Context, t target) error {
	there, err := l.there(ctx, t)
	if err != nil {
		return err
	}
	var names []string
	if t.kind != "" {
		names = []string{t.name}
	}
	q, err := l.selection.Query(t.kind, names)
	if err != nil {
		return err
	}
	rows, err := cmdutil.Pick(ctx, l.selection, q, l.hub.DeploymentsPage)
	if err != nil {
		return err
	}
	switch {
	case l.condition == "deleted" && !there && len(rows.Items) == 0:
		return nil
	case l.condition == "deleted":
		l.miss("%s is still there, with %d services on clusters", t, len(rows.Items))
		rows.Items = slices.DeleteFunc(rows.Items, func(d v1.Deployment) bool { return !d.Leftover }) // the others are not on their way out
	case !there && l.commit == "":
		return &ui.Err{
			Msg: fmt.Sprintf("there is no %s", t), Fix: "plural " + t.kind + " list; right after a push name its commit: --for commit=SHA",
			Doc: ui.DocNotFound,
		}
	case !there:
		l.miss("there is no %s", t)
		return nil
	case len(rows.Items) == 0 && t.kind != "cluster":
		l.miss("%s is on no cluster", t)
		return nil
	}
	return l.rows(ctx, t, rows.Items)
}

// rows looks at services on clusters.
func (l *look) rows(ctx context.Context, t target, list []v1.Deployment) error {
	var failed, blocked []ui.Problem
	mend := l.f.Mender(ctx, l.hub.Address())
	for i := range list {
		d := &list[i]
		problem := ui.Problem{Where: d.Service + " on " + d.Cluster, Message: waitfor.Reason(d)}
		switch l.judge(d) {
		case ill:
			problem.Fix = mend(d)
			failed = append(failed, problem)
		case waits:
			problem.Fix = mend(d)
			blocked = append(blocked, problem)
		case underWay:
			l.missing = append(l.missing, problem)
			l.lacking = cmp.Or(l.lacking, d)
		case suspended:
			l.suspended = append(l.suspended, problem.Where)
		case well:
		}
	}
	switch {
	case len(failed) > 0:
		return &ui.Err{
			Msg: fmt.Sprintf("%s will not be %s by itself", t, l.condition), Fix: failed[0].Fix, Problems: fixedOnce(failed),
			Doc: ui.DocUnhealthy,
		}
	case len(blocked) > 0:
		return &ui.Err{
			Msg: fmt.Sprintf("%s waits for a person", t), Fix: blocked[0].Fix, Problems: fixedOnce(blocked), Doc: ui.DocHeld,
			Code: ui.ExitPending,
		}
	}
	return nil
}

// fixedOnce are problems without their fixes where all have the same, which the error has then.
func fixedOnce(problems []ui.Problem) []ui.Problem {
	if slices.ContainsFunc(problems, func(p ui.Problem) bool { return p.Fix != problems[0].Fix }) {
		return problems
	}
	out := slices.Clone(problems)
	for i := range out {
		out[i].Fix = ""
	}
	return out
}

// there says whether the fleet has the target, and of a cluster that waits for more than its services, what.
func (l *look) there(ctx context.Context, t target) (bool, error) {
	switch t.kind {
	case "service":
		_, err := l.hub.Service(ctx, t.name)
		if absent(err) {
			return false, nil
		}
		return err == nil, err
	case "cluster":
		c, err := l.hub.Cluster(ctx, t.name)
		if absent(err) {
			return false, nil
		}
		if err == nil && l.condition == "healthy" && slices.Contains([]v1.Phase{v1.Unregistered, v1.Stale, v1.Pending}, c.Phase) {
			l.miss("%s is %s", t, c.Phase)
		}
		return err == nil, err
	}
	return l.condition != "deleted", nil
}

// verdict is what can be said of a service on a cluster.
type verdict int

const (
	underWay verdict = iota
	well
	suspended
	waits
	ill
)

// judge says how a service on a cluster is. What failed, or has the hub offer nothing for it, is given a moment: it may be tried once
// more.
func (l *look) judge(d *v1.Deployment) verdict {
	at := d.Cluster + "/" + d.Service
	failed := d.Phase == v1.Failed || d.Phase == v1.Held || d.Phase == v1.Degraded && l.condition == "healthy"
	if !failed {
		delete(l.ill, at)
	}
	switch {
	case cmdutil.AwaitsPerson(d):
		return waits
	case d.Suspended:
		return suspended
	case failed:
		if _, known := l.ill[at]; !known {
			l.ill[at] = l.f.Now()
		}
		if (l.served || l.condition == "deleted") && l.f.Now().Sub(l.ill[at]) >= waitfor.SecondLook {
			return ill
		}
	case d.AppliedKey == d.Key && (d.Phase == v1.Healthy || l.condition != "healthy"):
		return well
	}
	return underWay
}

// met is what programs get.
type met struct {
	Target string `json:"target"`
	For    string `json:"for"`
}

// view says that all of it is so.
func (l *look) view() ui.View {
	v := ui.View{Columns: []ui.Column{{Name: "TARGET"}, {Name: "FOR"}}}
	var items []met
	for _, t := range l.targets {
		items = append(items, met{t.String(), l.condition})
		v.Rows = append(v.Rows, []string{t.String(), l.condition})
		v.Names = append(v.Names, t.String())
	}
	v.Value = map[string]any{"items": items}
	return v
}
