package sync_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
)

// canary is looked for wherever no secret may be.
const canary = "canary-7c01e4b2-correct-horse"

// sealedWorld is a world whose hub forwards what is sealed, and whose agent's words are kept.
type sealedWorld struct {
	*world
	id    string
	files fstest.MapFS // .plural
	own   *age.X25519Identity
	words *words
}

// words is a log in memory.
type words struct {
	mu  sync.Mutex // guards out
	out bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

// newSealedWorld has the groups prod, which the cluster is in, and ops, which it is not in.
func newSealedWorld(t *testing.T) *sealedWorld {
	t.Helper()
	own, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	alice, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	w := &sealedWorld{world: newWorld(t), id: strings.Repeat("3f", 16), files: fstest.MapFS{}, own: own, words: &words{}}
	w.log = slog.New(slog.NewTextHandler(w.words, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.cluster = unseal.Cluster{Name: "edge-1", Repository: w.id, Identity: own}
	w.files[groups.PersonFile("alice")] = &fstest.MapFile{Data: []byte(alice.Recipient().String() + "\n")}
	w.group("prod", w.edge())
	w.group("ops", groups.Member{Kind: groups.Person, Name: "alice"})
	w.forward(nil)
	return w
}

func (w *sealedWorld) edge() groups.Member {
	return groups.Member{Kind: groups.Cluster, Name: "edge-1"}
}

func (w *sealedWorld) set() *groups.Set {
	w.Helper()
	set, err := groups.Load(w.files)
	if err != nil {
		w.Fatal(err)
	}
	return set
}

func (w *sealedWorld) group(name string, member groups.Member) {
	w.Helper()
	changes, err := w.set().Create(w.id, name, []groups.Member{member}, groups.CreateOptions{
		ClusterKey: func(string) (string, error) { return w.own.Recipient().String(), nil },
	})
	if err != nil {
		w.Fatal(err)
	}
	for path, data := range changes {
		w.files[path] = &fstest.MapFile{Data: data}
	}
}

// forward makes the hub's further polls bring the cluster's envelopes, with some more.
func (w *sealedWorld) forward(more []*api.Envelope) {
	w.Helper()
	list, err := w.set().Envelopes(w.edge())
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range list {
		more = append(more, &api.Envelope{Group: e.Group, Epoch: int32(e.Epoch), Path: e.Path, Sealed: e.Sealed})
	}
	w.hub.set(func() { w.hub.envelopes = more })
}

func (w *sealedWorld) sealed(path, group, text string) string {
	w.Helper()
	g, ok := w.set().Group(group)
	if !ok {
		w.Fatalf("no group %s", group)
	}
	out, err := seal.Seal([]byte(text), seal.Binding{Repository: w.id, Path: path, Groups: []seal.Epoch{{Group: group, Number: g.Epoch}}}, g.Recipient)
	if err != nil {
		w.Fatal(err)
	}
	return string(out)
}

// own makes a service of the installation repo.
func (w *sealedWorld) ofOwn(name string, files map[string]string, change ...func(*api.Deployment)) *api.Deployment {
	w.Helper()
	return w.service(name, files, append(change, func(d *api.Deployment) { d.OwnRepository = true })...)
}

// naming adds a named secret to a deployment, with its file in the second bundle.
func (w *sealedWorld) naming(secret *api.Secret, text string) func(*api.Deployment) {
	w.Helper()
	key, archive := w.pack(fstest.MapFS{secret.GetPath(): {Data: []byte(text), Mode: 0o644}}, secret.GetPath())
	w.hub.set(func() { w.hub.bundles[key] = archive })
	return func(d *api.Deployment) {
		d.Secrets, d.SecretsBundle, d.SecretsInputs = append(d.Secrets, secret), key, []string{secret.GetPath()}
		d.Key += key
	}
}

func (w *sealedWorld) secrets() dynamic.ResourceInterface {
	client, err := dynamic.NewForConfig(w.config)
	if err != nil {
		w.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(w.ns)
}

// secret is the content of a Secret in the cluster, nil when there is none.
func (w *sealedWorld) secret(name string) map[string]string {
	w.Helper()
	object, err := w.secrets().Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	encoded, _, err := unstructured.NestedStringMap(object.Object, "data")
	if err != nil {
		w.Fatal(err)
	}
	for key, value := range encoded {
		plain, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			w.Fatal(err)
		}
		encoded[key] = string(plain)
	}
	return encoded
}

// silent looks for the canary on the agent's disk, in its reports and in its log.
func (w *sealedWorld) silent() {
	w.Helper()
	err := fs.WalkDir(os.DirFS(w.dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(os.DirFS(w.dir), path)
		w.clean("the file "+path, string(data))
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	w.clean("the log", w.words.String())
	for _, report := range w.hub.said() {
		w.clean("a report", fmt.Sprint(report))
	}
}

func (w *sealedWorld) clean(place, text string) {
	w.Helper()
	for _, form := range []string{
		canary, base64.StdEncoding.EncodeToString([]byte(canary)), hex.EncodeToString([]byte(canary)), canary[:10], w.own.String(), "SECRET-KEY",
	} {
		if strings.Contains(text, form) {
			w.Errorf("%s holds %q:\n%.2000s", place, form, text)
		}
	}
}

const secretManifest = "apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData: {password: %s}\n"

func TestWhatIsSealedReachesTheClusterAndNothingElse(t *testing.T) {
	w := newSealedWorld(t)
	web := w.ofOwn("web", map[string]string{
		"cm.yaml.tmpl":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {value: \"{{ .secrets.db.user }}:{{ .secrets.db.password }}\"}\n",
		"sealed.yaml":      w.sealed("web/sealed.yaml", "prod", fmt.Sprintf(secretManifest, "whole", canary)),
		"made-itself.yaml": fmt.Sprintf(secretManifest, "own", "of-the-render"),
	},
		w.naming(&api.Secret{Name: "db", Path: "secrets/db.yaml"}, w.sealed("secrets/db.yaml", "prod", "user: admin\npassword: "+canary+"\n")),
	)
	w.hub.asks("", web)
	w.start()
	s := w.becomes(web, api.Phase_HEALTHY)
	if s.GetObjects() != 4 {
		t.Errorf("status = %v", s)
	}
	if got := w.live("web"); got != "admin:"+canary {
		t.Errorf("the template made %q", got)
	}
	for name, want := range map[string]map[string]string{
		"whole": {"password": canary}, "db": {"user": "admin", "password": canary}, "own": {"password": "of-the-render"},
	} {
		if diff := cmp.Diff(want, w.secret(name)); diff != "" {
			t.Errorf("Secret %s (-want +got):\n%s", name, diff)
		}
	}
	w.silent()
}

func TestARendersOwnSecretWinsOverTheNamedOne(t *testing.T) {
	w := newSealedWorld(t)
	web := w.ofOwn("web", map[string]string{"db.yaml": fmt.Sprintf(secretManifest, "db", "of-the-render")},
		w.naming(&api.Secret{Name: "db", Path: "secrets/db.yaml"}, w.sealed("secrets/db.yaml", "prod", "password: "+canary+"\n")))
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	if diff := cmp.Diff(map[string]string{"password": "of-the-render"}, w.secret("db")); diff != "" {
		t.Error(diff)
	}
}

func TestANamedSecretGoesWithItsName(t *testing.T) {
	w := newSealedWorld(t)
	named := w.naming(&api.Secret{Name: "db", Path: "secrets/db.yaml"}, w.sealed("secrets/db.yaml", "prod", "password: "+canary+"\n"))
	web := w.ofOwn("web", map[string]string{"cm.yaml": manifest("web", "one")}, named)
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	if w.secret("db") == nil {
		t.Fatal("there is no Secret")
	}
	onlyTemplates := w.ofOwn("web", map[string]string{"cm.yaml": manifest("web", "one")}, named, func(d *api.Deployment) {
		d.Secrets[0] = &api.Secret{Name: "db", Path: "secrets/db.yaml", TemplateOnly: true}
		d.Key += "-templates"
	})
	w.hub.asks("", onlyTemplates)
	w.becomes(onlyTemplates, api.Phase_HEALTHY)
	w.eventually("the Secret is gone", func() bool { return w.secret("db") == nil })
}

func TestAnEmptyRenderDeletesNothingThoughItNamesSecrets(t *testing.T) {
	w := newSealedWorld(t)
	named := w.naming(&api.Secret{Name: "db", Path: "secrets/db.yaml"}, w.sealed("secrets/db.yaml", "prod", "password: "+canary+"\n"))
	good := w.ofOwn("web", map[string]string{"cm.yaml": manifest("web", "one")}, named)
	w.hub.asks("", good)
	w.start()
	w.becomes(good, api.Phase_HEALTHY)
	empty := w.ofOwn("web", map[string]string{"README.md": "moved\n"}, named)
	w.hub.asks("", empty)
	w.becomes(empty, api.Phase_HELD)
	if w.live("web") != "one" || w.secret("db") == nil {
		t.Error("something was deleted")
	}
}

func TestAFileOfSopsReachesTheCluster(t *testing.T) {
	const fixtures = "../../crypto/sops/testdata/"
	text, err := os.ReadFile(fixtures + "key.txt")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(fixtures + "sealed/regex.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w := newSealedWorld(t)
	w.cluster.Identity = ids[0]
	w.hub.set(func() { w.hub.envelopes = nil })
	web := w.ofOwn("web", map[string]string{"secret.yaml": string(data)})
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	if diff := cmp.Diff(map[string]string{"password": "s3cret", "more": "text"}, w.secret("db")); diff != "" {
		t.Error(diff)
	}
}

func TestAServiceThatCannotBeOpenedFailsAloneAndKeepsWhatItHas(t *testing.T) {
	w := newSealedWorld(t)
	good, other := w.ofOwn("web", map[string]string{"cm.yaml": manifest("web", "one")}), w.configMap("other", "one")
	w.hub.asks("", good, other)
	w.start()
	w.becomes(good, api.Phase_HEALTHY)
	elsewhere := &sealedWorld{world: w.world, id: strings.Repeat("4e", 16), files: w.files}
	for name, c := range map[string]struct{ content, want string }{
		"outside the group":  {w.sealed("web/s.yaml", "ops", canary), "web/s.yaml: sealed for ops, and this cluster is in prod"},
		"swapped paths":      {w.sealed("web/t.yaml", "prod", canary), `"web/s.yaml" is bound to "web/t.yaml"`},
		"another repository": {elsewhere.sealed("web/s.yaml", "prod", canary), "of another repository"},
		"cut off":            {w.sealed("web/s.yaml", "prod", canary)[:200], "web/s.yaml: sealed file is damaged"},
	} {
		bad := w.ofOwn("web", map[string]string{"s.yaml": c.content})
		w.hub.asks("", bad, other)
		if s := w.becomes(bad, api.Phase_FAILED); !strings.Contains(s.GetMessage(), c.want) || s.GetAppliedKey() != good.GetKey() {
			t.Errorf("%s: %v", name, s)
		}
	}
	foreign := w.service("web", map[string]string{"s.yaml": w.sealed("web/s.yaml", "prod", canary)})
	w.hub.asks("", foreign, other)
	if s := w.becomes(foreign, api.Phase_FAILED); !strings.Contains(s.GetMessage(), "comes from another repository") {
		t.Errorf("another's source: %v", s)
	}
	w.healed("web", "one")
	w.healed("other", "one")
	w.becomes(other, api.Phase_HEALTHY)
	w.silent()
}

func TestARegistrationWithoutARepositoryOpensNothing(t *testing.T) {
	w := newSealedWorld(t)
	w.cluster.Repository = ""
	web := w.ofOwn("web", map[string]string{"s.yaml": w.sealed("web/s.yaml", "prod", fmt.Sprintf(secretManifest, "db", canary))})
	w.hub.asks("", web)
	w.start()
	if s := w.becomes(web, api.Phase_FAILED); !strings.Contains(s.GetMessage(), "register the cluster again") {
		t.Errorf("%v", s)
	}
}

func TestAnEnvelopeThatArrivesLaterOpensWhatFailed(t *testing.T) {
	w := newSealedWorld(t)
	w.hub.set(func() { w.hub.envelopes = nil })
	web := w.ofOwn("web", map[string]string{"s.yaml": w.sealed("web/s.yaml", "prod", fmt.Sprintf(secretManifest, "db", canary))})
	w.hub.asks("", web)
	w.start()
	if s := w.becomes(web, api.Phase_FAILED); !strings.Contains(s.GetMessage(), "sealed for prod, and this cluster is in no group") {
		t.Errorf("%v", s)
	}
	w.forward(nil)
	w.hub.asks("", web) // the same deployment, with envelopes
	w.becomes(web, api.Phase_HEALTHY)
	if w.secret("db")["password"] != canary {
		t.Error("the Secret is not there")
	}
}

func TestABadEnvelopeKeepsTheOthersGood(t *testing.T) {
	w := newSealedWorld(t)
	w.forward([]*api.Envelope{{Group: "ops", Epoch: 1, Path: groups.EnvelopeFile("ops", w.edge()), Sealed: []byte("age-encryption.org/v1\nno\n")}})
	web := w.ofOwn("web", map[string]string{"s.yaml": w.sealed("web/s.yaml", "prod", fmt.Sprintf(secretManifest, "db", canary))})
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	if !strings.Contains(w.words.String(), "envelopes do not open") {
		t.Error("nothing was said of the bad one")
	}
}

func TestARestartedAgentOpensWhatIsSealedWithoutItsHub(t *testing.T) {
	w := newSealedWorld(t)
	web := w.ofOwn("web", map[string]string{"cm.yaml.tmpl": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {value: {{ .secrets.db.password }}}\n"},
		w.naming(&api.Secret{Name: "db", Path: "secrets/db.yaml"}, w.sealed("secrets/db.yaml", "prod", "password: "+canary+"\n")))
	w.hub.asks("", web)
	stop := w.start()
	w.becomes(web, api.Phase_HEALTHY)
	stop()
	w.hub.set(func() { w.hub.away = true })
	w.delete("web")
	if err := w.secrets().Delete(t.Context(), "db", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.eventually("what was deleted is back", func() bool { return w.live("web") == canary && w.secret("db")["password"] == canary })
	w.silent()
}

// What others say of plaintext that went through their hands: the renderer, the API server.
func TestNoErrorRepeatsWhatWasSealed(t *testing.T) {
	w := newSealedWorld(t)
	named := w.naming(&api.Secret{Name: "db", Path: "secrets/db.yaml"}, w.sealed("secrets/db.yaml", "prod", "password: "+canary+"\nlines: |\n  "+canary+"\n  more\n"))
	w.start()
	for name, c := range map[string]struct {
		renderer, file, text string
	}{
		"the API server":     {"raw", "svc.yaml.tmpl", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80, name: \"{{ .secrets.db.password }} no\"}]}\n"},
		"its schema":         {"raw", "svc.yaml.tmpl", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: {{ .secrets.db.password }}}]}\n"},
		"a name":             {"raw", "cm.yaml.tmpl", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"_{{ .secrets.db.password }}\"}\n"},
		"a kind":             {"raw", "cm.yaml.tmpl", "apiVersion: v1\nkind: \"{{ .secrets.db.password }}\"\nmetadata: {name: web}\n"},
		"YAML":               {"raw", "cm.yaml.tmpl", "apiVersion: v1\nkind: ConfigMap\n{{ .secrets.db.lines }}metadata: {name: web}\n"},
		"the template":       {"raw", "cm.yaml.tmpl", "{{ fail .secrets.db.password }}\n"},
		"kustomize":          {"kustomize", "kustomization.yaml.tmpl", "resources: [\"{{ .secrets.db.password }}\"]\n"},
		"kustomize, a field": {"kustomize", "kustomization.yaml.tmpl", "\"{{ .secrets.db.password }}\": x\n"},
	} {
		bad := w.ofOwn("web", map[string]string{c.file: c.text}, named, func(d *api.Deployment) { d.Renderer = c.renderer })
		w.hub.asks("", bad)
		if s := w.becomes(bad, api.Phase_FAILED); name != "YAML" && !strings.Contains(s.GetMessage(), "***") {
			t.Errorf("%s says nothing of it: %v", name, s.GetMessage())
		}
	}
	w.silent()
}

// The API server prints what was there beside what should be: a value that was rotated may still be in use.
func TestNoErrorRepeatsWhatWasSealedBefore(t *testing.T) {
	w := newSealedWorld(t)
	pod := map[string]string{"pod.yaml.tmpl": "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n" +
		"  - {name: web, image: x, env: [{name: PASSWORD, value: \"{{ .secrets.db.password }}\"}]}\n"}
	named := func(password string) func(*api.Deployment) {
		return w.naming(&api.Secret{Name: "db", Path: "secrets/db.yaml", TemplateOnly: true}, w.sealed("secrets/db.yaml", "prod", "password: "+password+"\n"))
	}
	web := w.ofOwn("web", pod, named(canary))
	w.hub.asks("", web)
	stop := w.start()
	w.becomes(web, api.Phase_HEALTHY)
	for range 3 { // the second is no more live than the third
		password := rand.Text()
		web = w.ofOwn("web", pod, named(password))
		w.hub.asks("", web)
		if s := w.becomes(web, api.Phase_FAILED); !strings.Contains(s.GetMessage(), "PASSWORD") || strings.Contains(s.GetMessage(), password) {
			t.Errorf("%v", s)
		}
	}
	stop()
	w.start()
	w.eventually("the new agent has reported", func() bool {
		said := w.hub.said()
		last := said[len(said)-1]
		return last.GetSequence() > 0 && last.GetBoot() != said[0].GetBoot() && len(last.GetServices()) == 1 && last.GetServices()[0].GetPhase() == api.Phase_FAILED
	})
	w.silent()
}
