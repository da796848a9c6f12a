package kubetest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/test/support/kubetest"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func TestStartGivesEachTestANamespaceOnOneServer(t *testing.T) {
	first, second := kubetest.Start(t), kubetest.Start(t)
	if first.Namespace == second.Namespace {
		t.Errorf("both got namespace %s", first.Namespace)
	}
	if first.RESTConfig.Host != second.RESTConfig.Host {
		t.Errorf("two servers in one process: %s and %s", first.RESTConfig.Host, second.RESTConfig.Host)
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "mine"},
	}}
	if _, err := first.Dynamic.Resource(configMaps).Namespace(first.Namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create: %v", err)
	}
	if _, err := second.Dynamic.Resource(configMaps).Namespace(second.Namespace).Get(t.Context(), "mine", metav1.GetOptions{}); err == nil {
		t.Error("object of one test is visible in the namespace of another")
	}
}

// It runs this test binary again with a program that does not exist.
func TestMissingProgramSkipsLocallyAndFailsInCI(t *testing.T) {
	for _, test := range []struct {
		name, ci, want string
	}{
		{"locally", "", "SKIP"},
		{"in CI", "true", "FAIL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			output := rerun(t, "TestStartGivesEachTestANamespaceOnOneServer",
				"CI="+test.ci, "PLURAL_LOCALKUBE="+filepath.Join(t.TempDir(), "none"))
			if !strings.Contains(output, test.want) || !strings.Contains(output, "run make build") {
				t.Errorf("output does not say %s and what to do:\n%s", test.want, output)
			}
		})
	}
}

func TestServerAndItsFolderEndWithTheTestProcess(t *testing.T) {
	kubetest.Start(t) // skips when there is no program
	temporary := t.TempDir()
	if output := rerun(t, "TestStartGivesEachTestANamespaceOnOneServer", "TMPDIR="+temporary); !strings.Contains(output, "PASS") {
		t.Fatalf("test run failed:\n%s", output)
	}
	deadline := time.After(time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		left, err := os.ReadDir(temporary)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("left behind: %v", left)
		case <-tick.C:
		}
	}
}

// rerun runs one test of this binary in a process of its own and returns its output.
func rerun(t *testing.T, test string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+test+"$")
	cmd.Env = append(os.Environ(), env...)
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v", test, err)
	}
	return string(output)
}
