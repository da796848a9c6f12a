package sources

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/upstream"
)

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
	if had := gitpoller.ID("oci", "oci://registry.example.com/s", "", ""); mirrors["none"] != had {
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
		if had := gitpoller.ID(kind, address, "", "", "verified", key); (mirrorOf(&s, access) == had) != kept {
			t.Errorf("after an upgrade of the hub, that the mirror of a verified %s source is kept is not %v", kind, kept)
		}
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
