package cluster

import (
	"fmt"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/document"
	"github.com/pluralsh/plural/workspace/fleet"
)

// leaving has the person agree, once the change is shown, to services that no longer run on a cluster whose tags they selected.
func leaving(f *cmdutil.Factory, c *document.Change, name string, confirm *string, before, after *fleet.Fleet) {
	was, known := before.Cluster(name)
	is, stays := after.Cluster(name)
	if !known || !stays {
		return
	}
	var deleted, orphaned []string
	runs := 0
	for i := range before.Services {
		s := &before.Services[i]
		now, there := after.Service(s.Metadata.Name)
		switch {
		case !there:
		case now.Spec.Clusters.Matches(is):
			runs++
		case s.Spec.Clusters.Matches(was) && before.Orphans(s):
			orphaned = append(orphaned, s.Metadata.Name)
		case s.Spec.Clusters.Matches(was):
			deleted = append(deleted, s.Metadata.Name)
		}
	}
	for _, list := range []struct {
		names []string
		fate  string
	}{{deleted, "what they have there is deleted"}, {orphaned, "what they have there stays, as nobody's (sync.onDelete: orphan)"}} {
		if len(list.names) > 0 {
			f.Say("cluster %s loses %s: %s", name, cmdutil.Few(list.names), list.fate)
		}
	}
	if leaves := append(deleted, orphaned...); len(leaves) > 0 {
		c.Losing(name, confirm, runs == 0, fmt.Sprintf("Take %s off %s?", cmdutil.Few(leaves), name))
	}
}
