package view

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
)

const (
	// maxDetailed is how many rows of one answer show all that is known of them, the worst first.
	maxDetailed = 200
	// maxLogs bounds how many rows of one answer show what their tests printed.
	maxLogs = 20
	// maxDetails bounds the rows of one answer, in bytes of JSON: with what stands around them it stays below 100,000.
	maxDetails = 90_000
	// maxMessage bounds a message in a list, maxWord any other text that an agent made up, maxNames all names of what one token
	// stands for: in bytes.
	maxMessage = 512
	maxWord    = 256
	maxNames   = 8 << 10
)

// brief is a row as lists and streams show it.
func (c cell) brief() v1.Deployment {
	out := c.facts()
	out.Message = clip(out.Message, maxMessage)
	if held := out.Held; held != nil {
		out.Held = &v1.Waiting{Token: held.Token, Unchecked: held.Unchecked, Count: held.Count}
	}
	return out
}

// clip is a text of so many bytes at most, and three dots where there was more.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// facts are what is known of a row without its report.
func (c cell) facts() v1.Deployment {
	r := c.row
	out := v1.Deployment{Service: r.service(), Cluster: c.entry.name(), Phase: r.phase, Message: r.said(), Leftover: r.want == nil}
	if r.want != nil {
		out.Key, out.Version, out.Suspended = r.want.Key, r.want.Version, r.want.Suspended
	}
	if f := r.fact; f != nil {
		out.AppliedKey, out.AppliedVersion, out.QuarantinedKey = f.appliedKey.Value(), f.appliedVersion.Value(), f.quarantined.Value()
		out.Objects, out.Ready, out.Held = int(f.objects), int(f.ready), f.held
		out.Unreached = f.unreached && r.phase != v1.Stale // of a silent cluster it is not known any more
	}
	return out
}

// detailed are rows as the answer about one cluster or service shows them, in so many bytes at most, with how many it has no
// room for. They share nothing with the index but what is not changed here.
func (v *View) detailed(cells []cell, most int) (rows []v1.Deployment, leftOut int) {
	rows = make([]v1.Deployment, len(cells))
	worst := worstFirst(cells)
	full := make(map[int]bool, maxDetailed)
	for _, i := range worst[:min(len(worst), maxDetailed)] {
		full[i] = true
	}
	reports := map[string]map[string]*api.ServiceReport{}
	for i, c := range cells {
		if !full[i] {
			rows[i] = c.brief()
			continue
		}
		rows[i] = c.facts()
		name := c.entry.name()
		if reports[name] == nil {
			reports[name] = v.reported(name)
		}
		if s := reports[name][rows[i].Service]; s != nil {
			detail(&rows[i], s)
		}
	}
	return fit(brief(rows), worst, most)
}

// worstFirst are the cells' places, the worst first, else as they are.
func worstFirst(cells []cell) []int {
	order := make([]int, len(cells))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(cells[b].row.phase), rank(cells[a].row.phase)) })
	return order
}

func (v *View) reported(cluster string) map[string]*api.ServiceReport {
	out := map[string]*api.ServiceReport{}
	if report, ok := v.Report(cluster); ok {
		for _, s := range report.GetServices() {
			out[s.GetService()] = s
		}
	}
	return out
}

// detail adds what only a report says.
func detail(out *v1.Deployment, s *api.ServiceReport) {
	for _, p := range s.GetProblems() {
		object := strings.TrimSpace(p.GetKind() + " " + p.GetName()) // none, where it is about the whole cluster
		if p.GetNamespace() != "" {
			object = p.GetKind() + " " + p.GetNamespace() + "/" + p.GetName()
		}
		out.Problems = append(out.Problems, v1.Problem{Object: object, Group: p.GetGroup(), Reason: p.GetReason(), Message: p.GetMessage()})
	}
	out.Held, out.Notes = heldBack(s.GetHeld()), s.GetNotes()
	for _, t := range s.GetTests() {
		out.Tests = append(out.Tests, tested(t))
	}
}

// lastMoment is the end of the year 9999, in milliseconds: JSON has no later times.
const lastMoment = 253_402_300_800_000

func tested(t *api.TestReport) v1.Test {
	out := v1.Test{
		Name: t.GetName(), Outcome: outcome(t.GetOutcome()), Key: t.GetKey(), Message: t.GetMessage(), Log: t.GetLog(),
		Tries: int(t.GetTries()), Took: time.Duration(t.GetTookMs() * int64(time.Millisecond)).Seconds(),
	}
	if ms := t.GetFinishedUnixMs(); ms > 0 && ms < lastMoment {
		at := time.UnixMilli(ms).UTC()
		out.Finished = &at
	}
	return out
}

