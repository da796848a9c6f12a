package hubsvc

import (
	"crypto/ed25519"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// publicKey is one by which nothing was signed, as a line of OpenSSH.
func publicKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(key))
}

// A source without verify, which somebody adds beside one with it, had both read from the mirror of whichever was first.
func TestSourceOfTheSameAddressTakesNobodysVerificationAway(t *testing.T) {
	upstream, o := fleetrepo.New(t), fleetrepo.New(t)
	upstream.Push(map[string]string{"app/cm.yaml": fleetrepo.ConfigMap("app", "unsigned")})
	files := fleetrepo.TwoServices(nil)
	plain := "kind: Source\nmetadata: {name: NAME}\nspec:\n  git: {url: \"" + upstream.URL() + "\", ref: main}\n"
	files["keys/team.pub"] = publicKey(t)
	files["sources/verified.yaml"] = fleetrepo.Header + strings.Replace(plain, "NAME", "verified", 1) + "  verify: {keys: [keys/team.pub]}\n"
	files["sources/a.yaml"] = fleetrepo.Header + strings.Replace(plain, "NAME", "a", 1)
	files["services/app.yaml"] = fleetrepo.Service("app", "  source: {name: verified, path: app}\n")
	o.Push(files)
	hub := start(t, options(t, o))
	hub.ready()
	fleetrepo.Until(t, "the unsigned commit is refused", func() bool { return strings.Contains(hub.listed("verified").Error, "not signed") })
	fleetrepo.Until(t, "who asks for no signature reads it", func() bool { return hub.listed("a").Commit != "" })
	if s := hub.listed("verified"); s.Commit != "" || hub.held() == "" {
		t.Errorf("unsigned commit %s is served: error %q, held %q", s.Commit, s.Error, hub.held())
	}
}

func TestVerificationThatIsSwitchedOnIsAskedOfWhatIsServedAlready(t *testing.T) {
	upstream, o := fleetrepo.New(t), fleetrepo.New(t)
	upstream.Push(map[string]string{"app/cm.yaml": fleetrepo.ConfigMap("app", "unsigned")})
	files := fleetrepo.TwoServices(nil)
	spec := fleetrepo.Header + "kind: Source\nmetadata: {name: verified}\nspec:\n  git: {url: \"" + upstream.URL() + "\", ref: main}\n"
	files["sources/verified.yaml"] = spec
	files["services/app.yaml"] = fleetrepo.Service("app", "  source: {name: verified, path: app}\n")
	o.Push(files)
	hub := start(t, options(t, o))
	hub.ready()
	fleetrepo.Until(t, "the source is read", func() bool { return hub.listed("verified").Commit != "" })
	o.Push(map[string]string{"keys/team.pub": publicKey(t), "sources/verified.yaml": spec + "  verify: {keys: [keys/team.pub]}\n"})
	hub.served(o)
	fleetrepo.Until(t, "the unsigned commit is refused", func() bool { return strings.Contains(hub.listed("verified").Error, "not signed") })
	if s := hub.listed("verified"); s.Commit != "" || hub.held() == "" {
		t.Errorf("unsigned commit %s is served: error %q, held %q", s.Commit, s.Error, hub.held())
	}
}

func TestCommitsOfTheInstallationRepoAreKeptByTheKeysThatLetThemIn(t *testing.T) {
	opts, edits := options(t, fleetrepo.New(t)), new(committer.Edits)
	one, other := publicKey(t), publicKey(t)
	wants, dirs := map[string]gitpoller.Want{}, map[string]string{}
	for what, with := range map[string]struct {
		keys    []string
		signing string
	}{
		"no keys": {}, "a key": {keys: []string{one}}, "another key": {keys: []string{other}},
		"a key, and one of the hub's":         {keys: []string{one}, signing: fleetrepo.SigningKey(t, "hub")},
		"a key, and another one of the hub's": {keys: []string{one}, signing: fleetrepo.SigningKey(t, "hub")},
	} {
		opts.RepoKeys = nil
		for _, key := range with.keys {
			opts.RepoKeys = append(opts.RepoKeys, []byte(key))
		}
		if edits.SigningKey = nil; with.signing != "" {
			edits.SigningKey = readFile(t, with.signing)
		}
		c, err := committer.New(committer.Options{Keys: opts.RepoKeys, Edits: edits})
		if err != nil {
			t.Fatal(err)
		}
		want := sources.New(sources.Options{Repo: opts.Repo, Keys: opts.RepoKeys, HubKey: c.PublicKey()}).Own()
		wants[what], dirs[what] = want, want.Dir
	}
	different(t, dirs)
	if wants["no keys"].Dir != wants["no keys"].ID {
		t.Error("an installation repo that nobody verifies is fetched anew after an upgrade of the hub")
	}
	if had := gitpoller.ID("installation", opts.Repo, one); wants["a key"].Dir != had {
		t.Error("one that a hub without a key of its own verifies is fetched anew, and may go back behind what was served")
	}
	if wants["a key"].ID != wants["no keys"].ID {
		t.Error("replicas that are started one after the other with a key do not find each other's mirror")
	}
}

func different(t *testing.T, named map[string]string) {
	t.Helper()
	seen := map[string]string{}
	for _, what := range slices.Sorted(maps.Keys(named)) {
		if other, ok := seen[named[what]]; ok {
			t.Errorf("with %s what was read with %s is served", what, other)
		}
		seen[named[what]] = what
	}
}

// While its server is away, nothing of a source is verified: that holds its services, and not the hub, also over a restart.
func TestHubStartsWhenWhatIsToBeVerifiedIsAway(t *testing.T) {
	upstream, o := fleetrepo.New(t), fleetrepo.New(t)
	upstream.Push(map[string]string{"app/cm.yaml": fleetrepo.ConfigMap("app", "unsigned")})
	files := fleetrepo.TwoServices(nil)
	spec := fleetrepo.Header + "kind: Source\nmetadata: {name: verified}\nspec:\n  git: {url: \"" + upstream.URL() + "\", ref: main}\n"
	files["sources/verified.yaml"] = spec
	files["services/app.yaml"] = fleetrepo.Service("app", "  source: {name: verified, path: app}\n")
	o.Push(files)
	opts := options(t, o)
	hub := start(t, opts)
	hub.ready()
	fleetrepo.Until(t, "the source is read", func() bool { return hub.listed("verified").Commit != "" && hub.held() == "" })
	if err := os.RemoveAll(upstream.Bare); err != nil {
		t.Fatal(err)
	}
	o.Push(map[string]string{"keys/team.pub": publicKey(t), "sources/verified.yaml": spec + "  verify: {keys: [keys/team.pub]}\n"})
	hub.served(o)
	hub.stop()
	hub = start(t, opts)
	hub.ready()
	fleetrepo.Until(t, "the service is held", func() bool { return hub.held() != "" })
}
