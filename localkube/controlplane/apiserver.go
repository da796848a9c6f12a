package controlplane

import (
	"context"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"

	"github.com/pluralsh/plural/localkube/credentials"
)

// issuer names the authority that service account tokens claim to come from.
const issuer = "https://kubernetes.default.svc.cluster.local"

// APIServer is a kube-apiserver with RBAC on a listener that is already open.
type APIServer struct {
	Listener    net.Listener // on a loopback address; the server closes it
	Credentials credentials.Set
}

// Run serves until ctx ends and requests have drained.
func (a APIServer) Run(ctx context.Context) error {
	opts := a.options()
	if err := opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	completed, err := opts.Complete(ctx)
	if err != nil {
		return fmt.Errorf("complete options: %w", err)
	}
	if err := joinErrors("check options", completed.Validate()); err != nil {
		return err
	}
	return app.Run(ctx, completed)
}

func (a APIServer) options() *options.ServerRunOptions {
	opts := options.NewServerRunOptions()
	address := a.Listener.Addr().(*net.TCPAddr)

	serving := opts.SecureServing
	serving.Listener = a.Listener
	serving.BindAddress, serving.BindPort = address.IP, address.Port
	serving.ServerCert.CertKey.CertFile = a.Credentials.ServingCertFile
	serving.ServerCert.CertKey.KeyFile = a.Credentials.ServingKeyFile

	opts.GenericServerRunOptions.AdvertiseAddress = address.IP
	opts.GenericServerRunOptions.ExternalHost = address.IP.String()
	// Watches are told to end; otherwise stopping waits for the clients to give up.
	opts.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = time.Second
	// An endpoint of the "kubernetes" service may not be a loopback address, and
	// nothing inside the cluster runs that could use it.
	opts.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)
	opts.ServiceClusterIPRanges = serviceRange
	opts.AllowPrivileged = true

	// Simulated nodes have made-up addresses, and say in another where they answer; nodes that somebody adds have
	// theirs as usual. Their certificates are not verified, which is also what kubeadm sets up: whoever adds a node
	// need not have one of ours.
	opts.KubeletConfig.PreferredAddressTypes = []string{string(corev1.NodeExternalIP), string(corev1.NodeInternalIP)}
	opts.KubeletConfig.TLSClientConfig.CertFile = a.Credentials.KubeletClientCertFile
	opts.KubeletConfig.TLSClientConfig.KeyFile = a.Credentials.KubeletClientKeyFile

	opts.Etcd.StorageConfig.Transport.ServerList = []string{storeEndpoint}

	opts.Authentication.TokenFile.TokenFile = a.Credentials.TokensFile
	opts.Authentication.ServiceAccounts.Issuers = []string{issuer}
	opts.Authentication.ServiceAccounts.KeyFiles = []string{a.Credentials.ServiceAccountFile}
	opts.ServiceAccountSigningKeyFile = a.Credentials.ServiceAccountFile
	opts.Authorization.Modes = []string{"RBAC"}

	// Taints of new nodes are lifted by a controller that does not run here.
	opts.Admission.GenericAdmission.DisablePlugins = []string{"TaintNodesByCondition"}
	opts.Features.EnableProfiling = false
	// Fairness between many clients costs memory at one person's cluster; the plain
	// limits on requests in flight remain.
	opts.Features.EnablePriorityAndFairness = false
	return opts
}
