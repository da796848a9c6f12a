package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// newCanaries are n texts of different lengths and alphabets. Nothing else holds them by chance.
func newCanaries(n int) []string {
	const lower, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
	alphabets := []string{
		lower, digits, lower + strings.ToUpper(lower) + digits, "0123456789abcdef", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
		lower + strings.ToUpper(lower) + digits + "+/", lower + digits + "-_.~", `!"#$%&'()*+,-./:;<=>?@[\]^_{|}` + digits,
		"àéîõüßñçøå" + lower, "秘密漢字パスワード🔑🐤ж" + digits,
	}
	random := rand.New(rand.NewPCG(20, 40))
	canaries := make([]string, n)
	for i := range canaries {
		alphabet := []rune(alphabets[i%len(alphabets)])
		length := []int{12, 16, 33, 64, 200}[i/len(alphabets)]
		text := make([]rune, length)
		for j := range text {
			text[j] = alphabet[random.IntN(len(alphabet))]
		}
		canaries[i] = string(text)
	}
	return canaries
}

// errorsHide has templates, parsers and the API server complain about secrets, which they like to quote. What they say
// goes through the hub, so the hunt tells whether it was hidden.
func errorsHide(t *testing.T, s *story) {
	value := `{{ index .secrets.db "key-%d" }}`
	manifests := map[string]string{
		"fail":    `{{ fail (index .secrets.db "key-23") }}`,
		"regexp":  `{{ mustRegexMatch (index .secrets.db "key-27") "x" }}`,
		"no-yaml": "a: [" + fmt.Sprintf(value, 17),
		"label":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: " + fmt.Sprintf(value, 9) + " x}}\n",
		"name":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + fmt.Sprintf(value, 25) + "}\n",
		"enum":    "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: " + fmt.Sprintf(value, 24) + ", ports: [{port: 1}]}\n",
		"number":  "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: " + fmt.Sprintf(value, 34) + "}]}\n",
		"field":   "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: { " + fmt.Sprintf(value, 14) + ": 1, ports: [{port: 1}]}\n",
		"kind":    "apiVersion: v1\nkind: " + fmt.Sprintf(value, 13) + "\nmetadata: {name: a}\n",
		"date":    `{{ .secrets.db.password | mustToDate "2006-01-02" }}`,
	}
	files := map[string]string{}
	for name, text := range manifests {
		files["services/"+name+".yaml"] = service(name, "apps/"+name) + "  secrets: [{name: db, from: secrets/prod/db.yaml, templateOnly: true}]\n"
		files["services/"+name+".yaml"] = strings.Replace(files["services/"+name+".yaml"], "env: local", "env: prod", 1)
		files["apps/"+name+"/a.yaml.tmpl"] = text
	}
	s.write(files)
	commit := s.push("Complain about secrets")
	var status *v1.Status
	s.eventually("all of them fail", timeout, func() bool {
		status = s.status()
		return status != nil && status.Commit.ID == commit && len(status.Unhealthy) == 2*len(manifests) &&
			!slices.ContainsFunc(status.Unhealthy, func(d v1.Deployment) bool { return d.Phase != v1.Failed || d.Message == "" })
	})
	hidden := 0
	for _, bad := range status.Unhealthy {
		if strings.Contains(bad.Message, "***") {
			hidden++
		}
	}
	if hidden < 2*6 {
		t.Errorf("only %d errors quoted a secret: %+v", hidden, status.Unhealthy)
	}
	for _, args := range [][]string{{"status"}, {"status", "-o", "json"}, {"service", "list", "-o", "json"}, {"cluster", "get", "edge-1", "-o", "yaml"}} {
		s.plural(args...)
	}
	for name := range manifests {
		s.write(map[string]string{"apps/" + name + "/a.yaml.tmpl": configMap(name, "mended")})
	}
	s.converged(s.push("Mend the templates"), timeout)
}

// huntDisks looks for the canaries everywhere but where they belong: the work tree, and the disks of Kubernetes itself. It
// has to find them there, and elsewhere what is no secret.
func huntDisks(t *testing.T, s *story) {
	h, belongs := newHunt(t, append(slices.Clone(s.canaries), s.parameter, s.manifest)), newHunt(t, s.canaries)
	var disks []string
	plain := []string{filepath.Join(s.repo, "secrets"), filepath.Join(s.repo, "apps/shop/smtp.secret.yaml")}
	began := time.Now()
	h.tree(t, s.home, func(path string) bool {
		if filepath.Base(path) == "clusters" && strings.HasPrefix(path, filepath.Join(s.home, "state")) {
			disks = append(disks, path)
			return true
		}
		kubernetes := strings.HasPrefix(filepath.Base(path), "cluster-") && filepath.Ext(path) == ".log" // API servers quote what they refuse
		return kubernetes || slices.Contains(plain, path)
	})
	h.search("what plural printed", s.said.Bytes())
	t.Logf("searched %d MiB in %v", h.bytes>>20, time.Since(began))
	s.noneOf(h)
	for place, control := range map[string]string{
		"objects of " + s.origin(): s.parameter, filepath.Join(s.repo, "services/shop.yaml"): s.parameter,
		"/hub/": s.manifest, "/agents/edge-1/": s.manifest,
	} {
		if !h.saw(control, place) {
			t.Errorf("the hunt misses what is no secret in %s", place)
		}
	}
	for _, dir := range append(disks, plain[0]) {
		belongs.tree(t, dir, func(string) bool { return false })
	}
	for i, canary := range s.canaries {
		if len(disks) != 1 || !belongs.saw(canary, disks[0]) {
			t.Errorf("the hunt misses canary %d (%q) on the disks of Kubernetes: %v", i, canary, disks)
		}
	}
	if !belongs.saw(s.canaries[40], "secrets/prod/db.yaml") {
		t.Error("the hunt misses the password in the work tree")
	}
}

// huntMemory looks through all that the hub has in its memory. It has to find there what is no secret, and all canaries in
// the memory of this process.
func huntMemory(t *testing.T, s *story) {
	h := newHunt(t, append(slices.Clone(s.canaries), s.parameter))
	h.memory(t, "hub", s.parts()["hub"].PID)
	t.Logf("searched %d MiB", h.bytes>>20)
	s.noneOf(h)
	if !h.saw(s.parameter, "hub memory") {
		t.Error("the hunt misses the parameter in the hub's memory")
	}
	own := newHunt(t, s.canaries)
	own.memory(t, "test", os.Getpid())
	for i, canary := range s.canaries {
		if !own.saw(canary, "test memory") {
			t.Errorf("the hunt misses canary %d (%q) in this process", i, canary)
		}
	}
}

// noneOf reports every canary that turned up.
func (s *story) noneOf(h *hunt) {
	s.t.Helper()
	for f := range h.finds {
		if slices.Contains(s.canaries, f.Canary) {
			s.t.Errorf("%s: %s of the canary %q", f.Where, f.How, f.Canary)
		}
	}
}
