package packages

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pluralsh/plural/test/support/faultproxy"
)

// lines counts what the journal of the operator's machine holds.
func (o *operator) lines() int {
	n := 0
	_ = filepath.WalkDir(filepath.Join(o.home, ".state", "plural", "deploy"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(d.Name(), "journal") {
			return nil //nolint:nilerr // what goes away while it is looked at counts nothing
		}
		text, _ := os.ReadFile(path)
		n += bytes.Count(text, []byte("\n"))
		return nil
	})
	return n
}

// moment is when a deploy is killed.
type moment struct {
	name string
	// arm readies the moment before the deploy starts, and returns what says that it has come.
	arm func(w *world) (come func() bool)
	// after lets go what the moment held up.
	after func(w *world)
}

// held is a program's wait, until a file goes away: it makes the file come first.
func held(file string) string {
	return fmt.Sprintf("touch %s.come; while [ -e %s ]; do sleep 0.05; done", file, file)
}

func (o *operator) exists(name string) bool { _, err := os.Stat(name); return err == nil }

// atLine kills when the journal has that many lines.
func atLine(n int) moment {
	return moment{name: fmt.Sprintf("journal line %d", n), arm: func(w *world) func() bool { return func() bool { return w.lines() >= n } }}
}

// inRequest kills while the cluster holds up the first request that fits.
func inRequest(name, method, path string, done bool) moment {
	var come chan struct{}
	return moment{name: name, arm: func(w *world) func() bool {
		come = make(chan struct{})
		proxy, err := faultproxy.New(w.Context(), w.cluster.RESTConfig)
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { _ = proxy.Close() })
		proxy.Add(faultproxy.Rule{
			Method: method, Path: regexp.MustCompile(path), Times: 1,
			Fault: func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
				if done {
					next.ServeHTTP(&discard{header: http.Header{}}, r)
				}
				close(come)
				<-r.Context().Done()
			},
		})
		w.kubeconfig = filepath.Join(w.home, "through.kubeconfig")
		config := clientcmdapi.NewConfig()
		config.Clusters["c"] = &clientcmdapi.Cluster{Server: proxy.Config().Host, CertificateAuthorityData: proxy.Config().CAData}
		config.AuthInfos["u"] = &clientcmdapi.AuthInfo{}
		config.Contexts["kubetest"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
		config.CurrentContext = "kubetest"
		if err := clientcmd.WriteToFile(*config, w.kubeconfig); err != nil {
			w.Fatal(err)
		}
		return func() bool {
			select {
			case <-come:
				return true
			default:
				return false
			}
		}
	}, after: func(w *world) { w.kubeconfig = w.cluster.Kubeconfig }}
}

// discard swallows an answer.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// inHook kills while the origin's hook holds up the nth push that fits.
func inHook(name, hook, refs string, nth int) moment {
	var file string
	return moment{name: name, arm: func(w *world) func() bool {
		file = filepath.Join(w.home, "hold")
		w.hook(hook, fmt.Sprintf(`#!/bin/sh
case "$(cat)" in *%s*) ;; *) exit 0;; esac
echo x >> %s.count
[ $(wc -l < %s.count) = %d ] || exit 0
%s
`, refs, file, file, nth, held(file)))
		w.touch(file)
		return func() bool { return w.exists(file + ".come") }
	}, after: func(w *world) {
		_ = os.Remove(file)
		_ = os.Remove(filepath.Join(w.origin, "hooks", hook))
	}}
}

func (w *world) touch(name string) {
	w.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		w.Fatal(err)
	}
}

func (w *world) hook(name, script string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.origin, "hooks", name), []byte(script), 0o700); err != nil {
		w.Fatal(err)
	}
}

// inTerraform kills while the module's provisioner is at work.
func inTerraform() moment {
	var file string
	return moment{name: "in the middle of terraform", arm: func(w *world) func() bool {
		file = filepath.Join(w.home, "hold")
		w.touch(file)
		w.edit("packages/net/payload/module/main.tf", func(s string) string {
			return strings.Replace(s, `'${var.trace}'" }`, `'${var.trace}'; `+held(file)+`" }`, 1)
		})
		w.commit("Hold terraform up")
		return func() bool { return w.exists(file + ".come") }
	}, after: func(*world) { _ = os.Remove(file) }}
}

