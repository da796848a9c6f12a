package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/document"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// tollPatience is how long the hub may take to say what goes. Without it the person decides all the same.
const tollPatience = 10 * time.Second

func newCmdDelete(f *cmdutil.Factory) *cobra.Command {
	c := document.New(f, yamledit.Service)
	confirm := ""
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Take a service off all clusters",
		Long: `Take a service off all clusters.

Its document is removed, and with it what it has on its clusters, unless its
sync.onDelete says that it stays. The command says how much that is, and wants the
service's name typed. What is more than the deletion budget allows waits for an
agreement: plural service ack.`,
		Example: cmdutil.Example(
			"plural service delete web",
			"plural service delete web --confirm=web",
			"plural service delete web --dry-run"),
		Args: cmdutil.Exactly("NAME"),
	}
	cmd.Flags().StringVar(&confirm, "confirm", "", "the service's `NAME` once more, for scripts")
	c.Flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t := impact{f: f, name: args[0]}
		return c.Delete(cmd.Context(), args[0], confirm, t.say)
	}
	return cmd
}

// impact is what goes with a service.
type impact struct {
	f    *cmdutil.Factory
	name string
}

func (t impact) say(ctx context.Context, repo *workspace.Repo) error {
	known, err := fleet.Load(os.DirFS(repo.Root()))
	if err != nil {
		return err
	}
	s, ok := known.Service(t.name)
	if !ok {
		return nil // said already
	}
	if err := t.objects(ctx, known.Orphans(s)); err != nil {
		return err
	}
	return t.budget(known, s)
}

// objects says what the service has on its clusters. A hub that cannot say keeps nobody from going on.
func (t impact) objects(ctx context.Context, stay bool) error {
	asking, cancel := context.WithTimeout(ctx, tollPatience)
	defer cancel()
	var service *v1.Service
	hub, err := t.f.HubClient()
	if err == nil {
		service, err = hub.Service(asking, t.name)
	}
	var answer *client.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &answer) && answer.Status == 404:
		t.f.Say("the hub knows of no such service, so nothing of it is known to run")
		return nil
	case err != nil:
		t.f.Say("what goes with it is not known: %s", ui.Clean(err.Error()))
		return nil
	}
	var clusters, partly []string
	objects := 0
	for i := range service.Deployments {
		if d := &service.Deployments[i]; d.AppliedKey == "" {
			partly = append(partly, d.Cluster)
		} else {
			clusters, objects = append(clusters, d.Cluster), objects+d.Objects
		}
	}
	if len(partly) > 0 {
		t.f.Say("on %s it never ran whole: what it made there goes, if anything, and nothing of other services", cmdutil.Few(partly))
	}
	if len(clusters) == 0 {
		if len(partly) == 0 {
			t.f.Say("it runs on no cluster")
		}
		return nil
	}
	fate, most := "go", ""
	if objects == 1 {
		fate = "goes"
	}
	if stay {
		fate = map[string]string{"go": "stay", "goes": "stays"}[fate] + ", as nobody's (sync.onDelete: orphan)"
	}
	if service.LeftOut > 0 {
		most = "more than "
	}
	where := count(len(clusters)+service.LeftOut, "cluster")
	t.f.Say("%s%s on %s %s: %s", most, count(objects, "object"), where, fate, cmdutil.Few(clusters))
	if !stay {
		t.f.Say(cmdutil.NeverPruned)
	}
	return nil
}

// budget says what will wait for an agreement, and by which command it is given.
func (t impact) budget(known *fleet.Fleet, s *fleet.Service) error {
	spec := &known.Workspace.Spec
	if budget.Agreed(spec.Acknowledged, []string{t.name}) {
		return nil
	}
	limit, err := budget.Parse(spec.DeletionBudget)
	if err != nil {
		return err
	}
	if !limit.Allows(1, len(known.Services)) {
		t.f.Say("it is 1 of %s, and the deletion budget of %s allows %d: the hub will refuse the commit until: plural service ack --commit",
			count(len(known.Services), "service"), limit, limit.Allowed(len(known.Services)))
		return nil
	}
	var waits []string
	for i := range known.Clusters {
		c := &known.Clusters[i]
		if !s.Spec.Clusters.Matches(c) {
			continue
		}
		all := 0
		for j := range known.Services {
			if known.Services[j].Spec.Clusters.Matches(c) {
				all++
			}
		}
		if !limit.Allows(1, all) {
			waits = append(waits, c.Metadata.Name)
		}
	}
	if len(waits) > 0 {
		t.f.Say("on %s it is more than the deletion budget of %s: it will wait there until plural service ack --cluster-removals CLUSTER",
			cmdutil.Few(waits), limit)
	}
	return nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
