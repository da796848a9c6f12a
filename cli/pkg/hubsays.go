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
	hub, err := f.HubClient()
	if err != nil || len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	said, err := hub.Upgrades(ctx)
	if err != nil {
		return
	}
	by := map[string]*v1.Upgrade{}
	for i := range said.Items {
		by[said.Items[i].Installation] = &said.Items[i]
	}
	for i := range list {
		if u := by[list[i].Name]; u != nil {
			list[i].Hub = u
		}
	}
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
