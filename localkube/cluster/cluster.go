// Package cluster owns the life of one local cluster, from the lock on its folder to the last goroutine.
//
// It refuses to know how any part works: it decides what runs, in which order it starts
// and stops, and what counts as ready.
//
// Data passes through like this: the folder yields a listener and key material; the
// store and the API server start on them; the clients of the API server (controllers,
// scheduler, simulated nodes with their kubelets, and volumes) follow; once objects can be created the
// readiness file is written. Stopping walks back the same way. A part that ends
// by itself stops the whole and becomes its error: there is no half-alive cluster.
package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pluralsh/plural/localkube/controlplane"
	"github.com/pluralsh/plural/localkube/credentials"
	"github.com/pluralsh/plural/localkube/rundir"
	"github.com/pluralsh/plural/localkube/simkubelet"
	"github.com/pluralsh/plural/localkube/simnode"
	"github.com/pluralsh/plural/localkube/simvolume"
)

// How long each layer may take to stop. Together with the store's own two seconds
// they stay below the five within which a cluster promises to be gone.
const (
	stopClients = time.Second
	stopServer  = 1500 * time.Millisecond
)

// MaxNodes is how many simulated nodes a cluster may have.
const MaxNodes = 1000

// Config says what to run.
type Config struct {
	Dir       string // folder of the cluster, created when missing
	Ephemeral bool   // remove Dir when stopping
	Name      string // of the kubeconfig's context
	Nodes     int    // simulated nodes, 1 to MaxNodes
	// AuthenticationConfig is the absolute path of an AuthenticationConfiguration, which the API server reads; empty for none.
	AuthenticationConfig string

	Log      *slog.Logger // of the parts written here
	StoreLog string       // level of the store's own log: panic, info or debug
}

// Run serves a cluster until ctx ends, which is no error.
func Run(ctx context.Context, config Config) (err error) {
	startedAt := time.Now().UTC()
	if err := bypassProxies(); err != nil {
		return err
	}
	open, closeDir := rundir.Open, (*rundir.Dir).Close
	if config.Ephemeral {
		open, closeDir = rundir.OpenEmpty, (*rundir.Dir).Remove
	}
	dir, err := open(config.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDir(dir)) }()
	// The store's sockets and data are found relative to the working folder.
	if err := os.Chdir(dir.Path()); err != nil {
		return fmt.Errorf("enter folder: %w", err)
	}
	keys, err := credentials.Load(dir.Root())
	if err != nil {
		return fmt.Errorf("load credentials: %w", err)
	}
	listener, err := dir.Listen(ctx)
	if err != nil {
		return err
	}
	c := &cluster{Config: config, dir: dir, keys: keys, listener: listener, startedAt: startedAt}
	return c.run(ctx)
}

// bypassProxies keeps names and addresses of the cluster from the proxies that the environment names.
func bypassProxies() error {
	list := []string{cmp.Or(os.Getenv("NO_PROXY"), os.Getenv("no_proxy")), ".svc", ".cluster.local", controlplane.ServiceRange}
	for _, made := range simnode.Ranges() {
		list = append(list, made.String())
	}
	return os.Setenv("NO_PROXY", strings.Trim(strings.Join(list, ","), ","))
}

// cluster is a run in progress.
type cluster struct {
	Config
	dir       *rundir.Dir
	keys      credentials.Set
	listener  net.Listener
	startedAt time.Time
}

func (c *cluster) server() string { return "https://" + c.listener.Addr().String() }

