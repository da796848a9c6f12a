package service

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pluralsh/plural/cli/document"
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
	if orphans(before, was) {
		fate = "what it has there stays, as nobody's (sync.onDelete: orphan)"
	}
	c.f.Say("service %s leaves %s: %s", c.name, ui.Clean(list(leaves)), fate)
	if runs == 0 { // the hub knows how much that is
		if err := (toll{f: c.f, name: c.name}).objects(ctx, orphans(before, was)); err != nil {
			return err
		}
		if c.change.DryRun {
			c.f.Say("%s", ui.ToConfirm+c.name)
		}
		c.change.Ask = func(ctx context.Context) error {
			return document.Typed(ctx, c.f, c.name, *c.confirm, "Type "+c.name+" to take it off all its clusters")
		}
		return nil
	}
	c.change.Ask = func(ctx context.Context) error {
		if c.f.Yes || *c.confirm == c.name {
			return nil
		}
		yes, err := c.f.Prompter().Confirm(ctx, fmt.Sprintf("Take %s off %s?", c.name, ui.Clean(list(leaves))), "--yes")
		if err == nil && !yes {
			err = &ui.Err{Msg: "nothing was changed", Fix: "plural service get " + c.name + " shows where it runs", Doc: ui.DocUnconfirmed}
		}
		return err
	}
	return nil
}

// orphans says whether what a service has on clusters stays when it leaves them.
func orphans(f *fleet.Fleet, s *fleet.Service) bool {
	return cmp.Or(s.Spec.Sync.OnDelete, f.Workspace.Spec.Defaults.Sync.OnDelete) == "orphan"
}
