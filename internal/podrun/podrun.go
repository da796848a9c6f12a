// Package podrun owns the pods of a test's cluster whose containers run as processes of this machine.
//
// It refuses to know what the programs are: a Program says which images stand for which command, and a pod of any other image
// counts as running without anything being run. It isolates nothing, and is for tests alone.
//
// Start takes the place of the cluster's simulated nodes: they take no pods any more, one node of its own does. From there on it
// plays the kubelet: for each pod it makes the folders that the pod mounts, starts the command with the pod's arguments and
// environment, asks the pod's probes, starts again what ended, and writes down in the pod's status what came of it.
//
// Every port of a container is a port of 127.0.0.1 here. Arguments that name it (":8080", "--listen=:8080") get the port that
// it has; those that name a Service or a pod as HOST:PORT get its port here. URLs stay as they are: programs ask for them by a
// proxy that knows the cluster's names, which they are told of in HTTP_PROXY.
package podrun

import (
	"context"
	"errors"
	"testing"

	"k8s.io/client-go/rest"
)

var errUnfinished = errors.New("unfinished")

// Program is what stands for the images of a repository.
type Program struct {
	// Image is an image without tag and digest, or with a tag where one tag is another program.
	Image string
	// Command is put before the container's arguments. Empty: the image cannot be pulled.
	Command []string
	// Env is added to the environment of the pod.
	Env []string
}

// Options say what is run.
type Options struct {
	Kube     *rest.Config
	Programs []Program
	// Dir holds the volumes and logs of pods. Empty means a folder of the test's own.
	Dir string
}

// Node runs pods until it is closed.
type Node struct{}

// Start makes a node of the cluster. The test's end stops it, and all that it runs.
func Start(t testing.TB, o Options) *Node { t.Helper(); t.Fatal(errUnfinished); return nil }

// Address is HOST:PORT where a port of a pod or Service is reached: "pod/NAME" or "service/NAME".
func (n *Node) Address(ctx context.Context, namespace, name string, port int) (string, error) {
	return "", errUnfinished
}

// Proxy is the URL of an HTTP proxy that knows the cluster's names.
func (n *Node) Proxy() string { return "" }

// Log is what the containers of a pod have said, the pod's name being NAMESPACE/NAME; pods that are gone have theirs too.
func (n *Node) Log(pod string) string { return "" }
