package planner

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/hubsvc/idtoken"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// said is what a planner logs.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// taken is what was said since it was taken last.
func (s *said) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.text.Reset()
	return s.text.String()
}

func TestKeysThatAreNoneStopNoHubAndAreLoggedWithoutThem(t *testing.T) {
	file, err := idtoken.Rotate(nil, time.Now(), false)
	if err != nil {
		t.Fatal(err)
	}
	good, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	s, hub := fleetrepo.NewHubSafe(t)
	o, log := fleetrepo.New(t), new(said)
	errorsAlone := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))
	p := plansAs(t, o, t.TempDir(), errorsAlone, func() ([]age.Identity, error) { return []age.Identity{hub}, nil })
	const name = "secrets/hub/oidc.yaml"
	serve := func(sealed string) {
		t.Helper()
		p.serves(o.Push(merged(s.Fleet(nil), map[string]string{
			"plural.yaml": strings.Replace(fleetrepo.Workspace(""), "hub: {", "hub: {signingKeys: "+name+", ", 1), name: sealed,
		})))
	}
	p.serves(o.Push(s.Fleet(nil)))
	if p.Plan().SigningKeys != nil {
		t.Error("keys that no file names")
	}
	serve(s.ForHub(name, string(good)))
	if text := log.taken(); p.Plan().SigningKeys == nil || text != "" {
		t.Fatalf("no keys: %s", text)
	}
	for what, test := range map[string]struct{ sealed, fix string }{
		"no keys":                {s.ForHub(name, "a: "+fleetrepo.Canary+"\n"), "plural application rotate-keys --seen"},
		"a key that is none":     {s.ForHub(name, "20261122T100000Z: "+fleetrepo.Canary+"\n"), "plural application rotate-keys --seen"},
		"a list":                 {s.ForHub(name, "- "+fleetrepo.Canary+"\n"), ""},
		"no YAML":                {s.ForHub(name, "{"+fleetrepo.Canary+"\n"), ""},
		"keys with one too much": {s.ForHub(name, string(good)+"20991122T100000Z: "+fleetrepo.Canary+"\n"), "plural application rotate-keys --seen"},
	} {
		serve(test.sealed)
		if p.Plan().SigningKeys != nil {
			t.Errorf("%s: are keys", what)
		}
		if text := log.taken(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "file="+name) || !strings.Contains(text, test.fix) ||
			strings.Contains(text, fleetrepo.Canary) || strings.Contains(text, "PRIVATE") {
			t.Errorf("%s: the log says %s", what, text)
		}
	}
	serve(s.ForHub(name, string(good)+"# again\n"))
	if p.Plan().SigningKeys == nil {
		t.Error("what was mended is not taken")
	}
}
