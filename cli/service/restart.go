package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

type restartOptions struct {
	f        *cmdutil.Factory
	service  string
	clusters []string
}

// restartedOn is what came of a restart on one cluster.
type restartedOn struct {
	Cluster string `json:"cluster"`
	// Objects are those whose pods are made anew; none when Error says why.
	Objects []v1.ActedObject `json:"objects"`
	Error   string           `json:"error,omitempty"`

	err error
}

func newCmdRestart(f *cmdutil.Factory) *cobra.Command {
	o := &restartOptions{f: f}
	cmd := &cobra.Command{
		Use:   "restart NAME",
		Short: "Make a service's pods anew, a few at a time",
		Long: `Make a service's pods anew, a few at a time, as kubectl rollout restart does: those
of its Deployments, StatefulSets and DaemonSets.

Nothing in git changes, and nothing is waited for. Each cluster is asked as you:
its own access control says whether you may.`,
		Example: cmdutil.Example("plural service restart web --cluster edge-1", "plural svc restart web --yes"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.service = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringArrayVar(&o.clusters, "cluster", nil, "only on this `CLUSTER`; may be repeated")
	return cmd
}

func (o *restartOptions) run(ctx context.Context) error {
	hub, printer, err := o.f.Ask()
	if err != nil {
		return err
	}
	s, err := hub.Service(ctx, o.service)
	if err != nil {
		return err
	}
	if err := only(s, o.clusters); err != nil {
		return err
	}
	var where []string
	for i := range s.Deployments {
		where = append(where, s.Deployments[i].Cluster)
	}
	if len(where) == 0 {
		o.f.Say("%s runs on no cluster", ui.Clean(s.Name))
		return nil
	}
	if err := o.confirm(ctx, where); err != nil {
		return err
	}
	all := o.restart(ctx, hub, where)
	if err := printer.Print(restarted(all)); err != nil {
		return err
	}
	return o.failed(ctx, all)
}

func (o *restartOptions) confirm(ctx context.Context, where []string) error {
	if o.f.Yes {
		return nil
	}
	question := fmt.Sprintf("Restart the pods of %s on %s?", ui.Clean(o.service), cmdutil.Few(where))
	yes, err := o.f.Prompter().Confirm(ctx, question, "--yes")
	if err == nil && !yes {
		err = context.Canceled
	}
	return err
}

// restart asks the clusters. One that fails keeps no other from being asked.
func (o *restartOptions) restart(ctx context.Context, hub *client.Client, where []string) []restartedOn {
	all := make([]restartedOn, len(where))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, cluster := range where {
		group.Go(func() error {
			acted, err := hub.Restart(ctx, cluster, o.service)
			all[i] = restartedOn{Cluster: cluster, Objects: []v1.ActedObject{}, err: err}
			if err != nil {
				all[i].Error = cmdutil.Explain(err).Error()
				return nil
			}
			all[i].Objects = append(all[i].Objects, acted.Objects...)
			return nil
		})
	}
	_ = group.Wait()
	return all
}

func restarted(all []restartedOn) ui.View {
	view := ui.View{Value: all, Columns: []ui.Column{{Name: "CLUSTER"}, {Name: "OBJECT"}, {Name: "RESULT"}, {Name: "NOTE"}}}
	for _, on := range all {
		if on.Error != "" {
			view.Rows = append(view.Rows, []string{on.Cluster, "-", "failed", "-"}) // the error says why
		}
		for i := range on.Objects {
			object := &on.Objects[i]
			result, note := "restarted", object.Note
			if !object.Done {
				result, note = "failed", "" // as well
			}
			name := strings.Join([]string{object.Resource, object.Name}, "/")
			view.Rows = append(view.Rows, []string{on.Cluster, name, result, cmdutil.OrDash(note)})
			view.Names = append(view.Names, on.Cluster+"/"+name)
		}
	}
	return view
}

// failed is the error about clusters and objects that were not restarted.
func (o *restartOptions) failed(ctx context.Context, all []restartedOn) error {
	told := &ui.Err{Fix: "plural service tree " + o.service}
	for _, on := range all {
		if on.err != nil && len(all) == 1 || errors.Is(on.err, context.Canceled) || ctx.Err() != nil {
			return errors.Join(on.err, context.Cause(ctx))
		}
		if on.Error != "" {
			told.Problems = append(told.Problems, ui.Problem{Where: on.Cluster, Message: on.Error})
		}
		for i := range on.Objects {
			if object := &on.Objects[i]; !object.Done {
				told.Problems = append(told.Problems, ui.Problem{
					Where: on.Cluster, Message: object.Resource + "/" + object.Name + ": " + cmdutil.OrDash(object.Error),
				})
			}
		}
	}
	if len(told.Problems) == 0 {
		return nil
	}
	told.Msg = fmt.Sprintf("not all of %s was restarted", o.service)
	return told
}
