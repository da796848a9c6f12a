package hubsvc

import (
	"crypto/ed25519"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/hubsvc/gitagent"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/upstream"
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
	upstream, o := newOrigin(t), newOrigin(t)
	upstream.push(map[string]string{"app/cm.yaml": configMap("app", "unsigned")})
	files := twoServices(nil)
	plain := "kind: Source\nmetadata: {name: NAME}\nspec:\n  git: {url: \"" + upstream.url() + "\", ref: main}\n"
	files["keys/team.pub"] = publicKey(t)
	files["sources/verified.yaml"] = header + strings.Replace(plain, "NAME", "verified", 1) + "  verify: {keys: [keys/team.pub]}\n"
	files["sources/a.yaml"] = header + strings.Replace(plain, "NAME", "a", 1)
	files["services/app.yaml"] = service("app", "  source: {name: verified, path: app}\n")
	o.push(files)
	hub := start(t, options(t, o))
	hub.ready()
	until(t, "the unsigned commit is refused", func() bool { return strings.Contains(hub.listed("verified").Error, "not signed") })
	until(t, "who asks for no signature reads it", func() bool { return hub.listed("a").Commit != "" })
	if s := hub.listed("verified"); s.Commit != "" || hub.held() == "" {
		t.Errorf("unsigned commit %s is served: error %q, held %q", s.Commit, s.Error, hub.held())
	}
}

func TestVerificationThatIsSwitchedOnIsAskedOfWhatIsServedAlready(t *testing.T) {
	upstream, o := newOrigin(t), newOrigin(t)
	upstream.push(map[string]string{"app/cm.yaml": configMap("app", "unsigned")})
	files := twoServices(nil)
	spec := header + "kind: Source\nmetadata: {name: verified}\nspec:\n  git: {url: \"" + upstream.url() + "\", ref: main}\n"
	files["sources/verified.yaml"] = spec
	files["services/app.yaml"] = service("app", "  source: {name: verified, path: app}\n")
	o.push(files)
	hub := start(t, options(t, o))
	hub.ready()
	until(t, "the source is read", func() bool { return hub.listed("verified").Commit != "" })
	o.push(map[string]string{"keys/team.pub": publicKey(t), "sources/verified.yaml": spec + "  verify: {keys: [keys/team.pub]}\n"})
	hub.served(o)
	until(t, "the unsigned commit is refused", func() bool { return strings.Contains(hub.listed("verified").Error, "not signed") })
	if s := hub.listed("verified"); s.Commit != "" || hub.held() == "" {
		t.Errorf("unsigned commit %s is served: error %q, held %q", s.Commit, s.Error, hub.held())
	}
}

// With the mirror's name everything is fetched anew: that of what nobody verifies has to stay what it was.
func TestMirrorIsAnotherForEverySayInVerification(t *testing.T) {
	one, other := publicKey(t), publicKey(t)
	keyless := func(issuer, identity, root string) string {
		return "keyless: {issuer: " + issuer + ", identity: " + identity + ", trustRoot: " + root + "}"
	}
	verify := map[string]string{
		"none": "", "a key": "keys: [keys/a]", "another key": "keys: [keys/b]", "both keys": "keys: [keys/a, keys/b]",
		"no one's key": "keys: [keys/gone]", "keyless": keyless("https://i", "me", "keys/a"),
		"another issuer":   keyless("https://o", "me", "keys/a"),
		"another identity": keyless("https://i", "you", "keys/a"), "another root": keyless("https://i", "me", "keys/b"),
	}
	mirrors := map[string]string{}
	for what, text := range verify {
		var s fleet.Source
		spec := "oci: {url: \"oci://registry.example.com/s\"}\n"
		if text != "" {
			spec += "verify: {" + text + "}\n"
		}
		if err := yaml.Unmarshal([]byte(spec), &s.Spec); err != nil {
			t.Fatal(err)
		}
		access, _ := upstream.Find(&s, fstest.MapFS{"keys/a": {Data: []byte(one)}, "keys/b": {Data: []byte(other)}}, nil)
		mirrors[what] = mirrorOf(&s, access)
	}
	different(t, mirrors)
	if had := gitagent.ID("oci", "oci://registry.example.com/s", "", ""); mirrors["none"] != had {
		t.Error("a source that nobody verifies is fetched anew after an upgrade of the hub")
	}
}

func TestChartsThatNobodyHeldToTheirNameAreFetchedAnew(t *testing.T) {
	key := publicKey(t)
	for kind, kept := range map[string]bool{"oci": false, "helm": true, "git": true} {
		var s fleet.Source
		address := kind + "://example.com/s"
		if err := yaml.Unmarshal([]byte(kind+": {url: \""+address+"\"}\nverify: {keys: [keys/a]}\n"), &s.Spec); err != nil {
			t.Fatal(err)
		}
		access, err := upstream.Find(&s, fstest.MapFS{"keys/a": {Data: []byte(key)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if had := gitagent.ID(kind, address, "", "", "verified", key); (mirrorOf(&s, access) == had) != kept {
			t.Errorf("after an upgrade of the hub, that the mirror of a verified %s source is kept is not %v", kind, kept)
		}
	}
}

func TestCommitsOfTheInstallationRepoAreKeptByTheKeysThatLetThemIn(t *testing.T) {
	opts, edits := options(t, newOrigin(t)), new(EditOptions)
	one, other := publicKey(t), publicKey(t)
	wants, dirs := map[string]gitagent.Want{}, map[string]string{}
	for what, with := range map[string]struct {
		keys    []string
		signing string
	}{
		"no keys": {}, "a key": {keys: []string{one}}, "another key": {keys: []string{other}},
		"a key, and one of the hub's":         {keys: []string{one}, signing: signingKey(t, "hub")},
		"a key, and another one of the hub's": {keys: []string{one}, signing: signingKey(t, "hub")},
	} {
		opts.RepoKeys, opts.Edits = nil, edits
		for _, key := range with.keys {
			opts.RepoKeys = append(opts.RepoKeys, []byte(key))
		}
		if edits.SigningKey = nil; with.signing != "" {
			edits.SigningKey = readFile(t, with.signing)
		}
		signs, err := newSignatures(&opts, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := opts.installation(signs)
		wants[what], dirs[what] = want, want.Dir
	}
	different(t, dirs)
	if wants["no keys"].Dir != wants["no keys"].ID {
		t.Error("an installation repo that nobody verifies is fetched anew after an upgrade of the hub")
	}
	if had := gitagent.ID("installation", opts.Repo, one); wants["a key"].Dir != had {
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
	upstream, o := newOrigin(t), newOrigin(t)
	upstream.push(map[string]string{"app/cm.yaml": configMap("app", "unsigned")})
	files := twoServices(nil)
	spec := header + "kind: Source\nmetadata: {name: verified}\nspec:\n  git: {url: \"" + upstream.url() + "\", ref: main}\n"
	files["sources/verified.yaml"] = spec
	files["services/app.yaml"] = service("app", "  source: {name: verified, path: app}\n")
	o.push(files)
	opts := options(t, o)
	hub := start(t, opts)
	hub.ready()
	until(t, "the source is read", func() bool { return hub.listed("verified").Commit != "" && hub.held() == "" })
	if err := os.RemoveAll(upstream.bare); err != nil {
		t.Fatal(err)
	}
	o.push(map[string]string{"keys/team.pub": publicKey(t), "sources/verified.yaml": spec + "  verify: {keys: [keys/team.pub]}\n"})
	hub.served(o)
	hub.stop()
	hub = start(t, opts)
	hub.ready()
	until(t, "the service is held", func() bool { return hub.held() != "" })
}
