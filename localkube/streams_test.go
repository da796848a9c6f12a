package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/pluralsh/plural/localkube/rundir"
	"github.com/pluralsh/plural/localkube/simcontainer"
	"github.com/pluralsh/plural/localkube/simkubelet"
)

// podOf is a running pod, with all that is needed to look into it.
type podOf struct {
	kubernetes.Interface
	config *rest.Config
}

// runPod starts a cluster with a pod named web that runs.
func runPod(t *testing.T) podOf {
	t.Helper()
	p := launch(t, t.TempDir(), "--nodes", "1")
	p.ready(t)
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dir, rundir.KubeconfigFile))
	if err != nil {
		t.Fatal(err)
	}
	client := p.client(t)
	_, err = client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{simkubelet.AnnotationLogLines: "9"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "web", Image: "web", Env: []corev1.EnvVar{{Name: "COLOUR", Value: "red"}}},
			{Name: "side", Image: "side"},
		}},
	}, metav1.CreateOptions{})
	requireCreated(t, err)
	eventually(t, workloadTimeout, func() error {
		pod, err := client.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("pod is %q", pod.Status.Phase)
		}
		return err
	})
	return podOf{client, config}
}

// url is that of a subresource of the pod, with options.
func (p podOf) url(subresource string, options any) *url.URL {
	request := p.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource(subresource)
	switch options := options.(type) {
	case *corev1.PodExecOptions:
		request = request.VersionedParams(options, scheme.ParameterCodec)
	case *corev1.PodAttachOptions:
		request = request.VersionedParams(options, scheme.ParameterCodec)
	}
	return request.URL()
}

// executors are the two ways in which clients open a stream to a container.
func (p podOf) executors(t *testing.T, at *url.URL) map[string]remotecommand.Executor {
	t.Helper()
	websocket, err := remotecommand.NewWebSocketExecutor(p.config, http.MethodGet, at.String())
	if err != nil {
		t.Fatal(err)
	}
	overSPDY, err := remotecommand.NewSPDYExecutor(p.config, http.MethodPost, at)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"websocket": websocket, "SPDY": overSPDY}
}

// sizes is a terminal that has one size.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

func TestStreamsOfSimulatedPods(t *testing.T) {
	pod := runPod(t)
	t.Run("logs", pod.checkLogs)
	t.Run("exec", pod.checkExec)
	t.Run("terminal", pod.checkTerminal)
	t.Run("attach", pod.checkAttach)
	t.Run("port-forward", pod.checkPortForward)
	t.Run("kubelet refuses strangers", pod.checkKubeletRefuses)
	t.Run("end with the pod", pod.checkEnd)
}

func (p podOf) checkLogs(t *testing.T) {
	logs := func(options corev1.PodLogOptions) string {
		content, err := p.CoreV1().Pods("default").GetLogs("web", &options).DoRaw(t.Context())
		if err != nil {
			return err.Error()
		}
		return string(content)
	}
	if got := logs(corev1.PodLogOptions{Container: "side"}); !strings.HasPrefix(got, simcontainer.Explanation+"\n") || strings.Count(got, "\n") != 10 {
		t.Errorf("log is %q", got)
	}
	if got := logs(corev1.PodLogOptions{Container: "web", TailLines: new(int64(1))}); got != "simulated line 9 of 9\n" {
		t.Errorf("last line is %q", got)
	}
	if got := logs(corev1.PodLogOptions{Container: "web", Previous: true}); !strings.Contains(got, "rejected our request") {
		t.Errorf("previous log is %q", got)
	}
	follow := &corev1.PodLogOptions{Container: "web", Follow: true, TailLines: new(int64(0))}
	stream, err := p.CoreV1().Pods("default").GetLogs("web", follow).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	line := make([]byte, 64)
	if n, err := stream.Read(line); err != nil || !bytes.HasPrefix(line[:n], []byte("simulated container: second ")) {
		t.Errorf("followed log says %q (%v)", line[:n], err)
	}
}

func (p podOf) checkExec(t *testing.T) {
	at := p.url("exec", &corev1.PodExecOptions{
		Container: "web", Command: []string{"sh", "-c", "cat; echo $COLOUR; echo complaint >&2; exit 3"}, Stdin: true, Stdout: true, Stderr: true,
	})
	for name, executor := range p.executors(t, at) {
		var out, stderr bytes.Buffer
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{
			Stdin: strings.NewReader("input\n"), Stdout: &out, Stderr: &stderr,
		})
		var exit utilexec.ExitError
		if !errors.As(err, &exit) || exit.ExitStatus() != 3 {
			t.Errorf("%s: ended with %v, want exit code 3", name, err)
		}
		if out.String() != "input\n$COLOUR\n" || stderr.String() != "complaint\n" {
			t.Errorf("%s: wrote %q and %q", name, &out, &stderr)
		}
	}
}

