// Package podrun owns a kubelet that runs containers as processes of this machine.
//
// It refuses to know what the programs are: a Program says which images stand for which command, and a container of any other
// image counts as running without anything being run. Only containers of images that it is given are isolated, by an OCI runtime. It
// is for tests alone.
//
// Start takes the place of the cluster's simulated nodes: they take no new pods, one node of its own does. From there on it
// plays the kubelet: for each pod it makes the folders that the pod mounts, starts the commands with the pod's arguments and
// environment, asks the pod's probes, starts again what ended, and writes down in the pod's status what came of it. What is
// mounted is as it was when the pod started.
//
// Every port of a container is a port of 127.0.0.1 here, the same over restarts. Arguments that name one (":8080",
// "--listen=:8080") get the port that it has here, and so do those that name a Service or a pod as HOST:PORT. URLs stay as they
// are: programs ask for them by a proxy that knows the cluster's names, which HTTP_PROXY tells them of. Paths below what a
// container mounts become those of the folders.
package podrun

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// look is how often the cluster's pods are read.
const look = 100 * time.Millisecond

// Program is what stands for the images of a repository.
type Program struct {
	// Image is an image without its tag and digest. With a tag, or a digest, it stands for that one alone and goes before.
	Image string
	// Command takes the place of the image's entry point. Empty, without a Layout: the image cannot be pulled.
	Command []string
	// Layout is a folder with the image itself, as OCI lays one out. Its containers are such, which an OCI runtime isolates but for
	// the network: with the image's files, the pod's volumes where it mounts them, and its user and rights. It wants root and runc.
	Layout string
	// Args are put behind the pod's. "$(KUBECONFIG)" in them is a file with the rights of the pod's service account, for programs
	// that would look for those where only a container has them. Standard input ends with the test.
	Args []string
	// Env is added to the environment of the pod: NAME=VALUE.
	Env []string
}

// Options say what is run, and where.
type Options struct {
	Kube     *rest.Config
	Programs []Program
	// Dir holds the volumes and the logs of pods. Empty means a folder that goes with the test.
	Dir string
}

// Node runs pods until its test ends. It is safe for concurrent use.
type Node struct {
	Options
	name  string
	kube  dynamic.Interface
	names *names
	log   func(format string, args ...any)

	mu   sync.Mutex // guards what follows
	pods map[types.UID]*pod
}

// Start makes a node of the cluster, on which all new pods run. The test's end stops it with all that it runs.
func Start(t testing.TB, o Options) *Node {
	t.Helper()
	config := rest.CopyConfig(o.Kube)
	config.QPS = -1
	kube, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatalf("connect to cluster: %v", err)
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	n := &Node{Options: o, kube: kube, log: t.Logf, pods: map[types.UID]*pod{}}
	n.names = newNames(n)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	stop, err := n.register(ctx)
	if err == nil {
		err = n.names.serve(ctx)
	}
	if err != nil {
		cancel()
		t.Fatalf("start a node: %v", err)
	}
	var working sync.WaitGroup
	working.Go(func() { n.beat(ctx) })
	working.Go(func() { n.follow(ctx) })
	t.Cleanup(func() {
		cancel()
		working.Wait()
		n.names.close()
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer done()
		if err := stop(ending); err != nil {
			t.Errorf("stop node %s: %v", n.name, err)
		}
		if t.Failed() {
			n.tell(t)
		}
	})
	return n
}

// Address is HOST:PORT of a container's port, also before the pod is there.
func (n *Node) Address(namespace, pod string, port int) string {
	return n.names.pod(namespace, pod, port)
}

// ServiceAddress is HOST:PORT at which a Service's port is reached, also before it is there. Connections go to a pod that is
// ready, and are closed while there is none.
func (n *Node) ServiceAddress(namespace, service string, port int) string {
	return n.names.service(namespace, service, port)
}

// Proxy is the URL of an HTTP proxy that knows the cluster's names.
func (n *Node) Proxy() string { return n.names.proxy() }

// Log is what the containers of a pod have said so far. Those of pods that are gone stay.
func (n *Node) Log(namespace, pod string) string {
	files, _ := filepath.Glob(filepath.Join(n.Dir, "logs", namespace+"_"+pod+"_*.log")) // the pattern is a good one
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			text = []byte(err.Error())
		}
		all = append(all, text...)
	}
	return string(all)
}

// Kill ends the processes of a pod as a crash would. They are started again.
func (n *Node) Kill(namespace, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.namespace == namespace && p.name == name {
			p.kill()
		}
	}
}

// program is what stands for an image; false when nothing does.
func (n *Node) program(image string) (Program, bool) {
	for _, known := range []string{image, repository(image)} {
		for _, p := range n.Programs {
			if p.Image == known {
				return p, true
			}
		}
	}
	return Program{}, false
}

// tell shows the logs of a test that failed.
func (n *Node) tell(t testing.TB) {
	files, _ := filepath.Glob(filepath.Join(n.Dir, "logs", "*.log")) // the pattern is a good one
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Log(err)
			continue
		}
		const most = 6 << 10
		t.Logf("%s:\n%s", filepath.Base(file), text[max(0, len(text)-most):])
	}
}

// follow plays the kubelet until ctx ends.
func (n *Node) follow(ctx context.Context) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		if err := n.settle(ctx); err != nil && ctx.Err() == nil {
			n.log("podrun: %v", err)
		}
		select {
		case <-ctx.Done():
			n.stopAll()
			return
		case <-ticker.C:
		}
	}
}

// settle has a pod run for each that is bound to the node, and none besides.
func (n *Node) settle(ctx context.Context) error {
	here := metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.name, ResourceVersion: "0"}
	list, err := n.kube.Resource(resourceOf("", "pods")).List(ctx, here)
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	bound := make(map[types.UID]bool, len(list.Items))
	for i := range list.Items {
		var object corev1.Pod
		if err := convert(&list.Items[i], &object); err != nil {
			return err
		}
		bound[object.UID] = true
		n.mu.Lock()
		running := n.pods[object.UID]
		n.mu.Unlock()
		switch {
		case running != nil && object.DeletionTimestamp != nil:
			running.end(&object)
		case running != nil:
		case object.DeletionTimestamp != nil:
			n.forget(ctx, &object)
		case object.Status.Phase != corev1.PodSucceeded && object.Status.Phase != corev1.PodFailed:
			n.begin(ctx, &object)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for uid, p := range n.pods {
		select {
		case <-p.over:
			delete(n.pods, uid)
		default:
			if !bound[uid] {
				p.cancel()
			}
		}
	}
	return nil
}

func (n *Node) begin(ctx context.Context, object *corev1.Pod) {
	running, cancel := context.WithCancel(ctx)
	p := &pod{
		Node: n, object: object, namespace: object.Namespace, name: object.Name, cancel: cancel, over: make(chan struct{}),
		dir: filepath.Join(n.Dir, "pods", string(object.UID)), states: map[string]*state{},
	}
	n.mu.Lock()
	n.pods[object.UID] = p
	n.mu.Unlock()
	go func() { // awaited by stopAll
		defer close(p.over)
		p.run(running)
	}()
}

func (n *Node) stopAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		p.cancel()
	}
	for _, p := range n.pods {
		<-p.over
	}
}
