package simcontainer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/utils/exec"
)

func newContainer() Container {
	return Container{
		Pod: "web-0", Name: "web", Started: time.Now().Add(-time.Hour),
		Env: []corev1.EnvVar{{Name: "COLOUR", Value: "red"}}, Files: NewFiles("web-0"),
	}
}

// result is all that comes out of a command.
type result struct {
	Out, Err string
	Code     int
}

// exec plays a command to its end.
func exec(t testing.TB, c Container, input string, command ...string) result {
	t.Helper()
	var out, stderr bytes.Buffer
	err := c.Exec(t.Context(), command, Streams{Stdin: strings.NewReader(input), Stdout: &out, Stderr: &stderr})
	var exit utilexec.ExitError
	if errors.As(err, &exit) {
		return result{out.String(), stderr.String(), exit.ExitStatus()}
	}
	if err != nil {
		t.Fatal(err)
	}
	return result{Out: out.String(), Err: stderr.String()}
}

func TestCommandsDoWhatTheirNamesSay(t *testing.T) {
	for _, test := range []struct {
		line, input string
		want        result
	}{
		{line: `echo a  'b  c' "d e" f\ g`, want: result{Out: "a b  c d e f g\n"}},
		{line: `echo ''`, want: result{Out: "\n"}},
		{line: `cat`, input: "one\ntwo", want: result{Out: "one\ntwo"}},
		{line: `cat /etc/hostname -`, input: "in", want: result{Out: "web-0\nin"}},
		{line: `cat /nope`, want: result{Err: "cat: can't open '/nope': No such file or directory\n", Code: 1}},
		{line: `env`, want: result{Out: "HOSTNAME=web-0\nCOLOUR=red\n"}},
		{line: `true && echo yes || echo no`, want: result{Out: "yes\n"}},
		{line: `false && echo yes || echo no`, want: result{Out: "no\n"}},
		{line: `false; echo after`, want: result{Out: "after\n"}},
		{line: `echo err >&2; exit 3; echo never`, want: result{Err: "err\n", Code: 3}},
		{line: `exit`, want: result{}},
		{line: `echo kept >/tmp/a/b; cat /tmp/a/b; ls /tmp`, want: result{Out: "kept\na\n"}},
		{line: `echo 0123456789 | tail -c+4 | head -c 3`, want: result{Out: "345"}},
		{line: `head -c 3 /dev/zero`, want: result{Out: "\x00\x00\x00"}},
		{line: `cat /dev/zero`, want: result{Err: "cat: /dev/zero has no end\n", Code: 1}},
		{line: `test -d /tmp && test -f /etc/hostname && test -e /etc || echo missing`, want: result{}},
		{line: `test -d /etc/hostname`, want: result{Code: 1}},
		{line: `nope`, want: result{Err: "sh: nope: not found\n", Code: 127}},
		{line: `command -v sh; command -v bash`, want: result{Out: "/bin/sh\n", Code: 127}},
		{line: `command -v bash >/dev/null && exec bash || exec sh`, input: "echo in\nexit 7\necho never", want: result{Out: "in\n", Code: 7}},
		{line: `exec echo one; echo never`, want: result{Out: "one\n"}},
		{line: `exec nope; echo never`, want: result{Err: "sh: nope: not found\n", Code: 127}},
		{line: `echo 'a`, want: result{Err: "sh: syntax error: unterminated quoted string\n", Code: 2}},
		{line: `size`, want: result{Err: "size: not known\n", Code: 1}},
		{line: `sleep 0.01 && echo rested`, want: result{Out: "rested\n"}},
		{line: `sleep -1`, want: result{Err: "sleep: invalid number \"-1\"\n", Code: 1}},
		{line: ``, want: result{}},
	} {
		t.Run(test.line, func(t *testing.T) {
			if diff := cmp.Diff(test.want, exec(t, newContainer(), test.input, "sh", "-c", test.line)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestShellReadsLinesUntilItIsToldToExit(t *testing.T) {
	got := exec(t, newContainer(), "echo one\necho two\nexit 7\necho three\n", "/bin/sh")
	if diff := cmp.Diff(result{Out: "one\ntwo\n", Code: 7}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnknownProgramCannotBeStarted(t *testing.T) {
	err := newContainer().Exec(t.Context(), []string{"bash"}, Streams{})
	var exit utilexec.ExitError
	if err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), "not found in $PATH") {
		t.Errorf("got %v", err)
	}
}

func TestSleepEndsWithItsPod(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := newContainer().Exec(ctx, []string{"sleep", "3600"}, Streams{})
	var exit utilexec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != codeKilled {
		t.Errorf("got %v, want exit code %d", err, codeKilled)
	}
}

func TestTarMovesATreeFromOnePodToAnother(t *testing.T) {
	from, to := newContainer(), newContainer()
	exec(t, from, "", "sh", "-c", "echo a >/data/a; echo b >/data/deep/b; echo '' >/data/empty")
	packed := exec(t, from, "", "tar", "cf", "-", "/data")
	if packed.Code != 0 {
		t.Fatal(packed)
	}
	if got := exec(t, to, packed.Out, "tar", "--no-same-permissions", "--no-same-owner", "-xmf", "-", "-C", "/srv"); got != (result{}) {
		t.Fatal(got)
	}
	want := []string{"/srv/data", "/srv/data/a", "/srv/data/deep", "/srv/data/deep/b", "/srv/data/empty"}
	if diff := cmp.Diff(want, to.Files.below("/srv/data")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := exec(t, to, "", "cat", "/srv/data/deep/b").Out; got != "b\n" {
		t.Errorf("content is %q", got)
	}
}

func TestTarRefusesWhatItCannotDo(t *testing.T) {
	for _, args := range []string{"xf archive.tar", "cf archive.tar /etc", "-", "cf - /nope", "xf -", "cf - -C"} {
		got := exec(t, newContainer(), "no archive", append([]string{"tar"}, strings.Fields(args)...)...)
		if got.Code != 2 || !strings.HasPrefix(got.Err, "tar: ") {
			t.Errorf("tar %s: %+v", args, got)
		}
	}
}

func TestFilesAreBounded(t *testing.T) {
	files := NewFiles("web-0")
	half := make([]byte, maxFilesBytes/2)
	if err := files.put("/a", file{data: half}); err != nil {
		t.Fatal(err)
	}
	for range 3 { // replaced, not added
		if err := files.put("/b", file{data: half[1024:]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.put("/c", file{data: half}); !errors.Is(err, errNoSpace) {
		t.Errorf("one more half: %v", err)
	}
	if err := files.put("/a/b", file{data: []byte("x")}); !errors.Is(err, errOtherKind) {
		t.Errorf("file below a file: %v", err)
	}
	deep := strings.Repeat("d/", maxFiles) + "file"
	if err := files.put(deep, file{data: []byte("x")}); !errors.Is(err, errNoSpace) {
		t.Errorf("more folders than there may be: %v", err)
	}
	got := exec(t, newContainer(), "", "sh", "-c", "head -c 40000000 /dev/zero >/tmp/a")
	if got.Code != 0 && !strings.Contains(got.Err, "no space") {
		t.Errorf("redirection beyond the bound: %+v", got)
	}
}

func TestTerminalEchoesLinesAndKnowsItsSize(t *testing.T) {
	keys, typed := io.Pipe()
	sizes := make(chan remotecommand.TerminalSize)
	screen, shown := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- newContainer().Exec(t.Context(), []string{"sh"}, Streams{Stdin: keys, Stdout: shown, Terminal: true, Resize: sizes})
		shown.Close()
	}()
	sizes <- remotecommand.TerminalSize{Width: 80, Height: 24}
	sizes <- remotecommand.TerminalSize{Width: 132, Height: 43}
	// That the second was taken is seen by a third, which could not be sent otherwise.
	sizes <- remotecommand.TerminalSize{Width: 133, Height: 43}
	for _, step := range []struct{ typed, shown string }{
		{"ecx\x7fho hi\r", "$ ecx\b \bho hi\r\nhi\r\n"},
		{"cat\rab\x04\x04size\r", "$ cat\r\nabab$ size\r\n43 133\r\n"},
		{"exit 4\r", "$ exit 4\r\n"},
	} {
		go io.WriteString(typed, step.typed)
		got := make([]byte, len(step.shown))
		if _, err := io.ReadFull(screen, got); err != nil || string(got) != step.shown {
			t.Fatalf("after %q the screen shows %q (%v), want %q", step.typed, got, err, step.shown)
		}
	}
	var exit utilexec.ExitError
	if err := <-ended; !errors.As(err, &exit) || exit.ExitStatus() != 4 {
		t.Errorf("ended with %v", err)
	}
}

func TestInterruptEndsTheProgram(t *testing.T) {
	for _, command := range []string{"cat", "sh"} {
		var screen bytes.Buffer
		err := newContainer().Exec(t.Context(), []string{command}, Streams{Stdin: strings.NewReader("abc\x03more"), Stdout: &screen, Terminal: true})
		var exit utilexec.ExitError
		if !errors.As(err, &exit) || exit.ExitStatus() != codeInterrupted || !strings.HasSuffix(screen.String(), "abc^C\r\n") {
			t.Errorf("%s: ended with %v, screen shows %q", command, err, &screen)
		}
	}
}

func TestAttachedContainerRepeatsItsInput(t *testing.T) {
	var out bytes.Buffer
	if err := newContainer().Attach(t.Context(), Streams{Stdin: strings.NewReader("hello"), Stdout: &out}); err != nil || out.String() != "hello" {
		t.Errorf("got %q and %v", &out, err)
	}
}

// lines is an output that tells each line.
type lines struct {
	bytes.Buffer
	seen chan string
}

func (l *lines) Flush() {
	for {
		line, err := l.ReadString('\n')
		if line != "" {
			l.seen <- line
		}
		if err != nil {
			return
		}
	}
}

func TestFollowedLogGoesOnUntilItsReaderLeaves(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	output := &lines{seen: make(chan string)}
	ended := make(chan error, 1)
	go func() { ended <- newContainer().WriteLog(ctx, &corev1.PodLogOptions{Follow: true}, output) }()
	for _, want := range []string{Explanation, "simulated container: second 36", "simulated container: second 36"} {
		if got := <-output.seen; !strings.HasPrefix(got, want) {
			t.Errorf("got line %q, want %q", got, want)
		}
	}
	leave()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestLogOptionsChooseLines(t *testing.T) {
	c := newContainer()
	c.Lines = 3
	all := Explanation + "\nsimulated line 1 of 3\nsimulated line 2 of 3\nsimulated line 3 of 3\n"
	stamp := c.Started.UTC().Format(timestampFormat)
	for _, test := range []struct {
		name    string
		options corev1.PodLogOptions
		want    string
	}{
		{"all", corev1.PodLogOptions{}, all},
		{"the last", corev1.PodLogOptions{TailLines: new(int64(1))}, "simulated line 3 of 3\n"},
		{"none", corev1.PodLogOptions{TailLines: new(int64(0))}, ""},
		{"more than there are", corev1.PodLogOptions{TailLines: new(int64(1 << 60))}, all},
		{"with times", corev1.PodLogOptions{TailLines: new(int64(1)), Timestamps: true}, stamp + " simulated line 3 of 3\n"},
		{"some bytes", corev1.PodLogOptions{LimitBytes: new(int64(9))}, all[:9]},
		{"some bytes, followed", corev1.PodLogOptions{LimitBytes: new(int64(9)), Follow: true}, all[:9]},
		{"of the last minute", corev1.PodLogOptions{SinceSeconds: new(int64(60))}, ""},
		{"of the last day", corev1.PodLogOptions{SinceSeconds: new(int64(86400))}, all},
		{"since a time", corev1.PodLogOptions{SinceTime: &metav1.Time{Time: time.Now()}}, ""},
		{"errors alone", corev1.PodLogOptions{Stream: new(corev1.LogStreamStderr)}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			output := &lines{seen: make(chan string, 10)}
			if err := c.WriteLog(t.Context(), &test.options, output); err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			close(output.seen)
			for line := range output.seen {
				got.WriteString(line)
			}
			got.WriteString(output.String())
			if diff := cmp.Diff(test.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if err := c.WriteLog(t.Context(), &corev1.PodLogOptions{Previous: true}, &lines{}); err == nil {
		t.Error("there is a log of a container that never was")
	}
}

func TestPortsAnswer(t *testing.T) {
	for _, test := range []struct {
		port          int32
		request, want string
	}{
		{80, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /again HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", Page},
		{8080, "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200 OK"},
		{80, "POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab", "405 Method Not Allowed"},
		{80, "what?\r\n\r\n", "400 Bad Request"},
		{80, "", ""},
		{EchoPort, "anything", "anything"},
	} {
		near, far := net.Pipe()
		ended := make(chan error, 1)
		go func() {
			defer far.Close()
			ended <- newContainer().Forward(t.Context(), test.port, halfClosed{far, strings.NewReader(test.request)})
		}()
		got, err := io.ReadAll(near)
		if err != nil || !strings.Contains(string(got), test.want) {
			t.Errorf("port %d answers %q to %q (%v)", test.port, got, test.request, err)
		}
		if err := <-ended; err != nil {
			t.Errorf("port %d after %q: %v", test.port, test.request, err)
		}
		if strings.Count(test.request, "GET") != strings.Count(string(got), http.StatusText(http.StatusOK)) && strings.Contains(test.request, "GET") {
			t.Errorf("not one answer to each request: %q", got)
		}
	}
	if err := newContainer().Forward(t.Context(), ClosedPort, nil); err == nil {
		t.Error("port that nobody listens at answers")
	}
}

// halfClosed is a connection whose other side has said all it had to say.
type halfClosed struct {
	io.Writer
	io.Reader
}

// Whatever a client sends, a session ends and nothing but its pod's files changes.
func FuzzExec(f *testing.F) {
	for _, seed := range []string{
		"echo a | cat && sh -c 'exit 3' || tar cf - /etc >/tmp/t; tar xmf - -C / >&2", "sh\ncat\x04\x04\x03", "head -c 99 /dev/zero >", "'\"\\", "ls ; ; | &&",
	} {
		f.Add(seed, seed, true)
		f.Add(seed, seed, false)
	}
	f.Fuzz(func(t *testing.T, line, input string, terminal bool) {
		if strings.Contains(line, "sleep") || strings.Contains(input, "sleep") || strings.Contains(line, "head") || strings.Contains(input, "head") {
			return // it takes as long as it says
		}
		c := newContainer()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // a line may have thousands of commands
		defer cancel()
		_ = c.Exec(ctx, []string{"sh", "-c", line}, Streams{Stdin: strings.NewReader(input), Stdout: io.Discard, Terminal: terminal})
		_ = c.Exec(ctx, []string{"sh"}, Streams{Stdin: strings.NewReader(input), Stdout: io.Discard, Terminal: terminal})
		_ = c.Exec(ctx, append([]string{"tar"}, strings.Fields(line)...), Streams{Stdin: strings.NewReader(input), Stdout: io.Discard})
		_ = c.Forward(t.Context(), 80, halfClosed{io.Discard, strings.NewReader(input)})
		if c.Files.bytes > maxFilesBytes {
			t.Errorf("files have %d bytes", c.Files.bytes)
		}
	})
}
