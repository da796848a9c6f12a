package sources

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"filippo.io/age"

	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/upstream"
)

const password = "hunter2-of-the-git-host"

// Who may write sources/ and nothing else named another's sealed file beside a URL of theirs, and the hub showed them the password.
func TestSealedCredentialsGoToTheHostsThatTheyAreSealedFor(t *testing.T) {
	s, key := fleetrepo.NewHubSafe(t)
	find := func(hosts, url string) error {
		files := maps.Clone(s.Files)
		files["secrets/hub/git.yaml"] = s.ForHub("secrets/hub/git.yaml", "username: plural\npassword: "+password+"\n"+hosts)
		tree := fstest.MapFS{}
		for name, text := range files {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
		source := &fleet.Source{Metadata: fleet.Metadata{Name: "apps"}}
		source.Spec.Auth = &fleet.SourceAuth{Secret: "secrets/hub/git.yaml"}
		if strings.HasPrefix(url, "oci:") {
			source.Spec.OCI = &fleet.OCISource{URL: url}
		} else {
			source.Spec.Git = &fleet.GitSource{URL: url}
		}
		access, err := upstream.Find(source, tree, func() ([]age.Identity, error) { return []age.Identity{key}, nil })
		if err != nil || source.Spec.OCI == nil {
			return err
		}
		o, err := access.Repository()
		if err == nil && o.Credentials.Password != password {
			t.Errorf("%s is not shown the password", url)
		}
		return err
	}
	const hosts = "hosts: git.example.com, Registry.Example.com:5000\n"
	for _, url := range []string{
		"https://git.example.com/x", "https://git.example.com:443/x", "https://GIT.example.com/x", "git@git.example.com:x",
		"oci://registry.example.com:5000/x",
	} {
		if err := find(hosts, url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{
		"oci://attacker.example.net/x", "https://git.example.com.example.net/x", "https://example.com/x", "https://git.example.com:8443/x",
		"oci://registry.example.com/x", "https://git.example.com@attacker.example.net/x",
		"git@attacker.example.net:git.example.com/x", "file:///x",
	} {
		err := find(hosts, url)
		if err == nil || !strings.Contains(err.Error(), "does not name it") {
			t.Errorf("%s is shown the password: %v", url, err)
			continue
		}
		if strings.Contains(err.Error(), password) || strings.Contains(strings.ToLower(err.Error()), "registry.example.com:5000") {
			t.Errorf("the error repeats what is sealed: %v", err)
		}
	}
	if err := find("hosts: \"\"\n", "https://git.example.com/x"); err == nil {
		t.Error("credentials for no host are shown to one")
	}
	if err := find("", "oci://anywhere.example.net/x"); err != nil {
		t.Errorf("a file that names no hosts: %v", err)
	}
}
