package sync

import (
	"log/slog"
	"testing"

	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
)

func TestWhatIsSealedForAServiceIsMaskedAlsoWhereNobodySaysWhoseTheObjectIs(t *testing.T) {
	s := New(Options{})
	s.polled.Store(true)
	s.masked.Store("web", []string{"hunter2-long"})
	s.masked.Store("db", []string{"correct-horse"})
	const text = "dial postgres://app:hunter2-long@db: correct-horse"
	for service, want := range map[string]string{
		"web":     "dial postgres://app:***@db: correct-horse",
		"":        "dial postgres://app:***@db: ***", // a Pod that a controller made
		"nobodys": "dial postgres://app:***@db: ***", // anybody may write a label
	} {
		if got := s.Mask(service, text); got != want {
			t.Errorf("of %q: %s", service, got)
		}
	}
}

func TestNothingIsSaidOfAServiceThatIsNotOpenedSinceTheRestart(t *testing.T) {
	disk, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.SaveGood(&api.Deployment{Service: "web", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	s := New(Options{Store: disk, Cluster: unseal.Cluster{}, Log: slog.New(slog.DiscardHandler)})
	s.remember(news{})
	for _, service := range []string{"web", ""} {
		if got := s.Mask(service, "password hunter2-long"); got != "" {
			t.Errorf("of %q: %s", service, got)
		}
	}
	p := &pass{Syncer: s, result: result{service: "web"}}
	p.keep(rendered{secrets: []string{"hunter2-long"}})
	for _, service := range []string{"web", ""} {
		if got := s.Mask(service, "password hunter2-long"); got != "password ***" {
			t.Errorf("of %q: %s", service, got)
		}
	}
}

// An agent whose disk went with its pod knows no service, and what is live is what the services before it left.
func TestNothingIsSaidBeforeItIsKnownWhichServicesThereAre(t *testing.T) {
	disk, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Store: disk, Cluster: unseal.Cluster{}, Log: slog.New(slog.DiscardHandler)})
	s.remember(news{})
	const text = "password hunter2-long"
	if got := s.Mask("web", text) + s.Mask("", text); got != "" {
		t.Errorf("before the first poll: %s", got)
	}
	s.heard([]*api.Deployment{{Service: "web"}})
	if got := s.Mask("web", text) + s.Mask("", text); got != "" {
		t.Errorf("before the service is opened: %s", got)
	}
}
