package service

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/fleet"
)

// leaving has the person agree, once the change is shown, to what takes the service off clusters: by its name, as for a deletion, where
// that is all of them.
func (c checks) leaving(ctx context.Context, before, after *fleet.Fleet) error {
	if before == nil {
		return nil
	}
	was, there := before.Service(c.name)
	s, stays := after.Service(c.name)
	if !there || !stays {
		return nil
	}
	leaves, runs := fleet.Leaving(before, after, c.name)
	var keep []string
	for i := range before.Clusters {
		if cluster := &before.Clusters[i]; was.Spec.Clusters.Matches(cluster) && s.Spec.Clusters.Matches(cluster) {
			keep = append(keep, cluster.Metadata.Name)
		}
	}
	if after.Prunes(s) {
		c.moving(was, s, keep)
	}
	if len(leaves) == 0 {
		return nil
	}
	fate := "what it has there is deleted"
	if before.Orphans(was) {
		fate = "what it has there stays, as nobody's (sync.onDelete: orphan)"
	}
	c.f.Say("service %s leaves %s: %s", c.name, cmdutil.Few(leaves), fate)
	if runs == 0 { // the hub knows how much that is
		if err := (impact{f: c.f, name: c.name}).objects(ctx, before.Orphans(was)); err != nil {
			return err
		}
	}
	c.change.Losing(c.name, c.confirm, runs == 0, fmt.Sprintf("Take %s off %s?", c.name, cmdutil.Few(leaves)))
	return nil
}

// moving has the person agree to another namespace: what is in the one before is deleted but for what is never pruned.
func (c checks) moving(was, is *fleet.Service, clusters []string) {
	from, to := cmp.Or(was.Spec.Namespace, "default"), cmp.Or(is.Spec.Namespace, "default")
	if from == to || len(clusters) == 0 {
		return
	}
	c.f.Say("service %s moves on %s: its objects in namespace %s are deleted and made anew in %s; "+
		"volume claims stay there, and new ones are empty", c.name, cmdutil.Few(clusters), ui.Clean(from), ui.Clean(to))
	c.change.Losing(c.name, c.confirm, false, fmt.Sprintf("Move %s to namespace %s?", c.name, ui.Clean(to)))
}
