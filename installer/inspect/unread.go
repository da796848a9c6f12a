package inspect

import (
	"fmt"
	"strings"

	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/unread"
)

// unread warns of what a service sets and nothing of it reads.
func (i *inspector) unread(d *resolve.Deployment) {
	s, ok := i.Fleet.Service(d.Service)
	if !ok {
		return
	}
	for _, name := range unread.Of(d, s) {
		i.tell(&i.report.Warnings, Finding{
			Where: s.Place(name.Field).String(), Message: fmt.Sprintf("service %s: nothing reads %s", d.Service, name.Field), Fix: adviceFor(name),
		})
	}
}

// unreadByClusters warns of parameters of clusters that no service reads, at the first of the clusters.
func (i *inspector) unreadByClusters() {
	for _, parameter := range unread.OfClusters(i.Fleet) {
		at := ""
		if c, ok := i.Fleet.Cluster(parameter.Clusters[0]); ok {
			at = c.Position.String()
		}
		message := fmt.Sprintf("no service reads %s of %s", parameter.Field, listOf(parameter.Clusters))
		i.tell(&i.report.Warnings, Finding{Where: at, Message: message, Fix: adviceFor(parameter.Name)})
	}
}

func adviceFor(name unread.Name) string {
	if value, is := strings.CutPrefix(name.Field, "spec.parameters."); is && name.Value {
		return "the chart has a value of this name: set spec.helm.values." + value
	}
	if name.Nearest != "" {
		return fmt.Sprintf("did you mean %s?", name.Nearest)
	}
	return "take it away, or read it in a template"
}