// moments are every boundary of every step, and the middles of all that a step does outside of this process. A deploy of the
// diamond writes two lines for each of its five steps.
func moments() []moment {
	all := []moment{
		inTerraform(),
		inRequest("before an object is applied", http.MethodPatch, `/configmaps/(left|right)\?`, false),
		inRequest("when an object was applied and nobody heard", http.MethodPatch, `/configmaps/(left|right)\?`, true),
		inRequest("before an inventory is written", http.MethodPost, `/configmaps(\?|$)`, true),
		inHook("in the middle of taking the lock", "pre-receive", "refs/plural/deployments", 1),
		inHook("when the lock was taken", "post-receive", "refs/plural/deployments", 1),
		inHook("in the middle of writing the record", "pre-receive", "refs/plural/deployments", 2),
		inHook("when the record was written", "post-receive", "refs/plural/deployments", 2),
		inHook("in the middle of pushing outputs", "pre-receive", "refs/heads/main", 1),
		inHook("when outputs were pushed", "post-receive", "refs/heads/main", 1),
	}
	for line := 1; line <= 10; line++ {
		all = append(all, atLine(line))
	}
	return all
}

func TestADeployThatIsKilledAtAnyMomentGoesOnWhenItIsRunAgain(t *testing.T) {
	for _, m := range moments() {
		t.Run(m.name, func(t *testing.T) {
			w := newWorld(t)
			trace := w.diamond()
			come := m.arm(w)
			w.kill(come)
			if m.after != nil {
				m.after(w)
			}
			w.deploy()
			w.check("10.0.0.0/8")
			// A resource whose provisioner was at work is made anew, as terraform has it; nothing else is made twice.
			if got := w.traced(trace); len(got) > 1 && m.name != inTerraform().name || len(got) > 2 {
				t.Errorf("terraform made %v", got)
			}
			if got := done(w.deploy()); len(got) != 0 {
				t.Errorf("a third deploy does %v", got)
			}
			if status := w.run("git", "status", "--porcelain"); status != "" {
				t.Errorf("the work tree is not clean:\n%s", status)
			}
			if local, remote := w.run("git", "rev-parse", "HEAD"), w.run("git", "ls-remote", "origin", "refs/heads/main"); !strings.HasPrefix(remote, strings.TrimSpace(local)) {
				t.Errorf("%s is not what the origin has: %s", local, remote)
			}
		})
	}
}

// kill starts a deploy, and kills it at a moment. One that ends before has passed the moment by.
func (w *world) kill(come func() bool) {
	w.Helper()
	cmd := w.command(context.WithoutCancel(w.Context()), program(w, "plural"), append([]string{"deploy", "--yes"}, w.reach()...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // a hook of the origin, which is held up, has its output
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !come() {
		select {
		case err := <-ended:
			w.Fatalf("it ended before: %v\n%s", err, said.String())
		case <-w.Context().Done():
			w.Fatal("the moment does not come")
		case <-ticker.C:
		}
	}
	_ = cmd.Process.Kill()
	<-ended
}

// heard is what a program says, for somebody who waits for a word.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// until waits for a condition, longer than any machine takes.
func until(t *testing.T, what string, yes func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(5 * time.Minute)
	for !yes() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		case <-ticker.C:
		}
	}
}

func TestTheFirstInterruptFinishesTheStepAndTheSecondStopsIt(t *testing.T) {
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprintf("twice=%v", twice), func(t *testing.T) {
			w := newWorld(t)
			trace := w.diamond()
			m := inTerraform()
			come := m.arm(w)
			cmd := w.command(context.WithoutCancel(t.Context()), program(t, "plural"),
				append([]string{"deploy", "--yes"}, w.reach()...)...)
			said := &heard{}
			cmd.Stdout, cmd.Stderr = said, said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			until(t, "terraform is at work", come)
			_ = cmd.Process.Signal(os.Interrupt)
			until(t, "the interrupt is heard", func() bool { return strings.Contains(said.String(), "Ctrl-C again to abort now") })
			if twice {
				_ = cmd.Process.Signal(os.Interrupt)
			} else {
				m.after(w)
			}
			if twice {
				until(t, "terraform is told", func() bool { return strings.Contains(said.String(), "nterrupt") })
				m.after(w) // terraform lets a provisioner come to its end
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 130 {
				t.Errorf("exit code %d\n%s", code, said.String())
			}
			steps := done(w.deploy())
			if finished := !slices.Contains(steps, "run net/network"); finished == twice {
				t.Errorf("after the interrupt these were left to do: %v", steps)
			}
			if got := w.traced(trace); len(got) > 2 || len(got) > 1 && !twice {
				t.Errorf("terraform made %v", got)
			}
			w.check("10.0.0.0/8")
		})
	}
}