func (p podOf) checkTerminal(t *testing.T) {
	at := p.url("exec", &corev1.PodExecOptions{Container: "web", Command: []string{"sh"}, Stdin: true, Stdout: true, TTY: true})
	for name, executor := range p.executors(t, at) {
		resize := make(sizes, 1)
		resize <- remotecommand.TerminalSize{Width: 132, Height: 43}
		keys, typed := io.Pipe()
		screen := &watched{until: "43 132", seen: make(chan struct{})}
		go func() {
			// The size is on its way: what a person sees is what counts.
			for line := "size\r"; ; {
				if _, err := io.WriteString(typed, line); err != nil || line == "exit\r" {
					return
				}
				select {
				case <-screen.seen:
					line = "exit\r"
				case <-time.After(50 * time.Millisecond):
				}
			}
		}()
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{
			Stdin: keys, Stdout: screen, Tty: true, TerminalSizeQueue: resize,
		})
		keys.Close()
		close(resize)
		if err != nil || !strings.Contains(screen.text.String(), "$ size\r\n43 132\r\n$ ") {
			t.Errorf("%s: ended with %v, screen shows %q", name, err, screen.text.String())
		}
	}
}

// watched is an output that tells when it has some text. Its buffer is no embedded one, whose ReadFrom would pass Write by.
type watched struct {
	text  bytes.Buffer
	until string
	seen  chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	before := strings.Contains(w.text.String(), w.until)
	n, err := w.text.Write(p)
	if !before && strings.Contains(w.text.String(), w.until) {
		close(w.seen)
	}
	return n, err
}

func (p podOf) checkAttach(t *testing.T) {
	at := p.url("attach", &corev1.PodAttachOptions{Container: "web", Stdin: true, Stdout: true})
	for name, executor := range p.executors(t, at) {
		var out bytes.Buffer
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out})
		if err != nil || out.String() != "hello" {
			t.Errorf("%s: got %q and %v", name, &out, err)
		}
	}
}

func (p podOf) checkPortForward(t *testing.T) {
	at := p.url("portforward", nil)
	transport, upgrader, err := spdy.RoundTripperFor(p.config)
	if err != nil {
		t.Fatal(err)
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	tunneled, err := portforward.NewSPDYOverWebsocketDialer(at, p.config)
	if err != nil {
		t.Fatal(err)
	}
	for name, dialer := range map[string]interface {
		Dial(...string) (httpstream.Connection, string, error)
	}{"SPDY": overSPDY, "websocket": tunneled} {
		stop, ready := make(chan struct{}), make(chan struct{})
		ports := []string{"0:80", "0:" + strconv.Itoa(simcontainer.EchoPort)}
		forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, ports, stop, ready, io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- forwarder.ForwardPorts() }()
		select {
		case <-ready:
			checkForwarded(t, name, forwarder)
		case err := <-ended:
			t.Fatalf("%s: %v", name, err)
		}
		close(stop)
		if err := <-ended; err != nil {
			t.Errorf("%s: ended with %v", name, err)
		}
	}
}

func checkForwarded(t *testing.T, name string, forwarder *portforward.PortForwarder) {
	t.Helper()
	forwarded, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), workloadTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", forwarded[0].Local), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer response.Body.Close()
	if page, err := io.ReadAll(response.Body); err != nil || string(page) != simcontainer.Page {
		t.Errorf("%s: page is %q (%v)", name, page, err)
	}

	echo, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", forwarded[1].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	if _, err := io.WriteString(echo, "there and back"); err != nil {
		t.Fatal(err)
	}
	if err := echo.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(echo); err != nil || string(got) != "there and back" {
		t.Errorf("%s: echo is %q (%v)", name, got, err)
	}
}

func (p podOf) checkKubeletRefuses(t *testing.T) {
	node := simulatedNodes(t, p)[0]
	var at netip.AddrPort
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeExternalIP {
			at = netip.AddrPortFrom(netip.MustParseAddr(address.Address), uint16(node.Status.DaemonEndpoints.KubeletEndpoint.Port))
		}
	}
	if !at.Addr().IsLoopback() {
		t.Fatalf("kubelet answers at %s, which others can reach", at)
	}
	conn, err := tls.Dial("tcp", at.String(), &tls.Config{InsecureSkipVerify: true}) // what is tried here is who gets in
	if err == nil {
		defer conn.Close()
		_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n")
	}
	if err == nil {
		_, err = conn.Read(make([]byte, 1)) // in TLS 1.3 the refusal comes after the handshake
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
}

func (p podOf) checkEnd(t *testing.T) {
	at := p.url("exec", &corev1.PodExecOptions{Container: "web", Command: []string{"sh", "-c", "echo begun; sleep 600"}, Stdout: true})
	ended := make(chan error, 1)
	running := p.executors(t, at)["websocket"]
	screen := &watched{until: "begun", seen: make(chan struct{})}
	go func() {
		ended <- running.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: screen})
	}()
	select {
	case <-screen.seen:
	case err := <-ended:
		t.Fatalf("ended early: %v", err)
	}
	if err := p.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("command succeeded in a pod that is gone")
		}
	case <-time.After(workloadTimeout):
		t.Error("command goes on without its pod")
	}
	_, err := p.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err == nil {
		t.Error("pod that is gone has logs")
	}
}
