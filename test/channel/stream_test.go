package channel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // deprecated, and what client-go takes
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
)

// executors are the ways in which clients open a stream to a container.
func (s side) executors(t testing.TB, target string) map[string]remotecommand.Executor {
	t.Helper()
	at, err := url.Parse(s.base + target)
	if err != nil {
		t.Fatal(err)
	}
	websocket, err := remotecommand.NewWebSocketExecutor(s.config, http.MethodGet, at.String())
	if err != nil {
		t.Fatal(err)
	}
	overSPDY, err := remotecommand.NewSPDYExecutor(s.config, http.MethodPost, at)
	if err != nil {
		t.Fatal(err)
	}
	fallback, err := remotecommand.NewFallbackExecutor(websocket, overSPDY, httpstream.IsUpgradeFailure)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"websocket": websocket, "SPDY": overSPDY, "either": fallback}
}

// told is what came of a command.
type told struct {
	Out, Err, End string
}

func run(t testing.TB, executor remotecommand.Executor, options remotecommand.StreamOptions) told {
	t.Helper()
	var out, stderr bytes.Buffer
	if options.Tty {
		options.Stdout = &out
	} else {
		options.Stdout, options.Stderr = &out, &stderr
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := executor.StreamWithContext(ctx, options)
	var exit utilexec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("exit code %d", exit.ExitStatus())
	}
	return told{out.String(), stderr.String(), fmt.Sprint(err)}
}

func execTarget(namespace string, command ...string) string {
	query := url.Values{"command": command, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}, "container": {"main"}}
	return "/api/v1/namespaces/" + namespace + "/pods/web/exec?" + query.Encode()
}

func TestExecIsTheSame(t *testing.T) {
	w := newWorld(t)
	w.pod(w.Namespace, "web", nil)
	for name, test := range map[string]struct {
		command []string
		input   string
	}{
		"output":           {command: []string{"echo", "hello", "wörld"}},
		"both outputs":     {command: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}},
		"input to its end": {command: []string{"cat"}, input: strings.Repeat("line of input\n", 50_000)},
		"no input":         {command: []string{"cat"}},
		// It waits for the end of its input: an API server that closes while its client still sends cuts off what it has not sent yet.
		"much output":       {command: []string{"sh", "-c", "cat; head -c 4000000 /dev/zero"}},
		"exit code":         {command: []string{"exit", "42"}},
		"no such program":   {command: []string{"none"}},
		"words of all kind": {command: []string{"echo", "a b", "", "&x=y", "é%2F", "+"}},
	} {
		t.Run(name, func(t *testing.T) {
			target := execTarget(w.Namespace, test.command...)
			want := w.direct.executors(t, target)
			for how, executor := range w.through.executors(t, target) {
				direct := run(t, want[how], remotecommand.StreamOptions{Stdin: strings.NewReader(test.input)})
				through := run(t, executor, remotecommand.StreamOptions{Stdin: strings.NewReader(test.input)})
				if direct != through {
					t.Errorf("by %s: %s", how, cmp.Diff(short(direct), short(through)))
				}
			}
		})
	}
}

// short is for reading: long outputs by their length and sum.
func short(t told) told {
	if len(t.Out) > 200 {
		t.Out = fmt.Sprintf("%d bytes, %x", len(t.Out), sha256.Sum256([]byte(t.Out)))
	}
	return t
}

func TestExecThatIsRefusedIsTheSame(t *testing.T) {
	w := newWorld(t)
	for _, target := range []string{
		"/api/v1/namespaces/" + w.Namespace + "/pods/none/exec?command=true&stdout=true",
		"/api/v1/namespaces/" + w.Namespace + "/pods/none/portforward",
		"/api/v1/nodes/none/proxy/exec",
	} {
		for how, header := range map[string][]string{
			"SPDY":      {"Connection", "Upgrade", "Upgrade", "SPDY/3.1", "X-Stream-Protocol-Version", "v4.channel.k8s.io"},
			"websocket": {"Connection", "Upgrade", "Upgrade", "websocket", "Sec-Websocket-Version", "13", "Sec-Websocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-Websocket-Protocol", "v5.channel.k8s.io"},
		} {
			r := get(target, header...)
			want, got := w.direct.do(t, w.direct.one, r), w.through.do(t, w.through.one, r)
			// The hub ends the connection behind such an answer: what follows could be meant for what was not opened.
			unframe(&want)
			unframe(&got)
			got.Header.Del("Connection")
			want.Header.Del("Connection")
			if want.Status == http.StatusSwitchingProtocols {
				t.Fatalf("%s by %s was let through", target, how)
			}
			report(t, r, want, got)
		}
	}
}

// sizes is a terminal that reports its size once.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

// What is typed comes back at once, and the size of the window arrives.
func TestTerminalsWork(t *testing.T) {
	w := newWorld(t)
	w.pod(w.Namespace, "web", nil)
	query := "?command=sh&stdin=true&stdout=true&tty=true&container=main"
	for _, s := range []side{w.direct, w.through} {
		for how, executor := range s.executors(t, "/api/v1/namespaces/"+w.Namespace+"/pods/web/exec"+query) {
			resize := make(sizes, 1)
			resize <- remotecommand.TerminalSize{Width: 132, Height: 43}
			keys, typed := io.Pipe()
			screen, shown := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: keys, Stdout: shown, Tty: true, TerminalSizeQueue: resize})
				shown.Close()
				ended <- err
			}()
			for _, step := range []struct{ typed, shown string }{{"", "$ "}, {"echo hi\r", "echo hi\r\nhi\r\n$ "}} {
				go io.WriteString(typed, step.typed)
				got := make([]byte, len(step.shown))
				if _, err := io.ReadFull(screen, got); err != nil || string(got) != step.shown {
					t.Fatalf("%s by %s: after %q the screen shows %q (%v)", s.name, how, step.typed, got, err)
				}
			}
			awaitSize(t, typed, screen)
			go io.WriteString(typed, "exit 5\r")
			go io.Copy(io.Discard, screen)
			var exit utilexec.ExitError
			if err := <-ended; !errors.As(err, &exit) || exit.ExitStatus() != 5 {
				t.Errorf("%s by %s: ended with %v", s.name, how, err)
			}
			close(resize)
			keys.Close()
		}
	}
}

