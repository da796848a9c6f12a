package pkg

import (
	"context"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// hubPatience is how long a hub may take to say what it will do. It is asked for more than the repo knows, so nothing fails
// without it.
const hubPatience = 3 * time.Second

// hubSays adds to what is outdated what the hub says of it: it moves some packages by itself, and knows what they wait for on
// clusters.
func hubSays(ctx context.Context, f *cmdutil.Factory, list []outdated) {
	if len(list) == 0 {
		return
	}
	by := upgrades(ctx, f)
	for i := range list {
		list[i].Hub = by[list[i].Name]
	}
}

// upgrades are what the hub says of installations, by name; nothing where it cannot be asked.
func upgrades(ctx context.Context, f *cmdutil.Factory) map[string]*v1.Upgrade {
	by := map[string]*v1.Upgrade{}
	hub, err := f.HubClient()
	if err != nil {
		return by
	}
	ctx, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	said, err := hub.Upgrades(ctx)
	if err != nil {
		return by
	}
	for i := range said.Items {
		by[said.Items[i].Installation] = &said.Items[i]
	}
	return by
}

// sayHub tells a person what the hub says, a line each.
func sayHub(f *cmdutil.Factory, list []outdated) {
	for _, o := range list {
		if o.Hub == nil {
			continue
		}
		for _, r := range o.Hub.Reasons {
			f.Say("hub: %s is %s: %s", o.Name, ui.Clean(string(o.Hub.State)), ui.Clean(r.Message))
		}
	}
}
