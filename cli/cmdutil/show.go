package cmdutil

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/ui"
)

// Ago is how long ago t was, in the two largest units: "41s ago". A zero or missing time is "never".
func Ago(now time.Time, t *time.Time) string {
	if t == nil || t.IsZero() {
		return "never"
	}
	return duration.HumanDuration(max(0, now.Sub(*t))) + " ago"
}

// Failing says since when a source cannot be fetched, and when the hub tries again. Hubs of earlier releases do not say.
func Failing(now time.Time, s *v1.Source) string {
	if s.FailingSince == nil {
		return "failing"
	}
	text := "failing for " + duration.HumanDuration(max(0, now.Sub(*s.FailingSince)))
	if s.InARow > 1 {
		text += fmt.Sprintf(", %d times in a row", s.InARow)
	}
	if s.NextAttempt != nil {
		text += ", next attempt in " + duration.HumanDuration(max(0, s.NextAttempt.Sub(now)))
	}
	return text
}

// ShortCommit is the part of a commit's id that people read; "-" when there is none.
func ShortCommit(id string) string {
	if id == "" {
		return "-"
	}
	return id[:min(7, len(id))]
}

// CSVCell keeps spreadsheets from taking a text for a formula.
func CSVCell(text string) string {
	text = ui.Clean(text)
	if text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}

// Ratio is "ready/all".
func Ratio(ready, all int) string { return fmt.Sprintf("%d/%d", ready, all) }

// Few names some of many, in a line.
func Few(names []string) string {
	const most = 5
	text := ui.Clean(strings.Join(names[:min(most, len(names))], ", "))
	if rest := len(names) - most; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// Reason is a message with all places that it was said of.
type Reason struct {
	Message string
	Places  []string
}

// ByReason are problems with each message once, in the order in which they came first. A place that is empty is left out.
func ByReason(list []ui.Problem) []Reason {
	var out []Reason
	at := map[string]int{}
	for _, p := range list {
		n, known := at[p.Message]
		if !known {
			n = len(out)
			at[p.Message], out = n, append(out, Reason{Message: p.Message})
		}
		if p.Where != "" {
			out[n].Places = append(out[n].Places, p.Where)
		}
	}
	return out
}

// OrDash is s, or "-" in the place of nothing.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// PhaseStyle sets off a phase.
func PhaseStyle(cell string) ui.Style {
	switch v1.Phase(cell) {
	case v1.Healthy:
		return ui.Green
	case v1.Progressing, v1.Pending, v1.Removing, v1.Held:
		return ui.Yellow
	case v1.Degraded, v1.Failed, v1.Stale:
		return ui.Red
	}
	return ui.Faint
}

// DeploymentColumns are the columns of DeploymentRows.
func DeploymentColumns() []ui.Column {
	return []ui.Column{{Name: "SERVICE"}, {Name: "CLUSTER"}, {Name: "PHASE", Style: PhaseStyle}, {Name: "OBJECTS"}, {Name: "REASON"}}
}

// DeploymentRows has a row a deployment, with its first problem where it has no message.
func DeploymentRows(list []v1.Deployment) [][]string {
	rows := make([][]string, len(list))
	for i, d := range list {
		reason := d.Message
		if reason == "" && len(d.Problems) > 0 {
			reason = d.Problems[0].Message
		}
		rows[i] = []string{d.Service, d.Cluster, string(d.Phase), Ratio(d.Ready, d.Objects), OrDash(reason)}
	}
	return rows
}

// ClusterColumns are the columns of ClusterRows.
func ClusterColumns() []ui.Column {
	return []ui.Column{
		{Name: "CLUSTER"},
		{Name: "PHASE", Style: PhaseStyle},
		{Name: "SERVICES"},
		{Name: "KUBERNETES"},
		{Name: "REPORT", Age: true},
		{Name: "CONNECTED", Wide: true},
		{Name: "AGENT", Wide: true},
		{Name: "REASON", Wide: true},
	}
}

// ClusterRows has a row a cluster.
func ClusterRows(list []v1.Cluster, now time.Time) [][]string {
	rows := make([][]string, len(list))
	for i, c := range list {
		rows[i] = []string{
			c.Name, string(c.Phase), Ratio(c.Ready, c.Services), OrDash(c.KubernetesVersion), Ago(now, c.LastReport),
			Connected(&c), OrDash(c.AgentVersion), OrDash(c.Message),
		}
	}
	return rows
}

// Connected says whether people reach a cluster, as far as the hub knows.
func Connected(c *v1.Cluster) string {
	switch {
	case c.Connected == nil:
		return OrDash("")
	case *c.Connected:
		return "yes"
	}
	return "no"
}

// HubProblem is what the hub says is wrong, as it is told.
func HubProblem(p v1.Problem) ui.Problem {
	where := p.File
	if where != "" && p.Line > 0 {
		where += fmt.Sprintf(":%d", p.Line)
	}
	message := p.Message
	for _, about := range []string{p.Object, p.Cluster, p.Service} {
		if about != "" {
			message = about + ": " + message
		}
	}
	return ui.Problem{Where: where, Message: message, Fix: p.Fix}
}

// StillClusters are clusters without what only says that time goes on.
func StillClusters(list []v1.Cluster) []v1.Cluster {
	out := slices.Clone(list)
	for i := range out {
		out[i].LastReport = nil
	}
	return out
}

// StillSources are sources without what every fetch counts on.
func StillSources(list []v1.Source) []v1.Source {
	out := slices.Clone(list)
	for i := range out {
		s := &out[i]
		s.LastFetch, s.Age, s.Fetches, s.Requests, s.ReceivedBytes = nil, 0, 0, 0, 0
		s.InARow, s.NextAttempt = 0, nil
	}
	return out
}

// IDs are names without their nouns.
func IDs(names []string) []string {
	ids := make([]string, len(names))
	for i, name := range names {
		_, ids[i], _ = strings.Cut(name, "/")
	}
	return ids
}
