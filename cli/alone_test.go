package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

func TestTheProgramAloneSaysHowTheFleetIsAndWhatToDoNext(t *testing.T) {
	got := newDesk(t).plural(t)
	if got.code != ui.ExitOK {
		t.Fatalf("%d: %s", got.code, got.errOut)
	}
	for _, want := range []string{"installation repo ", "demo  0123456", "1 cluster: 1 healthy   1 service: 1 healthy", "everything runs"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s", want, got.out)
		}
	}
	for _, want := range []string{"next  plural status", "plural service list", "plural tui", "plural --help"} {
		if !strings.Contains(got.errOut, want) || strings.Contains(got.out, want) {
			t.Errorf("%q has to be on stderr alone:\n%s\n%s", want, got.out, got.errOut)
		}
	}
}

func TestTheProgramAloneSendsToWhatIsIll(t *testing.T) {
	got := plural(t, t.Context(), troubled(), false)
	if !strings.Contains(got.out, "commit 77aa001 is refused; 3f2c91a keeps running") ||
		!strings.Contains(got.errOut, "mend services/web.yaml:7, commit and push; or plural undo") {
		t.Errorf("%+v", got)
	}
}

// TestTheProgramAloneWaitsForNoHub asks one that never answers.
func TestTheProgramAloneWaitsForNoHub(t *testing.T) {
	desk := newDesk(t)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	began := time.Now()
	got := desk.plural(t, "--hub", server.URL)
	const most = 5 * time.Second // a second, on a machine that has other things to do
	if took := time.Since(began); took > most || got.code != ui.ExitOK {
		t.Errorf("%d after %s: %s", got.code, took, got.errOut)
	}
	if !strings.Contains(got.out, "cannot reach the hub at "+server.URL+": it has not answered for 800ms") ||
		!strings.Contains(got.errOut, "plural validate") {
		t.Errorf("%+v", got)
	}
}

func TestTheProgramAloneSaysHowToBeginWhereThereIsNoFleet(t *testing.T) {
	t.Chdir(t.TempDir())
	var out, errOut bytes.Buffer
	f := &cmdutil.Factory{
		IO: &ui.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, Now: now,
		Getenv: func(name string) string {
			return map[string]string{"PLURAL_CONFIG_DIR": os.TempDir() + "/nothing"}[name]
		},
	}
	code := run(t.Context(), f, "plural", nil)
	for _, want := range []string{"plural up --local ", "plural up --context CONTEXT", "plural --help"} {
		if !strings.Contains(out.String(), want) || code != 0 {
			t.Errorf("%d: no %q in\n%s%s", code, want, out.String(), errOut.String())
		}
	}
}
