package doctor

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// What people read, what is tried, and what doctor warns of is one range.
func TestTheRangeOfKubernetesIsTheOneThatIsToldAndTried(t *testing.T) {
	told, err := os.ReadFile("../../docs/releases.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("**1.%d to 1.%d**", OldestKubernetes, NewestKubernetes); !strings.Contains(string(told), want) {
		t.Errorf("docs/releases.md does not say %s", want)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	tried := regexp.MustCompile(`(?m)^SKEW_KUBES := 1\.(\d+)\..* 1\.(\d+)\.\d+$`).FindStringSubmatch(string(makefile))
	if tried == nil || tried[1] != fmt.Sprint(OldestKubernetes) || tried[2] != fmt.Sprint(NewestKubernetes) {
		t.Errorf("make skew tries %q, and the range is 1.%d to 1.%d", tried, OldestKubernetes, NewestKubernetes)
	}
}
