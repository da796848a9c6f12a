package simkubelet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	remotecommandconsts "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubelet/pkg/cri/streaming/portforward"
	remotecommandserver "k8s.io/kubelet/pkg/cri/streaming/remotecommand"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // how options are read from a query

	"github.com/pluralsh/plural/localkube/simcontainer"
)

// refuse answers a request whose target was not found.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	var gone missing
	if errors.As(err, &gone) {
		code = http.StatusNotFound
	}
	http.Error(w, err.Error(), code)
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	options := &corev1.PodLogOptions{}
	if err := legacyscheme.ParameterCodec.DecodeParameters(r.URL.Query(), corev1.SchemeGroupVersion, options); err != nil {
		http.Error(w, "decode query: "+err.Error(), http.StatusBadRequest)
		return
	}
	if !sensible(options) {
		http.Error(w, "sinceSeconds, tailLines and limitBytes are counts; sinceTime and sinceSeconds exclude each other",
			http.StatusUnprocessableEntity)
		return
	}
	found, err := s.find(r)
	if err != nil {
		refuse(w, err)
		return
	}
	if found.unstarted != nil {
		http.Error(w, found.unstarted.Error(), http.StatusBadRequest)
		return
	}
	output := &flushed{ResponseController: http.NewResponseController(w), to: w}
	ctx := r.Context()
	if options.Follow {
		var stop func()
		ctx, stop = s.lasting(ctx, found)
		defer stop()
	}
	if err := found.container.WriteLog(ctx, options, output); err != nil && !output.begun {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// sensible is what the API server asks of options; it has checked those that it forwards.
func sensible(o *corev1.PodLogOptions) bool {
	return (o.SinceSeconds == nil || *o.SinceSeconds >= 0 && *o.SinceSeconds < 1<<32 && o.SinceTime == nil) &&
		(o.TailLines == nil || *o.TailLines >= 0) && (o.LimitBytes == nil || *o.LimitBytes > 0)
}

// flushed is a response that is sent when it is told to, and knows whether it has begun.
type flushed struct {
	*http.ResponseController
	to    io.Writer
	begun bool
}

func (f *flushed) Write(p []byte) (int, error) {
	f.begun = true
	return f.to.Write(p)
}

// Flush sends what was written. A peer that is gone is found out by the next Write.
func (f *flushed) Flush() {
	if f.begun {
		_ = f.ResponseController.Flush()
	}
}

// runningTarget finds what a stream is opened to, or refuses.
func (s *Server) runningTarget(w http.ResponseWriter, r *http.Request) (target, bool) {
	found, err := s.find(r)
	if err == nil && found.container.Ended {
		err = missing{"container not found (\"" + found.container.Name + "\")"}
	}
	if err != nil {
		refuse(w, err)
		return target{}, false
	}
	return found, true
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	found, options, ok := s.remoteCommand(w, r)
	if !ok {
		return
	}
	ctx, stop := s.lasting(r.Context(), found)
	defer stop()
	remotecommandserver.ServeExec(w, r.WithContext(ctx), executor{found.container}, found.container.Pod, found.uid, found.container.Name,
		r.URL.Query()["command"], options, idleTimeout, streamTimeout, remotecommandconsts.SupportedStreamingProtocols)
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	found, options, ok := s.remoteCommand(w, r)
	if !ok {
		return
	}
	ctx, stop := s.lasting(r.Context(), found)
	defer stop()
	remotecommandserver.ServeAttach(w, r.WithContext(ctx), executor{found.container}, found.container.Pod, found.uid, found.container.Name,
		options, idleTimeout, streamTimeout, remotecommandconsts.SupportedStreamingProtocols)
}

func (s *Server) remoteCommand(w http.ResponseWriter, r *http.Request) (target, *remotecommandserver.Options, bool) {
	options, err := remotecommandserver.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return target{}, nil, false
	}
	found, ok := s.runningTarget(w, r)
	return found, options, ok
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found, ok := s.runningTarget(w, r)
	if !ok {
		return
	}
	portforward.ServePortForward(w, r, executor{found.container}, found.container.Pod, found.uid,
		options, idleTimeout, streamTimeout, portforward.SupportedProtocols)
}

// executor is a container in the words of the kubelet's library.
type executor struct{ container simcontainer.Container }

// ExecInContainer plays a command.
func (e executor) ExecInContainer(ctx context.Context, _ string, _ types.UID, _ string, command []string, in io.Reader, out, stderr io.WriteCloser,
	tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	return e.container.Exec(ctx, command, streams(in, out, stderr, tty, resize))
}

// AttachContainer plays the container's first process.
func (e executor) AttachContainer(ctx context.Context, _ string, _ types.UID, _ string, in io.Reader, out, stderr io.WriteCloser,
	tty bool, resize <-chan remotecommand.TerminalSize,
) error {
	return e.container.Attach(ctx, streams(in, out, stderr, tty, resize))
}

// PortForward plays one connection.
func (e executor) PortForward(ctx context.Context, _ string, _ types.UID, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	return e.container.Forward(ctx, port, stream)
}

func streams(in io.Reader, out, stderr io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) simcontainer.Streams {
	return simcontainer.Streams{Stdin: in, Stdout: out, Stderr: stderr, Terminal: tty, Resize: resize}
}