func outcome(o api.TestReport_Outcome) v1.TestOutcome {
	switch o {
	case api.TestReport_RUNNING:
		return v1.TestRunning
	case api.TestReport_PASSED:
		return v1.TestPassed
	case api.TestReport_FAILED:
		return v1.TestFailed
	case api.TestReport_WAITING, api.TestReport_OUTCOME_UNSPECIFIED:
	}
	return v1.TestWaiting
}

// brief keeps an answer about many clusters small: names once for each token that stands for them, and logs of the first failures
// alone.
func brief(rows []v1.Deployment) []v1.Deployment {
	named, logs := map[string]bool{}, 0
	for i := range rows {
		if held := rows[i].Held; held != nil && !held.Unchecked {
			if named[held.Token] {
				rows[i].Held = &v1.Waiting{Token: held.Token, Count: held.Count, Message: held.Message}
			}
			named[held.Token] = true
		}
		said := false
		for k := range rows[i].Tests {
			t := &rows[i].Tests[k]
			if t.Outcome != v1.TestFailed || logs >= maxLogs {
				t.Log = ""
			}
			said = said || t.Log != ""
		}
		if said {
			logs++
		}
	}
	return rows
}

// fit takes out of rows what makes them too large for one answer: first what can be asked for row by row, then the best rows.
func fit(rows []v1.Deployment, worst []int, most int) ([]v1.Deployment, int) {
	spare := []func(*v1.Deployment){
		func(*v1.Deployment) {},
		func(d *v1.Deployment) {
			for i := range d.Tests {
				d.Tests[i].Log = ""
			}
		},
		func(d *v1.Deployment) { d.Problems, d.Notes = d.Problems[:min(len(d.Problems), 3)], nil },
		func(d *v1.Deployment) {
			d.Problems, d.Tests, d.Message = nil, nil, clip(d.Message, maxMessage)
			if held := d.Held; held != nil {
				d.Held = &v1.Waiting{Token: held.Token, Unchecked: held.Unchecked, Count: held.Count}
			}
		},
	}
	for _, take := range spare {
		total := 0
		for i := range rows {
			take(&rows[i])
			total += size(rows[i])
		}
		if total <= most {
			return rows, 0
		}
	}
	room, kept := most, make(map[int]bool, len(rows))
	for _, i := range worst {
		if room -= size(rows[i]); room < 0 {
			break
		}
		kept[i] = true
	}
	left := make([]v1.Deployment, 0, len(kept))
	for i := range rows {
		if kept[i] {
			left = append(left, rows[i])
		}
	}
	return left, len(rows) - len(left)
}

// within are the first items that take so many bytes at most, and what they take.
func within[T any](items []T, most int) (some []T, bytes int) {
	for i := range items {
		n := size(items[i])
		if bytes+n > most {
			return items[:i], bytes
		}
		bytes += n
	}
	return items, bytes
}

// size is the length of a value's JSON in a list.
func size(value any) int {
	raw, err := json.Marshal(value)
	if err != nil { // these types always encode
		return 0
	}
	return len(raw) + len(",")
}

// cluster is a cluster in one line.
func (v *View) cluster(e *entry, now time.Time) v1.Cluster {
	out := v1.Cluster{
		Name: e.name(), Tags: e.cluster.Spec.Tags, Services: e.asked, Ready: e.ready, Phase: e.phase,
	}
	if v.Connected != nil {
		out.Connected = &e.connected
	}
	var age time.Duration
	if e.said != nil {
		at := time.UnixMilli(v.receivedOf(e)).UTC()
		age = now.Sub(at)
		out.LastReport, out.Held = &at, e.said.held
		out.AgentVersion, out.KubernetesVersion = e.said.agentVersion.Value(), e.said.kubernetesVersion.Value()
	}
	switch {
	case e.phase == v1.Unregistered:
		out.Message = "no agent key in its file: plural cluster register " + out.Name
	case e.said == nil:
		out.Message = "its agent has not reported yet"
	case e.stale && age < 0:
		out.Message = "its last report is dated ahead of the hub's clock"
	case e.stale:
		out.Message = "no report for " + age.Round(time.Second).String()
	}
	return out
}

// receivedOf is when a cluster was heard from last, in Unix milliseconds; zero: never.
func (v *View) receivedOf(e *entry) int64 {
	if e.said == nil {
		return 0
	}
	if newer, ok := v.Received(e.name()); ok {
		return newer
	}
	return e.said.received
}
