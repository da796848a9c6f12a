package channel

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pluralsh/plural/test/support/needs"
)

// kubectl is the program, with the way it goes.
type kubectl struct {
	*testing.T
	program, kubeconfig, namespace, dir string
}

func (s side) kubectl(t *testing.T, namespace string) kubectl {
	t.Helper()
	k := kubectl{T: t, program: needs.Program(t, "kubectl", "your system's packages"), namespace: namespace, dir: t.TempDir()}
	k.kubeconfig = filepath.Join(k.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*s.kubeconfig(namespace), k.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return k
}

// kubeconfig leads one's tools this way.
func (s side) kubeconfig(namespace string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.base, CertificateAuthorityData: s.config.CAData, CertificateAuthority: s.config.CAFile}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: s.config.BearerToken, Impersonate: s.config.Impersonate.UserName, ImpersonateGroups: s.config.Impersonate.Groups}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: namespace}
	config.CurrentContext = "x"
	return config
}

func (k kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.program, args...)
	cmd.Dir = k.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig, "HOME="+k.dir)
	return cmd
}

// run gives what kubectl says, on both outputs, with how it ended.
func (k kubectl) run(input string, args ...string) string {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), patience)
	defer cancel()
	cmd := k.command(ctx, args...)
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	end := "\n"
	if err := cmd.Run(); err != nil {
		end = "\n" + err.Error()
	}
	return alike(out.String()+"\n"+stderr.String()+end, k.namespace)
}

// age is what kubectl says of when something was made.
var age = regexp.MustCompile(`\b\d+m?s\b`)

// What people type gives the same, by either way.
func TestKubectlWorksTheSame(t *testing.T) {
	w := newWorld(t)
	const manifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {k: "v"}
---
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {plural.sh/simulated-log-lines: "3"}}
spec: {containers: [{name: main, image: none}]}
`
	session := []struct {
		input string
		args  string
	}{
		{manifest, "apply -f -"},
		{manifest, "apply --server-side -f - --force-conflicts"},
		{manifest, "diff -f -"},
		{"", "wait pod/web --for=condition=Ready"},
		{"", "get configmap a -o jsonpath={.data}"},
		{"", "get configmap,pod -o name"},
		{"", "get pod web"},
		{"", "get --raw MOUNT/version"},
		{"", "get pod none"},
		{"", "explain pod.spec.containers.image"},
		{"", "api-resources --api-group=apps"},
		{"", "auth can-i create pods"},
		{"", "auth whoami"},
		{"", "annotate configmap a x=y"},
		{"", "label pod web x=y"},
		{"", "patch configmap a --type=json -p [{\"op\":\"remove\",\"path\":\"/data\"}]"},
		{"", "logs web"},
		{"", "logs web --tail=1"},
		{"", "logs web -c none"},
		{"", "exec web -- echo hello"},
		{"input", "exec -i web -- cat"},
		{"", "exec web -- sh -c exit\\ 3"},
		{"", "exec none -- true"},
		{"hello", "attach -i web"},
		{"", "cp kubeconfig web:/tmp/config"},
		{"", "exec web -- ls /tmp"},
		{"", "cp web:/tmp/config copied"},
		{"", "cp web:/tmp folder"},
		{"", "create deployment d --image=none --replicas=0"},
		{"", "scale deployment d --replicas=1"},
		{"", "wait deployment d --for=condition=Available"},
		{"", "rollout restart deployment d"},
		{"", "delete deployment d --wait=false"},
		{"", "delete pod web --now"},
		{"", "delete configmap a"},
	}
	said := map[string][]string{}
	w.each(func(t *testing.T, s side, namespace string) {
		k := s.kubectl(t, namespace)
		for _, step := range session {
			// What is asked for raw is below the server's host, not below its address.
			line := strings.ReplaceAll(step.args, "MOUNT", s.mount)
			args := strings.Split(strings.ReplaceAll(line, "\\ ", "\x00"), " ")
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "\x00", " ")
			}
			said[s.name] = append(said[s.name], "$ kubectl "+step.args+"\n"+age.ReplaceAllString(k.run(step.input, args...), "AGE"))
		}
		original, err := os.ReadFile(k.kubeconfig)
		copied, err2 := os.ReadFile(filepath.Join(k.dir, "copied"))
		if err != nil || err2 != nil || !bytes.Equal(original, copied) {
			t.Errorf("%s: a file is not the same after its way through the pod: %v, %v", s.name, err, err2)
		}
	})
	for i := range session {
		direct, through := withoutExtras(said["direct"][i]), withoutExtras(said["through"][i])
		if diff := cmp.Diff(direct, through); diff != "" {
			t.Errorf("(-direct +through):\n%s", diff)
		}
	}
}

// extras are what whoami shows besides of people who came through the hub.
var extras = regexp.MustCompile(`(?m)^Extra: .*\n`)

// What kubectl's client logs, now and then and on either side, of a message for a stream that it has not
// opened yet or has closed.
var strayed = regexp.MustCompile(`(?m)^E\d{4} .* Unknown stream id \d, discarding message\n`)

// columns are as wide as their widest line.
var columns = regexp.MustCompile(` {2,}`)

func withoutExtras(text string) string {
	return columns.ReplaceAllString(strayed.ReplaceAllString(extras.ReplaceAllString(text, ""), ""), " ")
}

// kubectl watches, follows and forwards until it is ended.
func TestKubectlStreamsThroughTheHub(t *testing.T) {
	w := newWorld(t)
	w.pod(w.Namespace, "web", nil)
	w.configMaps(t, 2, "x")
	k := w.through.kubectl(t, w.Namespace)
	for args, want := range map[string]string{
		"get pod web -w -o name":                       "pod/web\n",
		"logs -f web --tail=0":                         "simulated container: second",
		"port-forward pod/web :80 --address=127.0.0.1": "Forwarding from 127.0.0.1:",
		"get configmaps --watch-only -o name":          "configmap/made\n",
	} {
		t.Run(args, func(t *testing.T) {
			ctx, end := context.WithTimeout(t.Context(), patience)
			defer end()
			cmd := k.command(ctx, strings.Split(args, " ")...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			said := make(chan string, 1)
			go func() {
				var got strings.Builder
				part := make([]byte, 1<<10)
				for !strings.Contains(got.String(), want) { // what came about a moment before may be told first
					n, err := out.Read(part)
					if got.Write(part[:n]); err != nil {
						break // what is missing is seen
					}
				}
				said <- got.String()
			}()
			if got := w.changeUntil(t, said); !strings.Contains(got, want) {
				t.Errorf("kubectl says %q, want %q in it", got, want)
			}
			end()
			_ = cmd.Wait() // it was ended
		})
	}
}

// changeUntil changes something again and again, as nobody knows when kubectl has begun to watch, until it has said something.
func (w *world) changeUntil(t *testing.T, said <-chan string) string {
	t.Helper()
	again := time.NewTicker(300 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case got := <-said:
			return got
		case <-again.C:
			w.change(t)
		}
	}
}
