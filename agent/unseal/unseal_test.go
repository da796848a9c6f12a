package unseal_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"filippo.io/age"

	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
)

const canary = "canary-4f1d9b"

var (
	repository = strings.Repeat("3f", 16)
	edge       = groups.Member{Kind: groups.Cluster, Name: "edge-1"}
)

// repo is an installation repo with its groups, and the cluster edge-1.
type repo struct {
	*testing.T
	id    string
	files fstest.MapFS
	own   *age.X25519Identity
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	own, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return &repo{T: t, id: repository, files: fstest.MapFS{}, own: own}
}

func (r *repo) set() *groups.Set {
	r.Helper()
	set, err := groups.Load(r.files)
	if err != nil {
		r.Fatal(err)
	}
	return set
}

func (r *repo) key(string) (string, error) { return r.own.Recipient().String(), nil }

func (r *repo) take(changes groups.Changes, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
	for path, content := range changes {
		if content == nil {
			delete(r.files, path)
		} else {
			r.files[path] = &fstest.MapFile{Data: content}
		}
	}
}

// group makes a group with the identity given, or a fresh one.
func (r *repo) group(name string, id age.Identity, members ...groups.Member) {
	r.Helper()
	r.take(r.set().Create(r.id, name, members, groups.CreateOptions{Identity: id, ClusterKey: r.key}))
}

// person is somebody else, so that a group has a member.
func (r *repo) person() groups.Member {
	r.Helper()
	r.files[groups.PersonFile("alice")] = &fstest.MapFile{Data: []byte(fresh(r.T).Recipient().String() + "\n")}
	return groups.Member{Kind: groups.Person, Name: "alice"}
}

