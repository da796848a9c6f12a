package charts

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/test/support/podrun"
	"github.com/pluralsh/plural/tools/release/images"
)

// layouts are the images of hub and agent: those that PLURAL_IMAGES names, as make images writes them, or of the built programs.
func layouts(t *testing.T) string {
	t.Helper()
	if named := os.Getenv("PLURAL_IMAGES"); named != "" {
		return named
	}
	bin, dir := binaries(t), t.TempDir()
	for _, name := range []string{"plural", "plural-agent"} {
		layout := filepath.Join(dir, name)
		if err := os.Mkdir(layout, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := images.Pack(t.Context(), layout, &images.Image{
			Name: "ghcr.io/pluralsh/" + name + ":test", Created: time.Unix(0, 0),
			Programs: []images.Program{{OS: runtime.GOOS, Arch: runtime.GOARCH, File: filepath.Join(bin, name)}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// gitOverHTTP serves the repository that the hub, in its container, has no file of.
func gitOverHTTP(t *testing.T, origin string) string {
	t.Helper()
	server := httptest.NewServer(&cgi.Handler{
		Path: needs.Program(t, "git", "git"), Args: []string{"http-backend"}, Stderr: io.Discard,
		Env: []string{
			"GIT_PROJECT_ROOT=" + filepath.Dir(origin), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"HOME=" + filepath.Dir(origin),
		},
	})
	t.Cleanup(server.Close)
	return server.URL + "/" + filepath.Base(origin)
}

func TestTheImagesRunAsTheirChartsSay(t *testing.T) {
	needs.Root(t, "starting containers")
	needs.Program(t, "runc", "runc")
	dir := layouts(t)
	hub, agent := filepath.Join(dir, "plural"), filepath.Join(dir, "plural-agent")
	f := installed(t, values{}, agentValues("0.1.0"), gitOverHTTP, []podrun.Program{
		// Their standard input ends with the test, however that comes about.
		{Image: hubImage, Layout: hub, Args: []string{"--with-parent"}},
		{Image: agentImage, Layout: agent, Args: []string{"--with-parent"}},
	})
	f.eventually("the agent takes itself in, and is well", func() bool { return f.seen("agent").well() })
	for name, program := range map[string]string{"plural-hub": "plural", "plural-agent": "plural-agent"} {
		pods := f.pods(name)
		if len(pods) != 1 {
			t.Fatalf("%d pods of %s", len(pods), name)
		}
		f.isContainer(&pods[0], program)
	}

	f.write("services/more.yaml", []byte(strings.ReplaceAll(more, "NAMESPACE", f.Namespace)))
	f.write("apps/more/config.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n"))
	f.push()
	f.eventually("a commit is applied", func() bool {
		_, err := f.resource("v1", "ConfigMap", f.Namespace).Get(t.Context(), "more", metav1.GetOptions{})
		return err == nil && f.seen("more").well()
	})
}

// isContainer asks the machine about the process of a pod: what it sees, who it is, and what it may.
func (f *fleet) isContainer(pod *corev1.Pod, program string) {
	f.Helper()
	if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
		f.Errorf("%s was started again %d times", pod.Name, restarts)
	}
	pid, ok := f.node.PID(identity.Namespace, pod.Name, pod.Spec.Containers[0].Name)
	if !ok {
		f.Fatalf("%s has no process", pod.Name)
	}
	root := fmt.Sprintf("/proc/%d/root", pid)
	for _, missing := range []string{"/bin", "/lib", "/root", "/var/lib/dpkg"} {
		if _, err := os.Stat(root + missing); err == nil {
			f.Errorf("%s sees %s: its root is not the image's", pod.Name, missing)
		}
	}
	if own, packed := sum(f.T, fmt.Sprintf("/proc/%d/exe", pid)), sum(f.T, root+"/usr/local/bin/"+program); own != packed {
		f.Errorf("%s runs another program than the image's", pod.Name)
	} else if built := sum(f.T, filepath.Join(f.bin, program)); os.Getenv("PLURAL_IMAGES") == "" && own != built {
		f.Errorf("%s: the image's program has the sum %s, and the built one %s", pod.Name, own, built)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		f.Fatal(err)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		said[name] = strings.Join(strings.Fields(value), " ")
	}
	for name, want := range map[string]string{
		"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532",
		"CapEff": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1",
	} {
		if said[name] != want {
			f.Errorf("%s: %s is %q, want %q", pod.Name, name, said[name], want)
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		f.Fatal(err)
	}
	readOnly := map[string]bool{} // by where, of what counts there
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		readOnly[fields[4]] = strings.HasPrefix(fields[5], "ro")
	}
	if !readOnly["/"] || readOnly["/tmp"] {
		f.Errorf("%s may write to /: %v, and not to /tmp: %v", pod.Name, !readOnly["/"], readOnly["/tmp"])
	}
}

func sum(t *testing.T, file string) string {
	t.Helper()
	from, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, from); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}
