package why

import (
	"cmp"
	"slices"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
)

// next is what would help a deployment, as the hub at an address says. Of one whose files are elsewhere, in another repository,
// nothing is rendered here.
func next(d *v1.Deployment, chain []link, elsewhere bool, hub string) string {
	start := cmdutil.Start(d, hub)
	switch {
	case start != "":
		return start
	case d.Unreached:
		return "plural cluster get " + d.Cluster
	case len(chain) > 0:
		return "plural why " + chain[len(chain)-1].Service + " --cluster " + d.Cluster
	case d.Held != nil:
		return "plural service ack " + d.Service
	case d.QuarantinedKey != "":
		return "mend what the test found, and commit"
	case d.Phase == v1.Stale || d.Phase == v1.Unregistered || d.Phase == v1.Pending:
		return "plural cluster get " + d.Cluster
	case len(d.Problems) > 0 && elsewhere:
		return "plural service tree " + d.Service + " --cluster " + d.Cluster
	case len(d.Problems) > 0 && d.Problems[0].Object != "" && slices.Contains([]string{"", v1.ReasonWarning}, d.Problems[0].Reason):
		// it is there, and not well
		return "plural why \"" + objectOf(d.Problems[0]) + "\" --cluster " + d.Cluster + " --live"
	}
	return ""
}

// objectOf is the object of a problem, as `plural why` takes it.
func objectOf(p v1.Problem) string {
	kind, name, _ := strings.Cut(p.Object, " ")
	if p.Group != "" {
		kind += "." + p.Group
	}
	return kind + " " + name
}

// advise gathers what would help.
func (s *serviceAnswer) advise(wanted int) {
	add := func(text string) {
		if text != "" && !slices.Contains(s.Next, text) {
			s.Next = append(s.Next, text)
		}
	}
	switch {
	case len(s.Problems) > 0:
		add("plural validate")
	case len(s.Refused) > 0:
		add(cmdutil.Mend(s.Refused[0], cmp.Or(s.Served, &v1.Commit{}).ID))
	}
	if len(s.Uncommitted) > 0 {
		add("plural diff svc/" + s.Service + ", then commit and push")
	}
	if wanted == 0 {
		add("it is meant for no cluster: see spec.clusters in " + s.Where)
	}
	for _, group := range alike(s.Clusters) { // what is said of one of them helps the others
		if len(s.Next) < maxNext {
			add(s.mend(&group[0]))
			add(group[0].Next)
		}
	}
}

// mend is what to do in the repository about a service that is not well by its own fault.
func (s *serviceAnswer) mend(c *clusterAnswer) string {
	var ways []string
	if !c.broken() {
		return ""
	}
	file, _, _ := strings.Cut(c.Written, ":")
	switch {
	case s.Source != nil && s.Source.pin != "" && !slices.Contains(s.Files, file): // what breaks it may be no change of this repository
		ways = append(ways, strings.TrimSpace("mend "+c.Written)+" in source "+s.Source.Name+", "+s.Source.URL, s.Source.pin)
	case c.Parameter != "":
		ways = append(ways, "mend "+c.Parameter+" or "+c.Written+", commit and push")
	case c.Written != "":
		ways = append(ways, "mend "+c.Written+", commit and push")
	}
	if c.undo != "" {
		ways = append(ways, "take its last change back: "+c.undo)
	}
	return strings.Join(ways, "; or ")
}

// maxNext bounds the advice.
const maxNext = 3