// awaitSize asks for the size until it is known: it comes by a stream of its own.
func awaitSize(t *testing.T, typed io.Writer, screen io.Reader) {
	t.Helper()
	for {
		go io.WriteString(typed, "size\r")
		echo := make([]byte, len("size\r\n"))
		if _, err := io.ReadFull(screen, echo); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, len("43 132\r\n$ "))
		if _, err := io.ReadFull(screen, answer); err != nil {
			t.Fatal(err)
		}
		if string(answer) == "43 132\r\n$ " {
			return
		}
		rest := make([]byte, len("size: not known\r\n$ ")-len(answer))
		if _, err := io.ReadFull(screen, rest); err != nil || string(answer)+string(rest) != "size: not known\r\n$ " {
			t.Fatalf("the screen shows %q%q", answer, rest)
		}
	}
}

func TestAttachIsTheSame(t *testing.T) {
	w := newWorld(t)
	w.pod(w.Namespace, "web", nil)
	target := "/api/v1/namespaces/" + w.Namespace + "/pods/web/attach?stdin=true&stdout=true&stderr=true&container=main"
	want := w.direct.executors(t, target)
	for how, executor := range w.through.executors(t, target) {
		direct := run(t, want[how], remotecommand.StreamOptions{Stdin: strings.NewReader("there and back")})
		through := run(t, executor, remotecommand.StreamOptions{Stdin: strings.NewReader("there and back")})
		if diff := cmp.Diff(direct, through); diff != "" || through.Out != "there and back" {
			t.Errorf("by %s: %s\n%+v", how, diff, through)
		}
	}
}

// forwarders are the ways in which clients open a port.
func (s side) forwarders(t testing.TB, target string) map[string]httpstream.Dialer {
	t.Helper()
	at, err := url.Parse(s.base + target)
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(s.config)
	if err != nil {
		t.Fatal(err)
	}
	tunneled, err := portforward.NewSPDYOverWebsocketDialer(at, s.config)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]httpstream.Dialer{
		"SPDY":      spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at),
		"websocket": tunneled,
	}
}

// A forwarded port carries many connections at once, each of which may end its half first.
func TestPortForwardWorks(t *testing.T) {
	w := newWorld(t)
	w.pod(w.Namespace, "web", nil)
	payload := strings.Repeat("0123456789abcdef", 1<<16)
	for _, s := range []side{w.direct, w.through} {
		for how, dialer := range s.forwarders(t, "/api/v1/namespaces/"+w.Namespace+"/pods/web/portforward") {
			stop, ready := make(chan struct{}), make(chan struct{})
			forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:80", "0:7"}, stop, ready, io.Discard, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- forwarder.ForwardPorts() }()
			select {
			case <-ready:
			case err := <-ended:
				t.Fatalf("%s by %s: %v", s.name, how, err)
			}
			ports, err := forwarder.GetPorts()
			if err != nil {
				t.Fatal(err)
			}
			connections := make(chan error, 4)
			for range cap(connections) {
				go func() { connections <- echo(t.Context(), ports[1].Local, payload) }()
			}
			for range cap(connections) {
				if err := <-connections; err != nil {
					t.Errorf("%s by %s: %v", s.name, how, err)
				}
			}
			if err := page(t.Context(), ports[0].Local); err != nil {
				t.Errorf("%s by %s: %v", s.name, how, err)
			}
			close(stop)
			if err := <-ended; err != nil {
				t.Errorf("%s by %s: ended with %v", s.name, how, err)
			}
		}
	}
}

// echo sends a payload to the port that sends all back, and ends its half at once.
func echo(ctx context.Context, port uint16, payload string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer conn.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, payload)
		sent <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(conn)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if string(got) != payload {
		return fmt.Errorf("%d of %d bytes came back", len(got), len(payload))
	}
	return nil
}

func page(ctx context.Context, port uint16) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
	if err != nil {
		return err
	}
	response, err := new(http.Transport).RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(body), "simulated container") {
		err = fmt.Errorf("page is %q", body)
	}
	return err
}

func TestLogsAreTheSame(t *testing.T) {
	w := newWorld(t)
	w.pod(w.Namespace, "web", map[string]any{"plural.sh/simulated-log-lines": "20000"})
	log := "/api/v1/namespaces/" + w.Namespace + "/pods/web/log"
	for _, query := range []string{
		"", "?tailLines=3", "?timestamps=true&tailLines=2", "?limitBytes=17", "?limitBytes=17&follow=true", "?container=main&sinceSeconds=3600",
		"?previous=true", "?container=none", "?tailLines=-1", "?tailLines=x",
	} {
		w.same(t, get(log+query))
	}
	for _, s := range []side{w.direct, w.through} {
		response := s.open(t, s.client, get(log+"?follow=true&tailLines=1"))
		got := lines(t, response.Body, 2)
		response.Body.Close()
		if got[0] != "simulated line 20000 of 20000" || !strings.HasPrefix(got[1], "simulated container: second ") {
			t.Errorf("%s: %q", s.name, got)
		}
	}
}
