package controlplane

import (
	"context"
	"fmt"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"github.com/pluralsh/plural/localkube/credentials"
)

// Controllers is a kube-controller-manager with the controllers that make objects
// settle. What would watch over real machines, clouds and certificates is left out.
type Controllers struct {
	Kubeconfig  string // path
	Credentials credentials.Set
}

// Run reconciles until ctx ends.
func (c Controllers) Run(ctx context.Context) error {
	opts, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("default options: %w", err)
	}
	opts.SecureServing.BindPort = 0
	opts.Generic.Controllers = settlingControllers()
	opts.Generic.LeaderElection.LeaderElect = false
	opts.Generic.ClientConnection.Kubeconfig = c.Kubeconfig
	opts.Generic.ClientConnection.QPS = clientQPS
	opts.Generic.ClientConnection.Burst = clientBurst
	opts.SAController.ServiceAccountKeyFile = c.Credentials.ServiceAccountFile
	opts.SAController.RootCAFile = c.Credentials.AuthorityFile
	// Past this timeout it would exit the process as a failure; the caller bounds the wait.
	opts.ControllerShutdownTimeout = 0

	config, err := opts.Config(ctx, app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	if err != nil {
		return fmt.Errorf("complete options: %w", err)
	}
	return app.Run(ctx, config.Complete())
}

// settlingControllers lists the controllers to run. Those that only remove a
// finalizer or fill in a status are among them because objects would hang without.
func settlingControllers() []string {
	return []string{
		names.ClusterRoleAggregationController,
		names.CronJobController,
		names.DaemonSetController,
		names.DeploymentController,
		names.DisruptionController,
		names.EndpointSliceController,
		names.EndpointsController,
		names.EphemeralVolumeController,
		names.GarbageCollectorController,
		names.JobController,
		names.NamespaceController,
		names.PersistentVolumeBinderController,
		names.PersistentVolumeClaimProtectionController,
		names.PersistentVolumeProtectionController,
		names.PodGarbageCollectorController,
		names.ReplicaSetController,
		names.ReplicationControllerController,
		names.ResourceQuotaController,
		names.RootCACertificatePublisherController,
		names.ServiceAccountController,
		names.ServiceAccountTokenController,
		names.StatefulSetController,
		names.TTLAfterFinishedController,
	}
}
