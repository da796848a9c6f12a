package skew

import (
	"fmt"
	"os"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/test/support/needs"
)

// What docs/releases.md promises of two releases, cell by cell. One fleet goes the way of an upgrade that is rolled back; a second one
// has the repo of the newer release and the programs of the older.
func TestReleasesWorkTogether(t *testing.T) {
	needs.Program(t, "kubectl", "kubernetes-client")
	newer := current(t)
	for _, line := range earlier(t) {
		t.Run(line[0], func(t *testing.T) {
			older := build(t, line[0], line[1])
			m := &matrix{T: t}
			w := newWorld(t, older)
			w.begin(older)

			m.cell("hub's state, upgraded", w, func(w *world) { w.takesOverHub(newer, older) })
			m.cell("newer hub, older agent", w, func(w *world) { w.serve(newer); w.attach(older); w.deploys("older-agent") })
			m.cell("newer hub, older commands", w, func(w *world) { w.serve(newer); w.deploysBy(older, "older-cli") })
			m.cell("agent's state, upgraded", w, func(w *world) { w.takesOverAgent(newer); w.serve(newer); w.deploys("agent-upgraded") })
			m.cell("hub's state, rolled back", w, func(w *world) { w.takesOverHub(older, newer) })
			m.cell("older hub, newer agent", w, func(w *world) { w.serve(older); w.attach(newer); w.deploys("newer-agent") })
			m.cell("older hub, newer commands", w, func(w *world) { w.serve(older); w.deploysBy(newer, "newer-cli") })
			m.cell("agent's state, rolled back", w, func(w *world) { w.takesOverAgent(older); w.serve(older); w.deploys("agent-rolled-back") })
			m.cell("installation repo, both ways", w, func(w *world) { w.takesOverRepo(newer); newWorld(w.T, newer).servedBy(older) })
			fmt.Fprintf(os.Stdout, "skew %d/%d %s, on Kubernetes %s\n", m.held, m.cells, line[0], w.kubernetes())
		})
	}
}

// matrix counts the cells that hold.
type matrix struct {
	*testing.T
	held, cells int
}

// cell tests one promise on the fleet as the cells before left it. A cell starts the programs that it is about by itself.
func (m *matrix) cell(name string, w *world, test func(*world)) {
	m.cells++
	m.Run(name, func(t *testing.T) {
		outer := w.T
		w.T = t
		defer func() { w.T = outer }()
		test(w)
		if !t.Failed() {
			m.held++ // not so of a cell that -run leaves out
		}
	})
}

// begin runs hub and agent of a release with the service that is there all along.
func (w *world) begin(r release) {
	w.Helper()
	w.serve(r)
	w.attach(r)
	w.origin.Push(map[string]string{"services/" + kept + ".yaml": w.file(kept, "1")})
	w.runs(kept, "1")
}

// takesOverHub lets a hub of the next release read what that of the last one kept: with neither git nor an agent there, it knows the
// newest commit, what the agent reported, and who its operator is. What follows is written to the same files.
func (w *world) takesOverHub(next, last release) {
	w.Helper()
	w.serve(last)
	w.deploysBy(last, "of-the-last") // for lines of the audit log, and reports
	w.runs(kept, "1")
	w.stopAgent()
	w.stopHub()
	back := sync.OnceFunc(w.origin.Away())
	defer back() // for the cells that follow where this one fails
	w.serve(next)
	fleetrepo.Until(w, "the hub of "+next.name+" knows what that of "+last.name+" was told", func() bool {
		var s v1.Service
		found, err := w.ask("/v1/services/"+kept, &s)
		return err == nil && found && w.converged(&s)
	})
	back()
	w.attach(last)
	w.deploys("of-the-next")
	w.cli(next, "audit", "verify")
}

// takesOverAgent lets an agent of the next release read what that of the last one kept: with no hub there, it makes anew what
// somebody deletes.
func (w *world) takesOverAgent(next release) {
	w.Helper()
	w.runs(kept, "1")
	w.stopHub()
	w.stopAgent()
	if err := w.cluster.Dynamic.Resource(configMaps).Namespace(w.cluster.Namespace).Delete(w.Context(), kept, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.attach(next)
	fleetrepo.Until(w, "the agent of "+next.name+" heals without a hub", func() bool { return w.value(kept) == "1" })
}

// takesOverRepo has the commands of a release find nothing wrong in a repo that those of another made, and complete it.
func (w *world) takesOverRepo(next release) {
	w.Helper()
	w.cli(next, "validate")
	w.cli(next, "init", "--upgrade")
	w.cli(next, "validate")
}

// servedBy has hub, agent and commands of a release work with a repo that another one made.
func (w *world) servedBy(r release) {
	w.Helper()
	w.begin(r)
	w.takesOverRepo(r)
	w.deploysBy(r, "of-the-other")
}
