package controlplane

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// Scheduler is a kube-scheduler with its default profile.
type Scheduler struct {
	Kubeconfig string // path
}

// Run binds pods to nodes until ctx ends.
func (s Scheduler) Run(ctx context.Context) error {
	opts := options.NewOptions()
	opts.SecureServing.BindPort = 0
	if err := s.setFlags(opts); err != nil {
		return err
	}
	config, scheduler, err := app.Setup(ctx, opts)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	err = app.Run(ctx, config, scheduler)
	if ctx.Err() != nil {
		// Without leader election it reports an error for every end.
		return nil
	}
	return err
}

// setFlags goes through the flags because Setup takes these settings only from
// flags that were changed, or from a file.
func (s Scheduler) setFlags(opts *options.Options) error {
	for _, flag := range []struct{ set, name, value string }{
		{"deprecated", "kubeconfig", s.Kubeconfig},
		{"deprecated", "kube-api-qps", strconv.Itoa(clientQPS)},
		{"deprecated", "kube-api-burst", strconv.Itoa(clientBurst)},
		{"leader election", "leader-elect", "false"},
	} {
		if err := opts.Flags.FlagSet(flag.set).Set(flag.name, flag.value); err != nil {
			return fmt.Errorf("set flag %s: %w", flag.name, err)
		}
	}
	return nil
}