func fresh(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// sealed is text sealed for a group at a path.
func (r *repo) sealed(path, group, text string) []byte {
	r.Helper()
	g, ok := r.set().Group(group)
	if !ok {
		r.Fatalf("no group %s", group)
	}
	out, err := seal.Seal([]byte(text), seal.Binding{Repository: r.id, Path: path, Groups: []seal.Epoch{{Group: group, Number: g.Epoch}}}, g.Recipient)
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// keys are what the cluster has after a poll.
func (r *repo) keys() unseal.Keys {
	r.Helper()
	list, err := r.set().Envelopes(edge)
	if err != nil {
		r.Fatal(err)
	}
	var envelopes []*api.Envelope
	for _, e := range list {
		envelopes = append(envelopes, &api.Envelope{Group: e.Group, Epoch: int32(e.Epoch), Path: e.Path, Sealed: e.Sealed})
	}
	keys, err := unseal.Cluster{Name: "edge-1", Repository: r.id, Identity: r.own}.Keys(envelopes)
	if err != nil {
		r.Fatal(err)
	}
	return keys
}

func content(t *testing.T, files fs.FS, path string) string {
	t.Helper()
	data, err := fs.ReadFile(files, path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func file(data []byte) *fstest.MapFile { return &fstest.MapFile{Data: data} }

func TestFilesForTheClustersGroupsAreOpened(t *testing.T) {
	r := newRepo(t)
	r.group("prod", nil, edge)
	r.group("everybody", nil, groups.Member{Kind: groups.Subgroup, Name: "prod"})
	bundle := fstest.MapFS{
		"web/direct.yaml":                     file(r.sealed("web/direct.yaml", "prod", "password: "+canary)),
		"web/through.yaml":                    file(r.sealed("web/through.yaml", "everybody", "token: x"+canary)),
		"web/empty":                           file(r.sealed("web/empty", "prod", "")),
		"web/plain.yaml":                      file([]byte("a: b\n")),
		".plural/groups/x/members/alice.age":  file(r.sealed("anything", "prod", "an envelope")),
		"web/.plural-is-a-name-like-any/deep": file(r.sealed("web/.plural-is-a-name-like-any/deep", "prod", "deep")),
	}
	opened, err := unseal.Files(bundle, r.keys(), true)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"web/direct.yaml": "password: " + canary, "web/through.yaml": "token: x" + canary, "web/empty": "", "web/plain.yaml": "a: b\n",
		"web/.plural-is-a-name-like-any/deep": "deep",
	} {
		if got := content(t, opened.FS, path); got != want {
			t.Errorf("%s is %q", path, got)
		}
	}
	if err := fstest.TestFS(opened.FS, "web/direct.yaml", "web/plain.yaml"); err != nil {
		t.Error(err)
	}
	for _, message := range []string{"bad value " + canary, "bad value x" + canary + "!"} {
		if got := unseal.Redact(message, opened.Values); strings.Contains(got, canary) {
			t.Errorf("%q", got)
		}
	}
}

func TestABundleWithNothingSealedStaysAsItIs(t *testing.T) {
	bundle := fstest.MapFS{"web/plain.yaml": file([]byte("a: b\n"))}
	opened, err := unseal.Files(bundle, unseal.Keys{}, false)
	if err != nil || opened.Values != nil || content(t, opened.FS, "web/plain.yaml") != "a: b\n" {
		t.Errorf("%v %v", opened, err)
	}
}

func TestWhatIsNotForThisClusterHereAndNowIsRefused(t *testing.T) {
	r := newRepo(t)
	r.group("prod", nil, edge)
	r.group("ops", nil, r.person())
	other := newRepo(t)
	other.own, other.id = r.own, strings.Repeat("4e", 16)
	other.group("prod", nil, edge)
	good := r.sealed("a.yaml", "prod", canary)
	altered := append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1)
	unbound := plainAge(t, r)
	retired := newRepo(t)
	retired.group("prod", nil, edge)
	old := retired.sealed("a.yaml", "prod", canary)
	retired.rotate("prod")
	older := unseal.Cluster{Name: "edge-1", Identity: r.own}
	unpinned, err := older.Keys(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data    []byte
		keys    unseal.Keys
		foreign bool
		want    string
	}{
		"outside the group":  {data: r.sealed("a.yaml", "ops", canary), want: "a.yaml: sealed for ops, and this cluster is in prod: plural crypto share cluster/edge-1 --group ops"},
		"swapped":            {data: r.sealed("b.yaml", "prod", canary), want: `"a.yaml" is bound to "b.yaml"`},
		"another repository": {data: other.sealed("a.yaml", "prod", canary), want: "of another repository"},
		"bound to nothing":   {data: unbound, want: `"a.yaml" is bound to nothing`},
		"altered":            {data: altered, want: "a.yaml: sealed file is damaged"},
		"cut off":            {data: good[:len(good)-5], want: "a.yaml: sealed file is damaged"},
		"retired":            {data: old, keys: retired.keys(), want: "the identity of epoch 1 of the group \"prod\" is not here, it is at 2"},
		"another's source":   {data: good, foreign: true, want: "a.yaml is sealed, and comes from another repository"},
		"not pinned":         {data: good, keys: unpinned, want: "register the cluster again"},
	} {
		keys := c.keys
		if keys.Identity == nil {
			keys = r.keys()
		}
		opened, err := unseal.Files(fstest.MapFS{"a.yaml": file(c.data)}, keys, !c.foreign)
		if err == nil || opened != nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// rotate gives a group its next identity. The cluster's envelopes unlock it as a person's would.
func (r *repo) rotate(group string) {
	r.Helper()
	list, err := r.set().Envelopes(edge)
	if err != nil {
		r.Fatal(err)
	}
	keyring, err := groups.OpenEnvelopes(r.id, list, r.own)
	if err != nil {
		r.Fatal(err)
	}
	changes, _, err := r.set().Rotate(r.id, keyring, []string{group}, nil, r.key)
	r.take(changes, err)
}

func plainAge(t *testing.T, r *repo) []byte {
	t.Helper()
	g, _ := r.set().Group("prod")
	var out bytes.Buffer
	w, err := age.Encrypt(&out, g.Recipient)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(canary)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A fleet that comes from Flux has its files sealed by sops, for a key that becomes a group's or a cluster's.
func TestFilesOfSopsAreOpened(t *testing.T) {
	const fixtures = "../../crypto/sops/testdata/"
	text, err := os.ReadFile(fixtures + "key.txt")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	bundle := fstest.MapFS{}
	for _, name := range []string{"regex.yaml", "types.json", "vars.env", "text.conf"} {
		data, err := os.ReadFile(fixtures + "sealed/" + name)
		if err != nil {
			t.Fatal(err)
		}
		bundle["web/"+name] = file(data)
	}
	asGroup := newRepo(t)
	asGroup.group("flux", ids[0], edge)
	asCluster := newRepo(t)
	asCluster.own, _ = ids[0].(*age.X25519Identity)
	for name, r := range map[string]*repo{"a group": asGroup, "the cluster": asCluster} {
		opened, err := unseal.Files(bundle, r.keys(), true)
		if err != nil {
			t.Errorf("sealed to %s: %v", name, err)
			continue
		}
		for path, want := range map[string]string{
			"regex.yaml": "password: czNjcmV0", "types.json": `"password": "s3cret`, "vars.env": "PASSWORD=s3cret", "text.conf": "password = s3cret\n",
		} {
			if got := content(t, opened.FS, "web/"+path); !strings.Contains(got, want) {
				t.Errorf("sealed to %s: %s is %q", name, path, got)
			}
		}
	}
	unsealed := unseal.Cluster{Name: "edge-1", Identity: ids[0]} // as in a repository that has no policy
	keys, err := unsealed.Keys(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unseal.Files(bundle, keys, true); err != nil {
		t.Errorf("without a repository: %v", err)
	}
	stranger := newRepo(t)
	_, err = unseal.Files(bundle, stranger.keys(), true)
	if err == nil || !strings.Contains(err.Error(), "web/regex.yaml: no identity here opens it; it is sealed to age1") {
		t.Errorf("a stranger: %v", err)
	}
	if _, err = unseal.Files(bundle, asGroup.keys(), false); err != nil {
		t.Errorf("another's source: %v", err)
	}
}

func TestABadEnvelopeTakesOneGroupAway(t *testing.T) {
	r := newRepo(t)
	r.group("prod", nil, edge)
	r.group("ops", nil, edge)
	data := r.sealed("a", "prod", "a")
	r.files[groups.EnvelopeFile("ops", edge)] = r.files[groups.EnvelopeFile("prod", edge)] // a copy, bound to its own path
	list, err := r.set().Envelopes(edge)
	if err != nil {
		t.Fatal(err)
	}
	var envelopes []*api.Envelope
	for _, e := range list {
		envelopes = append(envelopes, &api.Envelope{Group: e.Group, Epoch: int32(e.Epoch), Path: e.Path, Sealed: e.Sealed})
	}
	keys, err := unseal.Cluster{Name: "edge-1", Repository: r.id, Identity: r.own}.Keys(envelopes)
	if err == nil || !strings.Contains(err.Error(), "ops") {
		t.Errorf("err = %v", err)
	}
	if _, err := unseal.Files(fstest.MapFS{"a": file(data)}, keys, true); err != nil {
		t.Error(err)
	}
}

func TestKeysPrintAsNothing(t *testing.T) {
	r := newRepo(t)
	r.group("prod", nil, edge)
	keys := r.keys()
	for _, text := range []string{fmt.Sprint(keys), fmt.Sprintf("%v", keys), fmt.Sprintf("%+v", keys), fmt.Sprintf("%#v", keys), fmt.Sprint(keys.Cluster)} {
		if strings.Contains(text, "SECRET-KEY") || strings.Contains(text, "0x") {
			t.Errorf("%s", text)
		}
	}
}
