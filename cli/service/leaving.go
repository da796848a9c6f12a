package service

import (
	"context"
	"fmt"

	"github.com/pluralsh/plural/cli/cmdutil"
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
	var leaves []string
	runs := 0
	for i := range before.Clusters {
		switch cluster := &before.Clusters[i]; {
		case s.Spec.Clusters.Matches(cluster):
			runs++
		case was.Spec.Clusters.Matches(cluster):
			leaves = append(leaves, cluster.Metadata.Name)
		}
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
		if err := (toll{f: c.f, name: c.name}).objects(ctx, before.Orphans(was)); err != nil {
			return err
		}
	}
	c.change.Losing(c.name, c.confirm, runs == 0, fmt.Sprintf("Take %s off %s?", c.name, cmdutil.Few(leaves)))
	return nil
}
