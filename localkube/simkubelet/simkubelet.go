// Package simkubelet owns the requests that an API server makes of the kubelets of simulated nodes.
//
// It refuses to know how nodes come to be, and what a container says: it finds the pod that is meant, speaks the protocols
// of logs, exec, attach and port-forward as a kubelet does, with the kubelet's own library, and leaves the rest
// to package simcontainer.
//
// Data passes through like this: the API server connects with the one client certificate that is accepted; the pod is read
// from that same API server; the streams of the request are handed to a simulated container, until it, the
// client or the pod ends.
package simkubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pluralsh/plural/localkube/simcontainer"
)

// AnnotationLogLines of a pod says how many lines its logs have, besides the first.
const AnnotationLogLines = "plural.sh/simulated-log-lines"

// How long a client may take for the head of a request, and for the streams that it announced.
const (
	headTimeout   = 10 * time.Second
	streamTimeout = 30 * time.Second
	idleTimeout   = 4 * time.Hour // of a kubelet
)

// lookInterval is how often a stream that lasts looks whether its pod does.
const lookInterval = time.Second

// Server answers for all nodes of a cluster. The zero value is not usable.
type Server struct {
	Client kubernetes.Interface
	TLS    *tls.Config // who it is, and whom it accepts
	Log    *slog.Logger

	files podFiles
}

// Run serves on the listener, and closes it, until ctx ends. Streams that are open then are cut.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s.routes(),
		TLSConfig:         s.TLS,
		ReadHeaderTimeout: headTimeout,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() }) // what it says of streams that are cut is no news
	defer stopped()
	if err := server.ServeTLS(lingering{listener}, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve kubelets: %w", err)
	}
	return nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.logs)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", s.exec)
		mux.HandleFunc(method+" /attach/{namespace}/{pod}/{container}", s.attach)
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", s.portForward)
	}
	return mux
}

// missing is what was asked for and is not there.
type missing struct{ what string }

func (m missing) Error() string { return m.what }

// target is what a request is about.
type target struct {
	namespace string
	uid       types.UID
	container simcontainer.Container
	// unstarted is why the container has no log yet; nil where it has one.
	unstarted error
}

// find reads the pod of a request, with the container that it names, if it names one.
func (s *Server) find(r *http.Request) (target, error) {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	pod, err := s.pod(r.Context(), namespace, name)
	if err != nil {
		return target{}, err
	}
	found := target{namespace: namespace, uid: pod.UID, container: simcontainer.Container{
		Pod: name, Started: started(pod), Ended: ended(pod), Lines: logLines(pod), Files: s.files.of(pod),
	}}
	container := r.PathValue("container")
	if container == "" {
		return found, nil
	}
	for _, c := range containers(pod) {
		if c.Name == container {
			found.container.Name, found.container.Env, found.unstarted = c.Name, c.Env, unstarted(pod, c.Name)
			return found, nil
		}
	}
	return target{}, missing{fmt.Sprintf("container %q not found in pod %q", container, name)}
}

// lasting returns a context that ends with the pod, or when stop is called.
func (s *Server) lasting(ctx context.Context, of target) (lasts context.Context, stop func()) {
	lasts, cancel := context.WithCancel(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		defer cancel()
		look := time.NewTicker(lookInterval)
		defer look.Stop()
		for {
			select {
			case <-lasts.Done():
				return
			case <-look.C:
				if !s.runs(lasts, of) {
					return
				}
			}
		}
	}()
	return lasts, func() {
		cancel()
		<-looked
	}
}

// runs tells whether the pod is still the one that was found and has not completed. When that cannot be told, it runs.
func (s *Server) runs(ctx context.Context, of target) bool {
	pod, err := s.pod(ctx, of.namespace, of.container.Pod)
	var gone missing
	if errors.As(err, &gone) {
		return false
	}
	return err != nil || pod.UID == of.uid && !ended(pod)
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
