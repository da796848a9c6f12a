package pkg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packs"
)

// tollPatience is how long the hub may take to say what goes. Without it the person decides all the same.
const tollPatience = 10 * time.Second

// impact is what a removal meets once it is committed.
type impact struct {
	f             *cmdutil.Factory
	before, after *fleet.Fleet
	// gone are the services that the removal takes away.
	gone []*fleet.Service
}

// sayToll says before anything is written what a removal will meet: on clusters, in terraform, in budgets, among other packages.
func (d *packageRepo) sayToll(ctx context.Context, names []string, removal *packs.Removal) error {
	after, err := fleet.Load(overlay.New(d.World.Repo, removal.Changes))
	if err != nil {
		return err
	}
	t := &impact{f: d.f, before: d.World.Fleet, after: after}
	for i := range t.before.Services {
		s := &t.before.Services[i]
		if _, stays := after.Service(s.Metadata.Name); !stays {
			t.gone = append(t.gone, s)
		}
	}
	if err := t.objects(ctx); err != nil {
		return err
	}
	for _, name := range names {
		p, err := d.Installed(name)
		if err != nil {
			continue // one that cannot be read must be removable
		}
		for i := range p.Spec.Steps {
			if p.Spec.Steps[i].Terraform != nil {
				d.f.Say("terraform made %s/%s, as far as it was deployed: that stays until plural deploy --allow-destroy",
					name, p.Spec.Steps[i].Name)
			}
		}
	}
	for _, name := range removal.Without {
		d.f.Say("%s does without it from then on", name)
	}
	return t.budgets()
}

// stays says whether a service leaves what it has on clusters behind.
func (t *impact) stays(s *fleet.Service) bool {
	return cmp.Or(s.Spec.Sync.OnDelete, t.before.Workspace.Spec.Defaults.Sync.OnDelete) == "orphan"
}

// objects says what the services have on each cluster, as agents reported last. A hub that cannot say keeps nobody from going
// on.
func (t *impact) objects(ctx context.Context) error {
	if len(t.gone) == 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, tollPatience)
	defer cancel()
	hub, err := t.f.HubClient()
	if err != nil {
		t.f.Say("what goes from clusters is not known: %s", ui.Clean(err.Error()))
		return nil
	}
	goes, stays := map[string]int{}, map[string]int{}
	for _, s := range t.gone {
		said, err := hub.Service(asking, s.Metadata.Name)
		var answer *client.Error
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &answer) && answer.Status == http.StatusNotFound:
			continue // it was never anywhere
		case err != nil:
			t.f.Say("what goes from clusters is not known: %s", ui.Clean(err.Error()))
			return nil
		}
		into := goes
		if t.stays(s) {
			into = stays
		}
		for i := range said.Deployments {
			into[said.Deployments[i].Cluster] += said.Deployments[i].Objects
		}
	}
	t.told(goes, "go")
	t.told(stays, "stay, as nobody's (sync.onDelete: orphan)")
	if len(goes) > 0 {
		t.f.Say(cmdutil.NeverPruned)
	}
	return nil
}

// maxTold bounds how many clusters are named.
const maxTold = 10

func (t *impact) told(by map[string]int, fate string) {
	if len(by) == 0 {
		return
	}
	all := 0
	var each []string
	for _, cluster := range slices.Sorted(maps.Keys(by)) {
		all += by[cluster]
		if len(each) < maxTold {
			each = append(each, fmt.Sprintf("%s %d", ui.Clean(cluster), by[cluster]))
		}
	}
	if left := len(by) - len(each); left > 0 {
		each = append(each, fmt.Sprintf("and %d clusters more", left))
	}
	t.f.Say("%s on %s %s: %s", counted(all, "object"), counted(len(by), "cluster"), fate, strings.Join(each, ", "))
}

// budgets says what will wait for an agreement, and by which command it is given.
func (t *impact) budgets() error {
	spec := &t.after.Workspace.Spec
	var names []string
	for _, s := range t.gone {
		names = append(names, s.Metadata.Name)
	}
	if len(names) == 0 || budget.Agreed(spec.Acknowledged, names) {
		return nil
	}
	limit, err := budget.Parse(spec.DeletionBudget)
	if err != nil {
		return err
	}
	if all := len(t.before.Services); !limit.Allows(len(names), all) {
		t.f.Say("%d of %s leave, and the deletion budget of %s allows %d: "+
			"the hub will refuse the commit until plural service ack --commit",
			len(names), counted(all, "service"), limit, limit.Allowed(all))
	}
	var waits []string
	for i := range t.before.Clusters {
		c := &t.before.Clusters[i]
		some, all := 0, 0
		for j := range t.before.Services {
			s := &t.before.Services[j]
			if !s.Spec.Clusters.Matches(c) {
				continue
			}
			all++
			if slices.Contains(names, s.Metadata.Name) {
				some++
			}
		}
		if !limit.Allows(some, all) {
			waits = append(waits, c.Metadata.Name)
		}
	}
	if len(waits) > 0 {
		named := waits[:min(len(waits), maxTold)]
		text := strings.Join(named, ", ")
		if left := len(waits) - len(named); left > 0 {
			text += fmt.Sprintf(" and %d more", left)
		}
		t.f.Say("on %s it is more than the deletion budget of %s allows: "+
			"it will wait there until plural service ack --cluster-removals %s",
			ui.Clean(text), limit, ui.Clean(waits[0]))
	}
	return nil
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
