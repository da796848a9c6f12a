package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"

	"github.com/pluralsh/plural/localkube/credentials"
	"github.com/pluralsh/plural/localkube/egress"
)

// issuer names the authority that service account tokens claim to come from.
const issuer = "https://kubernetes.default.svc.cluster.local"

// APIServer is a kube-apiserver with RBAC on a listener that is already open.
type APIServer struct {
	Listener    net.Listener // on a loopback address; the server closes it
	Credentials credentials.Set
	// MadeUp are ranges of which simulated nodes and pods have their addresses: nobody answers there.
	MadeUp []netip.Prefix
	// AuthenticationConfig is a file that says whose tokens count besides; empty: nobody's.
	AuthenticationConfig string
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
	config, err := a.config(completed)
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	ready, err := config.Complete()
	if err != nil {
		return fmt.Errorf("complete configuration: %w", err)
	}
	server, err := app.CreateServerChain(ready)
	if err != nil {
		return fmt.Errorf("create server: %w", err)
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return fmt.Errorf("prepare server: %w", err)
	}
	return prepared.Run(ctx)
}

// config is that of a kube-apiserver which reaches out by an egress of ours, and whose webhooks fail open.
func (a APIServer) config(opts options.CompletedOptions) (*app.Config, error) {
	schemes := []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme}
	generic, shared, storage, err := controlplaneapiserver.BuildGenericConfig(opts.CompletedOptions, schemes,
		controlplane.DefaultAPIResourceConfigSource(), generatedopenapi.GetOpenAPIDefinitions)
	if err != nil {
		return nil, err
	}
	if generic.EgressSelector, err = a.egress(shared); err != nil {
		return nil, err
	}
	if err := failOpen(shared); err != nil {
		return nil, err
	}
	kube, resolver, initializers, err := app.CreateKubeAPIServerConfig(opts, generic, shared, storage)
	if err != nil {
		return nil, err
	}
	authentication := webhook.NewDefaultAuthenticationInfoResolverWrapper(kube.ControlPlane.ProxyTransport,
		generic.EgressSelector, generic.LoopbackClientConfig, generic.TracerProvider)
	extensions, err := controlplaneapiserver.CreateAPIExtensionsConfig(*kube.ControlPlane.Generic, shared, initializers,
		opts.CompletedOptions, opts.MasterCount, resolver, authentication)
	if err != nil {
		return nil, err
	}
	aggregator, err := controlplaneapiserver.CreateAggregatorConfig(*kube.ControlPlane.Generic, opts.CompletedOptions, shared,
		resolver, kube.ControlPlane.ProxyTransport, kube.ControlPlane.Extra.PeerProxy, initializers)
	if err != nil {
		return nil, err
	}
	return &app.Config{Options: opts, Aggregator: aggregator, KubeAPIs: kube, ApiExtensions: extensions}, nil
}

// egress is for all that the API server itself connects to, but its store.
func (a APIServer) egress(shared informers.SharedInformerFactory) (*egressselector.EgressSelector, error) {
	services, err := netip.ParsePrefix(ServiceRange)
	if err != nil {
		return nil, err
	}
	dialer := &egress.Dialer{
		Services: shared.Core().V1().Services().Lister(), Endpoints: shared.Discovery().V1().EndpointSlices().Lister(),
		Cluster: services, MadeUp: a.MadeUp, Outside: (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
	}
	return egressselector.NewEgressSelectorWithMap(map[egressselector.EgressType]utilnet.DialFunc{
		egressselector.Cluster: dialer.Dial, egressselector.ControlPlane: dialer.Dial,
	}), nil
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
	opts.ServiceClusterIPRanges = ServiceRange
	opts.AllowPrivileged = true

	// Simulated nodes have made-up addresses, and say in another where they answer; nodes that somebody adds have
	// theirs as usual. Their certificates are not verified, which is also what kubeadm sets up: whoever adds a node
	// need not have one of ours.
	opts.KubeletConfig.PreferredAddressTypes = []string{string(corev1.NodeExternalIP), string(corev1.NodeInternalIP)}
	opts.KubeletConfig.TLSClientConfig.CertFile = a.Credentials.KubeletClientCertFile
	opts.KubeletConfig.TLSClientConfig.KeyFile = a.Credentials.KubeletClientKeyFile

	opts.Etcd.StorageConfig.Transport.ServerList = []string{storeEndpoint}

	opts.Authentication.TokenFile.TokenFile = a.Credentials.TokensFile
	opts.Authentication.AuthenticationConfigFile = a.AuthenticationConfig
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
