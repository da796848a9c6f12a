package service

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// details writes what is worth a look below a service's deployments. Each part is there only if there is something in it.
type details struct {
	streams *ui.Streams
	w       io.Writer
}

func (d details) write(s *v1.Service) error {
	d.problems(s.Deployments)
	d.held(s)
	if err := d.tests(s.Deployments); err != nil {
		return err
	}
	d.notes(s.Deployments)
	return nil
}

// maxProblems is how many objects are named that are not as they should be; -o json has them all.
const maxProblems = 20

// problems are the objects behind a deployment's reason, where there is more than the one that it names. The same is told once,
// with where it holds.
func (d details) problems(deployments []v1.Deployment) {
	var order []string
	where := map[string][]string{}
	for i := range deployments {
		for _, p := range deployments[i].Problems {
			if len(deployments[i].Problems) < 2 {
				continue
			}
			line := problemLine(&p)
			if where[line] == nil {
				order = append(order, line)
			}
			where[line] = append(where[line], deployments[i].Cluster)
		}
	}
	if len(order) > 0 {
		fmt.Fprint(d.w, "\nobjects\n")
	}
	for _, line := range order[:min(len(order), maxProblems)] {
		fmt.Fprintf(d.w, "  %s (%s)\n", ui.Clean(line), cmdutil.Few(where[line]))
	}
	if rest := len(order) - maxProblems; rest > 0 {
		fmt.Fprintf(d.w, "  and %d more\n", rest)
	}
}

func problemLine(p *v1.Problem) string {
	line := p.Message
	if p.Object != "" {
		line = p.Object + ": " + line
	}
	if p.Reason != "" {
		line = p.Reason + ": " + line
	}
	return line
}

// held are deletions that wait for a person.
func (d details) held(s *v1.Service) {
	found := waitingFor(s, nil)
	for _, m := range slices.Concat(found.chosen, found.unchecked) {
		fmt.Fprintf(d.w, "\nwaits for an agreement: %s (%s)\n", ui.Clean(m.title()), ui.Clean(m.token))
		for _, line := range m.lines() {
			fmt.Fprintf(d.w, "  %s\n", line)
		}
	}
	if len(found.chosen) > 0 {
		fmt.Fprintf(d.w, "  agree: plural service ack %s\n", ui.Clean(s.Name))
	}
	if names := found.uncheckedClusters(); len(names) > 0 {
		fmt.Fprintf(d.w, "  agree, cluster by cluster: plural service ack %s\n", ui.Clean(s.Name+clusterFlags(names)))
	}
}

// tests are all that did not pass, and how many did.
func (d details) tests(list []v1.Deployment) error {
	passed, rows, logs := 0, [][]string{}, []string{}
	for i := range list {
		for _, t := range list[i].Tests {
			if t.Outcome == v1.TestPassed {
				passed++
				continue
			}
			took := "-"
			if t.Took > 0 {
				took = time.Duration(t.Took * float64(time.Second)).Round(time.Millisecond).String()
			}
			rows = append(rows, []string{t.Name, list[i].Cluster, string(t.Outcome), strconv.Itoa(t.Tries), took, cmp.Or(t.Message, "-")})
			if t.Log != "" {
				logs = append(logs, t.Name+" on "+list[i].Cluster, t.Log)
			}
		}
	}
	if passed+len(rows) == 0 {
		return nil
	}
	fmt.Fprintf(d.w, "\ntests: %s passed\n", cmdutil.Ratio(passed, passed+len(rows)))
	if len(rows) > 0 {
		columns := []ui.Column{{Name: "TEST"}, {Name: "CLUSTER"}, {Name: "OUTCOME", Style: testStyle}, {Name: "TRIES"}, {Name: "TOOK"}, {Name: "REASON"}}
		if err := d.streams.Aligned(d.w, columns, rows); err != nil {
			return err
		}
	}
	for i := 0; i < len(logs); i += 2 {
		d.log(logs[i], logs[i+1])
	}
	return nil
}

// log is the end of what a test printed.
func (d details) log(title, text string) {
	const most = 10
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	fmt.Fprintf(d.w, "\nlog of %s\n", ui.Clean(title))
	for _, line := range lines[max(0, len(lines)-most):] {
		fmt.Fprintf(d.w, "  %s\n", ui.Clean(line))
	}
}

func testStyle(cell string) ui.Style {
	switch v1.TestOutcome(cell) {
	case v1.TestPassed:
		return ui.Green
	case v1.TestFailed:
		return ui.Red
	case v1.TestRunning, v1.TestWaiting:
	}
	return ui.Yellow
}

// notes are told once, with where they hold.
func (d details) notes(deployments []v1.Deployment) {
	var order []string
	where := map[string][]string{}
	for i := range deployments {
		for _, note := range deployments[i].Notes {
			if where[note] == nil {
				order = append(order, note)
			}
			where[note] = append(where[note], deployments[i].Cluster)
		}
	}
	if len(order) > 0 {
		fmt.Fprint(d.w, "\nnotes\n")
	}
	for _, note := range order {
		fmt.Fprintf(d.w, "  %s (%s)\n", ui.Clean(note), cmdutil.Few(where[note]))
	}
}