func (c *cluster) run(ctx context.Context) error {
	client, kubeconfig, err := c.connect()
	if err != nil {
		return errors.Join(err, c.listener.Close())
	}
	store, err := controlplane.OpenStore(ctx, c.StoreLog)
	if err != nil {
		return errors.Join(unlessStopped(ctx, err), c.listener.Close())
	}
	defer store.Close()

	// Every layer ends when it is told to, not when ctx does, so that none talks to a dead one.
	detached := context.WithoutCancel(ctx)
	server := start(detached,
		part{"store", store.Run},
		part{"kube-apiserver", controlplane.APIServer{
			Listener: c.listener, Credentials: c.keys, MadeUp: simnode.Ranges(), AuthenticationConfig: c.AuthenticationConfig,
		}.Run})
	defer server.stop(stopServer)

	if err := awaitServing(ctx, client, server.failed); err != nil {
		return unlessStopped(ctx, err)
	}
	kubelets, err := c.listenKubelets(ctx)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	kubelet := &simkubelet.Server{Client: client, TLS: kubelets.config, Log: c.Log}
	nodes := &simnode.Simulator{Client: client, Nodes: c.Nodes, Version: controlplane.Version(), Kubelet: kubelets.address(), Log: c.Log}
	clients := start(detached,
		part{"kube-controller-manager", func(ctx context.Context) error {
			// It gives up on an API server that is not healthy in ten seconds, and looks once a second.
			if err := poll(ctx, "kube-apiserver to be healthy", healthy(client)); err != nil {
				return unlessStopped(ctx, err)
			}
			return controlplane.Controllers{Kubeconfig: kubeconfig, Credentials: c.keys}.Run(ctx)
		}},
		part{"kube-scheduler", controlplane.Scheduler{Kubeconfig: kubeconfig}.Run},
		part{"simulated nodes", nodes.Run},
		part{"simulated kubelets", func(ctx context.Context) error { return kubelet.Run(ctx, kubelets) }},
		part{"simulated volumes", simvolume.Provisioner{Client: client, Log: c.Log}.Run},
		part{"readiness", func(ctx context.Context) error { return c.announce(ctx, client) }})
	defer clients.stop(stopClients)

	select {
	case <-ctx.Done():
		return nil
	case err := <-server.failed:
		return err
	case err := <-clients.failed:
		return err
	}
}

// unlessStopped hides an error that comes from being told to stop during the start.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// connect writes the kubeconfig and returns a client that uses it, with its path.
func (c *cluster) connect() (kubernetes.Interface, string, error) {
	content, err := c.keys.Kubeconfig(c.Name, c.server())
	if err != nil {
		return nil, "", err
	}
	if err := c.dir.WriteFile(rundir.KubeconfigFile, content); err != nil {
		return nil, "", err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1 // the API server's own limits suffice
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "localkube"))
	if err != nil {
		return nil, "", fmt.Errorf("create client: %w", err)
	}
	return client, filepath.Join(c.dir.Path(), rundir.KubeconfigFile), nil
}

// kubeletListener is where the kubelets of all nodes answer.
type kubeletListener struct {
	net.Listener
	config *tls.Config
}

func (l kubeletListener) address() netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

// listenKubelets opens a port that is another in each run; the nodes tell which.
func (c *cluster) listenKubelets(ctx context.Context) (kubeletListener, error) {
	config, err := c.keys.KubeletTLS()
	if err != nil {
		return kubeletListener{}, err
	}
	var open net.ListenConfig
	listener, err := open.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return kubeletListener{}, fmt.Errorf("open port of kubelets: %w", err)
	}
	return kubeletListener{listener, config}, nil
}

// announce writes the readiness file once the cluster can be used, then idles.
func (c *cluster) announce(ctx context.Context, client kubernetes.Interface) error {
	if err := awaitUsable(ctx, client, c.Nodes); err != nil {
		return err
	}
	ready := rundir.Ready{
		Server:    c.server(),
		PID:       os.Getpid(),
		Version:   controlplane.Version(),
		StartedAt: c.startedAt,
	}
	if err := c.dir.MarkReady(ready); err != nil {
		return err
	}
	settleMemory()
	c.Log.Info("cluster is ready", "server", ready.Server, "after", time.Since(c.startedAt))
	<-ctx.Done()
	return nil
}

// settleMemory gives back what only the start needed. From here on the collector trades
// a little of a mostly idle processor for memory, of which several clusters side by
// side need a lot; during the start it would cost seconds.
func settleMemory() {
	debug.SetGCPercent(50)
	debug.FreeOSMemory()
}
