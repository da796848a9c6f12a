package groups

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/crypto/keys"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/internal/replace"
)

const repository = "0123456789abcdef0123456789abcdef"

// world is a repository with the private keys of everybody in it.
type world struct {
	t        *testing.T
	files    fstest.MapFS
	people   map[string]age.Identity
	clusters map[string]*age.X25519Identity
}

func newWorld(t *testing.T, people ...string) *world {
	t.Helper()
	w := &world{t, fstest.MapFS{}, map[string]age.Identity{}, map[string]*age.X25519Identity{}}
	for _, name := range people {
		id := generateX25519(t)
		w.person(name, id, id.Recipient().String())
	}
	return w
}

func generateX25519(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (w *world) person(name string, id age.Identity, public string) {
	w.t.Helper()
	w.people[name] = id
	changes, err := w.set().SetPerson(name, []byte("# "+name+" of the tests\n"+public+"\n"))
	w.apply(changes, err)
}

func (w *world) cluster(name string) Member {
	w.t.Helper()
	w.clusters[name] = generateX25519(w.t)
	return Member{Cluster, name}
}

func (w *world) clusterKey(name string) (string, error) {
	id, ok := w.clusters[name]
	if !ok {
		return "", errors.New("no such cluster")
	}
	return id.Recipient().String(), nil
}

func (w *world) set() *Set {
	w.t.Helper()
	s, err := Load(w.files)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) apply(changes Changes, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	for path, content := range changes {
		if content == nil {
			delete(w.files, path)
			continue
		}
		w.files[path] = &fstest.MapFile{Data: content}
	}
}

func (w *world) ring(person string) *Keyring {
	w.t.Helper()
	return w.set().Unlock(repository, []age.Identity{w.people[person]})
}

func (w *world) create(name string, members ...string) {
	w.t.Helper()
	w.apply(w.set().Create(repository, name, w.members(members), CreateOptions{ClusterKey: w.clusterKey}))
}

func (w *world) add(by, group, member string) {
	w.t.Helper()
	w.apply(w.set().Add(repository, w.ring(by), group, w.members([]string{member})[0], w.clusterKey))
}

func (w *world) rotate(by string, groups []string, remove ...string) []string {
	w.t.Helper()
	changes, rotated, err := w.set().Rotate(repository, w.ring(by), groups, w.members(remove), w.clusterKey)
	w.apply(changes, err)
	return rotated
}

func (w *world) members(texts []string) []Member {
	w.t.Helper()
	var all []Member
	for _, text := range texts {
		m, err := ParseMember(text)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// reaches says whether the identity that a ring has of a group's epoch is the one that is meant.
func reaches(t *testing.T, k *Keyring, group string, epoch int, want string) {
	t.Helper()
	id, err := k.Identity(group, epoch)
	if err != nil {
		t.Errorf("%s %d: %v", group, epoch, err)
		return
	}
	if got := publicOf(id); got != want {
		t.Errorf("%s %d: got the identity of %s, want %s", group, epoch, got, want)
	}
}

func (w *world) recipient(group string) string {
	w.t.Helper()
	g, ok := w.set().Group(group)
	if !ok {
		w.t.Fatalf("no group %s", group)
	}
	return g.Recipient.Text
}

func TestMembersReachTheirGroupAndOthersLearnWhoDoes(t *testing.T) {
	w := newWorld(t, "alice", "bob", "carol")
	w.create("prod", "alice", "bob")
	for _, name := range []string{"alice", "bob"} {
		reaches(t, w.ring(name), "prod", 0, w.recipient("prod"))
		if diff := cmp.Diff([]string{"prod"}, w.ring(name).Groups()); diff != "" {
			t.Error(diff)
		}
	}
	_, err := w.ring("carol").Identity("prod", 0)
	var none *NotMemberError
	if !errors.As(err, &none) || !strings.Contains(err.Error(), `"prod"; its readers are alice, bob`) {
		t.Errorf("got %v", err)
	}
	if _, err := w.ring("alice").Identity("staging", 0); err == nil || errors.As(err, &none) {
		t.Errorf("a group that does not exist: %v", err)
	}
	if _, err := w.ring("alice").Identity("prod", 2); err == nil || !strings.Contains(err.Error(), "pull") {
		t.Errorf("an epoch that does not exist yet: %v", err)
	}
}

func TestAddTouchesOneFile(t *testing.T) {
	w := newWorld(t, "alice", "bob")
	w.create("prod", "alice")
	for _, m := range []Member{{Person, "bob"}, w.cluster("edge-1")} {
		changes, err := w.set().Add(repository, w.ring("alice"), "prod", m, w.clusterKey)
		if got := slices.Collect(maps.Keys(changes)); err != nil || !slices.Equal(got, []string{EnvelopeFile("prod", m)}) {
			t.Errorf("%s: got %v, %v", m, got, err)
		}
		w.apply(changes, err)
	}
	reaches(t, w.ring("bob"), "prod", 0, w.recipient("prod"))
	if got := w.set().groups["prod"].Members; !slices.Equal(got, w.members([]string{"alice", "bob", "cluster/edge-1"})) {
		t.Errorf("got %v", got)
	}
}

func TestAddNeedsAMemberAndAKey(t *testing.T) {
	w := newWorld(t, "alice", "bob")
	w.create("prod", "alice")
	set := w.set()
	var none *NotMemberError
	if _, err := set.Add(repository, w.ring("bob"), "prod", Member{Person, "bob"}, nil); !errors.As(err, &none) {
		t.Errorf("by one who is no member: %v", err)
	}
	for _, tt := range []struct {
		group  string
		member Member
		want   string
	}{
		{"none", Member{Person, "bob"}, `no group "none"`},
		{"prod", Member{Person, "dave"}, ".plural/members/dave.txt"},
		{"prod", Member{Person, "../dave"}, "bad name"},
		{"prod", Member{Person, "Alice"}, `one file with "alice"`},
		{"prod", Member{Cluster, "edge"}, "no such cluster"},
		{"prod", Member{Subgroup, "none"}, `no group "none"`},
		{"prod", Member{Subgroup, "prod"}, "groups do not contain each other"},
	} {
		if _, err := set.Add(repository, w.ring("alice"), tt.group, tt.member, w.clusterKey); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s to %s: got %v, want %q", tt.member, tt.group, err, tt.want)
		}
	}
}

func TestSetPersonReplacesOnesOwnKeysAndNobodyElses(t *testing.T) {
	w := newWorld(t, "alice", "bob")
	text := []byte(generateX25519(t).Recipient().String() + "\n")
	changes, err := w.set().SetPerson("alice", text)
	if want := (Changes{PersonFile("alice"): text}); err != nil || !cmp.Equal(changes, want) {
		t.Errorf("new keys: got %v, %v", changes, err)
	}
	for name, want := range map[string]string{
		"Alice": `one file with "alice"`, "../alice": "bad name", "../../plural.yaml": "bad name", "": "the name is empty",
	} {
		if changes, err := w.set().SetPerson(name, text); changes != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v", name, changes, err)
		}
	}
}

// A keyring that was made before a rotation holds the identity that whoever was removed has too.
func TestAKeyringFromBeforeARotationSealsNothingForAnybody(t *testing.T) {
	w := newWorld(t, "alice", "bob")
	w.create("prod", "alice")
	stale := w.ring("alice")
	reaches(t, stale, "prod", 0, w.recipient("prod"))
	w.rotate("alice", []string{"prod"})
	const want = `the keyring's identity of the group "prod" is not that of .plural/groups/prod/recipient.txt`
	if changes, err := w.set().Add(repository, stale, "prod", Member{Person, "bob"}, nil); changes != nil || err == nil ||
		err.Error() != want {
		t.Errorf("add: got %v, %v", changes, err)
	}
	if changes, _, err := w.set().Rotate(repository, stale, []string{"prod"}, nil, nil); changes != nil || err == nil || err.Error() != want {
		t.Errorf("rotate: got %v, %v", changes, err)
	}
}

func TestAnEnvelopeThatCannotBeSealedIsAnErrorAndNoEmptyFile(t *testing.T) {
	w := newWorld(t, "alice")
	if _, err := w.set().Create("not an id", "prod", w.members([]string{"alice"}), CreateOptions{}); err == nil ||
		!strings.Contains(err.Error(), EnvelopeFile("prod", Member{Person, "alice"})) {
		t.Errorf("got %v", err)
	}
}

func TestClustersHaveKeysOfAge(t *testing.T) {
	w := newWorld(t, "alice")
	w.create("prod", "alice")
	const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKcWnnLxtY0o8G6VtmTGNM0fTyvn3CWrXXBLHsGdvNmZ"
	for text, want := range map[string]string{
		"":         `key of cluster "edge-1": `,
		"age1nope": `key of cluster "edge-1": `,
		sshKey:     "want an age recipient (age1...), found one of the kind ssh-ed25519",
	} {
		_, err := w.set().Add(repository, w.ring("alice"), "prod", Member{Cluster, "edge-1"}, func(string) (string, error) { return text, nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	hybrid, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for _, public := range []string{generateX25519(t).Recipient().String(), hybrid.Recipient().String()} {
		w.apply(w.set().Add(repository, w.ring("alice"), "prod", Member{Cluster, "edge-1"}, func(string) (string, error) { return public, nil }))
	}
}

func TestClustersOpenWhatTheHubForwards(t *testing.T) {
	w := newWorld(t, "alice")
	edge := w.cluster("edge-1")
	w.create("base", "alice", "cluster/edge-1")
	w.create("prod", "alice", "group/base")
	w.create("other", "alice")
	list, err := w.set().Envelopes(edge)
	if err != nil {
		t.Fatal(err)
	}
	k, err := OpenEnvelopes(repository, list, w.clusters["edge-1"])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"base", "prod"}, k.Groups()); diff != "" {
		t.Error(diff)
	}
	reaches(t, k, "prod", 1, w.recipient("prod"))
	var none *NotMemberError
	if _, err := k.Identity("other", 0); !errors.As(err, &none) {
		t.Errorf("got %v", err)
	}
}

func TestOpenEnvelopesRefusesWhatIsBoundElsewhereAndKeepsTheRest(t *testing.T) {
	w := newWorld(t, "alice")
	edge := w.cluster("edge-1")
	w.create("a", "alice", "cluster/edge-1")
	w.create("b", "alice", "cluster/edge-1")
	good, err := w.set().Envelopes(edge)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Envelope){
		"the other group's content": func(e *Envelope) { e.Sealed = good[1].Sealed },
		"the other group's path":    func(e *Envelope) { e.Path = good[1].Path },
		"another member's path":     func(e *Envelope) { e.Path = EnvelopeFile("a", Member{Cluster, "edge-2"}) },
		"a path for a group":        func(e *Envelope) { e.Group = "../groups/a" },
		"another epoch":             func(e *Envelope) { e.Epoch = 2 },
		"no envelope's path":        func(e *Envelope) { e.Path = RecipientFile("a") },
		"not sealed":                func(e *Envelope) { e.Sealed = []byte("AGE-SECRET-KEY-1") },
		"truncated":                 func(e *Envelope) { e.Sealed = e.Sealed[:len(e.Sealed)-1] },
		"huge":                      func(e *Envelope) { e.Sealed = make([]byte, maxEnvelope+1) },
	} {
		list := slices.Clone(good)
		spoil(&list[0])
		k, err := OpenEnvelopes(repository, list, w.clusters["edge-1"])
		if err == nil {
			t.Errorf("%s: taken", name)
		}
		if got := k.Groups(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("%s: opened %v", name, got)
		}
	}
	if k, err := OpenEnvelopes(strings.Repeat("f", 32), good, w.clusters["edge-1"]); err == nil || len(k.Groups()) > 0 {
		t.Errorf("of another repository: %v, %v", k.Groups(), err)
	}
}

// Whoever knows a cluster's public key can seal for it. What they make passes only at the path of an envelope.
func TestOpenEnvelopesTakesNothingFromWhereNoEnvelopeLies(t *testing.T) {
	edge := generateX25519(t)
	forge := func(group, path string) Envelope {
		sealed, err := sealIdentity(label{repository, path, seal.Epoch{Group: group, Number: 1}}, generateX25519(t),
			[]age.Recipient{edge.Recipient()})
		if err != nil {
			t.Fatal(err)
		}
		return Envelope{group, 1, path, sealed}
	}
	good := EnvelopeFile("a", Member{Cluster, "edge-1"})
	if k, err := OpenEnvelopes(repository, []Envelope{forge("a", good)}, edge); err != nil || !slices.Equal(k.Groups(), []string{"a"}) {
		t.Fatalf("at its path: %v, %v", k.Groups(), err)
	}
	for _, e := range []Envelope{
		forge("a", "secrets/a.age"), forge("a", EnvelopeFile("b", Member{Cluster, "edge-1"})),
		forge("a", ".plural/groups/a/members/clusters/x/edge-1.age"),
		forge("-a", EnvelopeFile("-a", Member{Cluster, "edge-1"})),
	} {
		if k, err := OpenEnvelopes(repository, []Envelope{e}, edge); err == nil || len(k.Groups()) > 0 {
			t.Errorf("%s: opened %v, %v", e.Path, k.Groups(), err)
		}
	}
}

func TestOpenEnvelopesIsBounded(t *testing.T) {
	edge := generateX25519(t)
	path := EnvelopeFile("a", Member{Cluster, "edge-1"})
	long := strings.Repeat("# a comment\n", maxEnvelope/12) + generateX25519(t).String() + "\n"
	sealed, err := seal.Seal([]byte(long), seal.Binding{
		Repository: repository, Path: path,
		Groups: []seal.Epoch{{Group: "a", Number: 1}},
	}, edge.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	if k, err := OpenEnvelopes(repository, []Envelope{{"a", 1, path, sealed}}, edge); err == nil || len(k.Groups()) > 0 {
		t.Errorf("a large one: opened %v, %v", k.Groups(), err)
	}
	if _, err := OpenEnvelopes(repository, make([]Envelope, MaxGroups+1), edge); err == nil || err.Error() != "more than 1000 envelopes" {
		t.Errorf("many: %v", err)
	}
}

func TestABadEnvelopeTakesNoGoodOneAway(t *testing.T) {
	w := newWorld(t, "alice")
	edge := w.cluster("edge-1")
	w.create("a", "alice", "cluster/edge-1")
	w.create("outer", "alice", "group/a")
	list, err := w.set().Envelopes(edge)
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	good, outer, bad := list[0], list[1], list[0]
	bad.Sealed = bad.Sealed[:len(bad.Sealed)-1]
	for name, tt := range map[string]struct {
		list []Envelope
		want []string
	}{
		"good, bad":            {[]Envelope{good, bad}, []string{"a"}},
		"bad, good":            {[]Envelope{bad, good}, []string{"a"}},
		"bad":                  {[]Envelope{bad}, nil},
		"outer after bad":      {[]Envelope{bad, outer}, nil},
		"outer before its way": {[]Envelope{outer, good}, []string{"a"}},
	} {
		k, err := OpenEnvelopes(repository, tt.list, w.clusters["edge-1"])
		if err == nil || !slices.Equal(k.Groups(), tt.want) {
			t.Errorf("%s: opened %v, %v", name, k.Groups(), err)
		}
		if tt.want != nil {
			reaches(t, k, "a", 1, w.recipient("a"))
			continue
		}
		if _, err := k.Identity("a", 0); !errors.Is(err, seal.ErrDamaged) {
			t.Errorf("%s: the group says %v", name, err)
		}
	}
}

func TestAKeyringOfEnvelopesHasNoOlderIdentities(t *testing.T) {
	w := newWorld(t, "alice")
	edge := w.cluster("edge-1")
	w.create("a", "alice", "cluster/edge-1")
	w.rotate("alice", []string{"a"})
	list, err := w.set().Envelopes(edge)
	if err != nil {
		t.Fatal(err)
	}
	k, err := OpenEnvelopes(repository, list, w.clusters["edge-1"])
	if err != nil {
		t.Fatal(err)
	}
	reaches(t, k, "a", 2, w.recipient("a"))
	if id, err := k.Identity("a", 1); id != nil || err == nil || !strings.Contains(err.Error(), "epoch 1") {
		t.Errorf("got %v, %v", id, err)
	}
}

func TestEnvelopesThatCannotBeReadAreAnError(t *testing.T) {
	w := newWorld(t, "alice")
	w.create("a", "alice")
	w.files[EnvelopeFile("a", Member{Person, "alice"})] = &fstest.MapFile{Data: make([]byte, maxEnvelope+1)}
	if list, err := w.set().Envelopes(Member{Person, "alice"}); list != nil || err == nil {
		t.Errorf("got %v, %v", list, err)
	}
}

func TestAnEnvelopeHoldsOneIdentity(t *testing.T) {
	one, other := generateX25519(t).String(), generateX25519(t).String()
	if id, err := parseIdentity("x", []byte("# group a epoch 1\n"+one+"\n")); err != nil || id.String() != one {
		t.Errorf("got %v", err)
	}
	for name, text := range map[string]string{
		"none": "# group a epoch 1\n", "two": one + "\n" + other + "\n", "something else": "x\n",
		"one and more": one + "\nx\n",
	} {
		if id, err := parseIdentity("x", []byte(text)); id != nil || err == nil {
			t.Errorf("%s: taken, %v", name, err)
		}
	}
}

func TestGroupsInGroups(t *testing.T) {
	w := newWorld(t, "alice", "bob", "carol")
	w.create("ops", "bob")
	w.create("prod", "alice", "group/ops")
	w.create("vault", "carol", "group/prod")
	set := w.set()
	if diff := cmp.Diff([]string{"ops", "prod", "vault"}, set.GroupsOf(Member{Person, "bob"})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"prod", "vault"}, set.GroupsOf(Member{Person, "alice"})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(w.members([]string{"alice", "bob", "carol"}), set.ReadersOf("vault")); diff != "" {
		t.Error(diff)
	}
	for _, group := range []string{"ops", "prod", "vault"} {
		reaches(t, w.ring("bob"), group, 0, w.recipient(group))
	}
	if _, err := set.Add(repository, w.ring("bob"), "ops", Member{Subgroup, "vault"}, nil); err == nil || !strings.Contains(err.Error(), "do not contain each other") {
		t.Errorf("a cycle: got %v", err)
	}
}

func TestLoadRefusesGroupsThatContainEachOther(t *testing.T) {
	w := newWorld(t, "alice")
	w.create("a", "alice")
	w.create("b", "group/a")
	w.create("c", "group/b")
	w.files[EnvelopeFile("a", Member{Subgroup, "c"})] = &fstest.MapFile{Data: []byte("merged from another branch")}
	_, err := Load(w.files)
	if err == nil || !strings.Contains(err.Error(), "contain each other: remove one envelope, like .plural/groups/") {
		t.Errorf("got %v", err)
	}
	delete(w.files, EnvelopeFile("a", Member{Subgroup, "c"}))
	w.files[EnvelopeFile("a", Member{Subgroup, "a"})] = &fstest.MapFile{Data: []byte("x")}
	if _, err := Load(w.files); err == nil || !strings.Contains(err.Error(), EnvelopeFile("a", Member{Subgroup, "a"})) {
		t.Errorf("a group in itself: got %v", err)
	}
}

func TestRemovedMembersReachNothingNew(t *testing.T) {
	w := newWorld(t, "alice", "bob")
	w.create("ops", "alice", "bob")
	w.create("prod", "alice", "group/ops")
	w.create("dev", "alice")
	before := map[string]string{"ops": w.recipient("ops"), "prod": w.recipient("prod"), "dev": w.recipient("dev")}
	bobs := w.ring("bob")
	hoard := []age.Identity{w.people["bob"]}
	for _, group := range []string{"ops", "prod"} {
		id, err := bobs.Identity(group, 0)
		if err != nil {
			t.Fatal(err)
		}
		hoard = append(hoard, id)
	}

	rotated := w.rotate("alice", []string{"ops"}, "bob")
	if diff := cmp.Diff([]string{"ops", "prod"}, rotated); diff != "" {
		t.Errorf("groups that contain the group rotate with it: %s", diff)
	}
	if w.recipient("dev") != before["dev"] {
		t.Error("a group that has nothing to do with it was rotated")
	}
	for _, group := range rotated {
		if w.recipient(group) == before[group] {
			t.Errorf("%s was not rotated", group)
		}
		if _, err := w.set().Unlock(repository, hoard).Identity(group, 0); err == nil {
			t.Errorf("the removed member reaches %s", group)
		}
		reaches(t, w.ring("alice"), group, 2, w.recipient(group))
		reaches(t, w.ring("alice"), group, 1, before[group])
	}
	if _, there := w.files[EnvelopeFile("ops", Member{Person, "bob"})]; there {
		t.Error("the envelope is still there")
	}
	// Every file of the groups is tried with everything the removed member ever had.
	for name, file := range w.files {
		if !strings.HasSuffix(name, sealedExt) {
			continue
		}
		for _, group := range rotated {
			if text, _, err := seal.Open(file.Data, hoard...); err == nil && strings.Contains(string(text), "# group "+group+" epoch 2") {
				t.Errorf("the removed member opens %s", name)
			}
		}
	}
}

func TestRotateKeepsTheWayToAllOlderIdentities(t *testing.T) {
	w := newWorld(t, "alice", "bob")
	w.create("prod", "alice")
	recipients := []string{w.recipient("prod")}
	for range 4 {
		w.rotate("alice", []string{"prod"})
		recipients = append(recipients, w.recipient("prod"))
	}
	w.add("alice", "prod", "bob")
	k := w.ring("bob")
	for i, want := range recipients {
		reaches(t, k, "prod", i+1, want)
	}
	delete(w.files, retiredFile("prod", 2))
	k = w.ring("bob")
	reaches(t, k, "prod", 3, recipients[2])
	if _, err := k.Identity("prod", 1); err == nil || !strings.Contains(err.Error(), retiredFile("prod", 2)) {
		t.Errorf("a missing link is not named: %v", err)
	}
}

func TestRotateRefusesWhatWouldNotHelp(t *testing.T) {
	w := newWorld(t, "alice", "bob", "carol")
	w.create("ops", "bob")
	w.create("prod", "alice", "group/ops")
	w.create("solo", "carol", "group/prod")
	for _, tt := range []struct {
		by, group string
		remove    []string
		want      string
	}{
		{"alice", "none", nil, `no group "none"`},
		{"alice", "prod", []string{"dave"}, `"dave" is no member of prod`},
		{"bob", "prod", []string{"bob"}, `through the group "ops": remove it there`},
		{"bob", "ops", []string{"bob"}, "no member left"},
		{"carol", "prod", []string{"alice"}, `no identity here reaches the group "prod"`},
	} {
		_, _, err := w.set().Rotate(repository, w.ring(tt.by), []string{tt.group}, w.members(tt.remove), w.clusterKey)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s from %s: got %v, want %q", tt.remove, tt.group, err, tt.want)
		}
	}
}

func TestEnvelopesBoundElsewhereAreRefused(t *testing.T) {
	w := newWorld(t, "alice", "bob")
	w.create("a", "alice", "bob")
	w.create("b", "alice", "bob")
	at := EnvelopeFile("a", Member{Person, "alice"})
	good := w.files[at].Data
	alice, err := keys.ParseRecipient(publicOf(w.people["alice"]))
	if err != nil {
		t.Fatal(err)
	}
	forge := func(repository, path, group string, epoch int) []byte {
		sealed, err := sealIdentity(label{repository, path, seal.Epoch{Group: group, Number: epoch}}, generateX25519(t), []age.Recipient{alice})
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	text, err := seal.Seal([]byte("not an identity"), seal.Binding{Repository: repository, Path: at, Groups: []seal.Epoch{{Group: "a", Number: 1}}}, alice)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		content []byte
		moved   bool
	}{
		{"that of another group", w.files[EnvelopeFile("b", Member{Person, "alice"})].Data, true},
		{"from another repository", forge(strings.Repeat("f", 32), at, "a", 1), true},
		{"of another epoch", forge(repository, at, "a", 2), false},
		{"of a group of another name", forge(repository, at, "b", 1), false},
		{"an identity that somebody made up", forge(repository, at, "a", 1), false},
		{"no identity", text, false},
		{"damaged", good[:len(good)-3], false},
		{"huge", make([]byte, maxEnvelope+1), false},
	} {
		w.files[at] = &fstest.MapFile{Data: tt.content}
		id, err := w.ring("alice").Identity("a", 0)
		var bound *seal.BindingError
		var none *NotMemberError
		if id != nil || err == nil || errors.As(err, &none) || errors.As(err, &bound) != tt.moved || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: got %v", tt.name, err)
		}
		if strings.Contains(err.Error(), "AGE-SECRET") {
			t.Errorf("%s: the error holds a key", tt.name)
		}
	}
	w.files[at] = w.files[EnvelopeFile("a", Member{Person, "bob"})]
	var none *NotMemberError
	if _, err := w.ring("alice").Identity("a", 0); !errors.As(err, &none) {
		t.Errorf("an envelope for somebody else: %v", err)
	}
}

func TestRetiredIdentitiesBoundElsewhereAreRefused(t *testing.T) {
	w := newWorld(t, "alice")
	w.create("a", "alice")
	w.rotate("alice", []string{"a"})
	w.rotate("alice", []string{"a"})
	w.files[retiredFile("a", 2)], w.files[retiredFile("a", 1)] = w.files[retiredFile("a", 1)], w.files[retiredFile("a", 2)]
	if id, err := w.ring("alice").Identity("a", 1); id != nil || err == nil {
		t.Errorf("got %v", err)
	}
}

func TestIdentitiesThatDoNotTellTheirPublicHalfAreTriedOnAllPeople(t *testing.T) {
	w := newWorld(t, "alice", "bob", "carol")
	w.create("prod", "alice", "bob")
	hidden := func(name string) *Keyring {
		return w.set().Unlock(repository, []age.Identity{struct{ age.Identity }{w.people[name]}})
	}
	reaches(t, hidden("bob"), "prod", 0, w.recipient("prod"))
	var none *NotMemberError
	if _, err := hidden("carol").Identity("prod", 0); !errors.As(err, &none) {
		t.Errorf("got %v", err)
	}
}

func TestTheGroupsOwnIdentityReachesIt(t *testing.T) {
	w := newWorld(t, "alice")
	imported := generateX25519(t)
	w.apply(w.set().Create(repository, "fleet", w.members([]string{"alice"}), CreateOptions{Identity: imported}))
	if w.recipient("fleet") != imported.Recipient().String() {
		t.Error("the group has another identity")
	}
	reaches(t, w.set().Unlock(repository, []age.Identity{imported}), "fleet", 0, w.recipient("fleet"))
	reaches(t, w.ring("alice"), "fleet", 1, w.recipient("fleet"))
	if _, err := w.set().Create(repository, "again", w.members([]string{"alice"}), CreateOptions{Identity: imported}); err == nil {
		t.Error("two groups have one identity")
	}
	hybrid, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	w.apply(w.set().Create(repository, "pq", w.members([]string{"alice"}), CreateOptions{Identity: hybrid, PostQuantum: true}))
	reaches(t, w.ring("alice"), "pq", 1, hybrid.Recipient().String())
	for name, o := range map[string]CreateOptions{
		"not post-quantum": {Identity: generateX25519(t), PostQuantum: true},
		"of a plugin":      {Identity: struct{ age.Identity }{imported}},
	} {
		if _, err := w.set().Create(repository, "x", w.members([]string{"alice"}), o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestMembersWithSSHKeys(t *testing.T) {
	w := newWorld(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]any{"ed": ed, "rsa": rsaKey} {
		block, err := ssh.MarshalPrivateKey(key, "")
		if err != nil {
			t.Fatal(err)
		}
		ids, err := keys.ParseIdentities(name, pem.EncodeToMemory(block), nil)
		if err != nil {
			t.Fatal(err)
		}
		w.person(name, ids[0], publicOf(ids[0])+" "+name+"@laptop")
	}
	w.create("prod", "ed", "rsa")
	for _, name := range []string{"ed", "rsa"} {
		reaches(t, w.ring(name), "prod", 0, w.recipient("prod"))
	}
}

func TestPostQuantumGroupsStayAmongThemselves(t *testing.T) {
	w := newWorld(t, "alice")
	hybrid, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	w.person("pq", hybrid, hybrid.Recipient().String())
	w.create("old", "alice", "pq")
	for _, name := range []string{"new", "newer"} {
		w.apply(w.set().Create(repository, name, w.members([]string{"alice", "pq"}), CreateOptions{PostQuantum: true}))
	}
	w.rotate("pq", []string{"new"})
	if g, _ := w.set().Group("new"); g.Recipient.Kind != keys.AgePQ || g.Epoch != 2 {
		t.Errorf("after rotation: %s %d", g.Recipient.Kind, g.Epoch)
	}
	reaches(t, w.ring("pq"), "new", 1, publicOf(mustIdentity(t, w.ring("alice"), "new", 1)))
	for line, want := range map[string]string{
		"[new, newer]": "",
		"[old]":        "",
		"[new, old]":   `.plural/seal.yaml:6: the pattern "s/**" names the groups "new" and "old", only one of which is post-quantum`,
		"[none]":       `.plural/seal.yaml:6: the pattern "s/**" names the group "none", which does not exist`,
	} {
		p, err := policy.Parse([]byte("apiVersion: plural.sh/v1alpha1\nkind: Seal\nspec:\n  repository: " + `"` + repository + `"` + "\n  paths:\n  - {pattern: s/**, groups: " + line + "}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.set().Check(p); (want == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
	if _, err := w.set().SetPerson("both", []byte(w.recipient("old")+"\n"+w.recipient("new")+"\n")); err == nil || !strings.Contains(err.Error(), "post-quantum key stands beside") {
		t.Errorf("keys of both kinds: %v", err)
	}
}

func mustIdentity(t *testing.T, k *Keyring, group string, epoch int) age.Identity {
	t.Helper()
	id, err := k.Identity(group, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestCreateRefuses(t *testing.T) {
	w := newWorld(t, "alice")
	w.create("prod", "alice")
	for _, tt := range []struct{ name, member, want string }{
		{"prod", "alice", "exists already"},
		{"Prod", "alice", `one file with "prod"`},
		{"a/b", "alice", "bad name"},
		{"aux", "alice", "device"},
		{"x", "bob", ".plural/members/bob.txt"},
		{"x", "group/x", "groups do not contain each other"},
		{"x", "cluster/x", "is not at hand"},
	} {
		if _, err := w.set().Create(repository, tt.name, w.members([]string{tt.member}), CreateOptions{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := w.set().Create(repository, "empty", nil, CreateOptions{}); err == nil {
		t.Error("a group of nobody was made")
	}
}

func TestLoadNamesThePlaceOfAMistake(t *testing.T) {
	w := newWorld(t, "alice")
	w.create("prod", "alice")
	good := w.recipient("prod")
	for _, tt := range []struct{ file, content, want string }{
		{RecipientFile("prod"), "# epoch 1\n", ".plural/groups/prod/recipient.txt:1: no public key"},
		{RecipientFile("prod"), "", ".plural/groups/prod/recipient.txt:1: no epoch"},
		{RecipientFile("prod"), good + "\n", ".plural/groups/prod/recipient.txt:1: no epoch"},
		{RecipientFile("prod"), "# epoch 0\n" + good, ":1: bad epoch \"0\""},
		{RecipientFile("prod"), "# epoch 01\n" + good, ":1: bad epoch \"01\""},
		{RecipientFile("prod"), "# epoch 99999999999999999999\n" + good, ":1: bad epoch"},
		{RecipientFile("prod"), "# epoch 1\n# epoch 2\n" + good, ":2: a second epoch"},
		{RecipientFile("prod"), "# epoch 1\n" + good + "\n\n" + good, ":4: a second public key"},
		{RecipientFile("prod"), "# epoch 1\nage1nonsense\n", ".plural/groups/prod/recipient.txt:2: "},
		{RecipientFile("prod"), "# epoch 1\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKcWnnLxtY0o8G6VtmTGNM0fTyvn3CWrXXBLHsGdvNmZ\n", ":2: a public key of the kind ssh-ed25519"},
		{RecipientFile("prod"), strings.Repeat("#\n", 40_000), "larger than 64 KiB"},
		{RecipientFile("pr\x1bod"), "# epoch 1\n" + good, `.plural/groups: bad name "pr\x1bod"`},
		{RecipientFile("PROD"), "# epoch 1\n" + good, `"PROD" and "prod" differ in case only`},
		{EnvelopeFile("staging", Member{Person, "alice"}), "", ".plural/groups/staging/recipient.txt: file not found"},
		{EnvelopeFile("prod", Member{Person, "ALICE"}), "", `"ALICE" and "alice" differ in case only`},
		{EnvelopeFile("prod", Member{Cluster, "con"}), "", "members/clusters: bad name \"con\""},
		{PersonFile("bob"), "# nobody\n", ".plural/members/bob.txt: holds no public key"},
		{PersonFile("bob"), "\n\nage1\n", ".plural/members/bob.txt:3: "},
		{PersonFile("bob"), "\nAGE-SECRET-KEY-1XYZ\n", ".plural/members/bob.txt:2: "},
		{PersonFile("Alice"), good, `.plural/members: the names "Alice" and "alice" differ in case only`},
		{PersonFile("a b"), good, `.plural/members: bad name "a b"`},
		{PersonFile("bob"), strings.Repeat("#\n", 40_000), ".plural/members/bob.txt: the file is larger than 64 KiB"},
		{".plural/groups", "", "list .plural/groups: "}, // a file
		{".plural/members", "", "list .plural/members: "},
	} {
		files := maps.Clone(w.files)
		files[tt.file] = &fstest.MapFile{Data: []byte(tt.content)}
		_, err := Load(files)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %.40q: got %v, want %q", tt.file, tt.content, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET-KEY-1XYZ") {
			t.Errorf("the error holds a key: %v", err)
		}
	}
}

func TestLoadRefusesALinkInPlaceOfAFile(t *testing.T) {
	w := newWorld(t, "alice")
	w.create("prod", "alice")
	for _, file := range []string{PersonFile("eve"), EnvelopeFile("prod", Member{Person, "eve"})} {
		files := maps.Clone(w.files)
		files[file] = &fstest.MapFile{Data: []byte(publicOf(w.people["alice"])), Mode: fs.ModeSymlink}
		if _, err := Load(files); err == nil || !strings.Contains(err.Error(), file+": not a regular file") {
			t.Errorf("got %v", err)
		}
	}
}

func TestLoadRefusesAFolderInPlaceOfAFile(t *testing.T) {
	w := newWorld(t, "alice")
	w.create("prod", "alice")
	w.files[RecipientFile("prod")] = &fstest.MapFile{Mode: fs.ModeDir}
	if _, err := Load(w.files); err == nil || !strings.Contains(err.Error(), RecipientFile("prod")+": not a regular file") {
		t.Errorf("got %v", err)
	}
}

func TestNoMoreNamesThanTheBound(t *testing.T) {
	if err := checkNames("dir", []string{"a", "b"}, 2); err != nil {
		t.Error(err)
	}
	if err := checkNames("dir", []string{"a", "b", "c"}, 2); err == nil || !strings.Contains(err.Error(), "more than 2 entries") {
		t.Errorf("got %v", err)
	}
	full := &Set{names: make([]string, MaxGroups)}
	if _, err := full.Create(repository, "one-more", nil, CreateOptions{}); err == nil ||
		!strings.Contains(err.Error(), "1000 groups already") {
		t.Errorf("got %v", err)
	}
}

func TestLoadTakesCRLFAndForeignFiles(t *testing.T) {
	w := newWorld(t, "alice")
	w.create("prod", "alice")
	w.files[RecipientFile("prod")] = &fstest.MapFile{Data: []byte("# epoch 1\r\n# ours\r\n" + w.recipient("prod") + "\r\n")}
	w.files[PersonFile("alice")] = &fstest.MapFile{Data: []byte("# Alice\r\n# of ops\r\n" + publicOf(w.people["alice"]) + "\r\n")}
	w.files[".plural/members/README.md"] = &fstest.MapFile{}
	w.files[".plural/groups/.gitkeep"] = &fstest.MapFile{}
	w.files[".plural/groups/prod/members/.gitkeep"] = &fstest.MapFile{}
	w.files[".plural/groups/prod/members/"+replace.Prefix+"alice"+sealedExt] = &fstest.MapFile{} // of a program that was killed
	w.files[".plural/members/"+replace.Prefix+"alice.txt"] = &fstest.MapFile{}
	reaches(t, w.ring("alice"), "prod", 1, w.recipient("prod"))
	alice, ok := w.set().Person("alice")
	if !ok || alice.Comment != "Alice\nof ops" {
		t.Errorf("got %q", alice.Comment)
	}
}

func TestLoadWithoutAnythingIsEmpty(t *testing.T) {
	set, err := Load(fstest.MapFS{})
	if err != nil || len(set.Names())+len(set.People()) > 0 || set.Statement(nil) != "" || len(set.Statement(nil).Lines()) > 0 {
		t.Errorf("got %v, %v", set, err)
	}
}

func TestStatementIsTheSameTextForTheSameFacts(t *testing.T) {
	w := newWorld(t, "bob", "alice")
	w.cluster("edge-1")
	w.create("ops", "bob")
	w.create("prod", "alice", "cluster/edge-1", "group/ops")
	p, err := policy.Parse([]byte("apiVersion: plural.sh/v1alpha1\nkind: Seal\nspec:\n  repository: " + `"` + repository + `"` +
		"\n  groups: [{name: prod, clusters: {matchLabels: {env: prod}}}]\n  paths: [{pattern: secrets/**, groups: [prod, ops]}, {pattern: 'a b', groups: [ops]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"group ops member bob",
		"group ops recipient " + w.recipient("ops") + " epoch 1",
		"group prod clusters matchLabels env=prod",
		"group prod member alice",
		"group prod member cluster/edge-1",
		"group prod member group/ops",
		"group prod recipient " + w.recipient("prod") + " epoch 1",
		`path "a b" ops`,
		"path secrets/** ops,prod",
		"person alice " + publicOf(w.people["alice"]),
		"person bob " + publicOf(w.people["bob"]),
	}, "\n") + "\n"
	if diff := cmp.Diff(want, string(w.set().Statement(p))); diff != "" {
		t.Error(diff)
	}
}

func TestParseMemberReadsWhatStringWrites(t *testing.T) {
	for _, m := range []Member{{Person, "alice"}, {Cluster, "edge-1"}, {Subgroup, "ops"}, {Person, "cluster"}} {
		if got, err := ParseMember(m.String()); err != nil || got != m {
			t.Errorf("%v: got %v, %v", m, got, err)
		}
	}
	for _, bad := range []string{"", "cluster/", "group/a/b", "a/b", "cluster/../a", " alice"} {
		if got, err := ParseMember(bad); err == nil {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}

func TestKeyringServesManyAtOnce(t *testing.T) {
	w := newWorld(t, "alice")
	w.create("ops", "alice")
	w.create("prod", "group/ops")
	w.rotate("alice", []string{"prod"})
	k := w.ring("alice")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := k.Identity("prod", i%3); err != nil {
				t.Error(err)
			}
			k.Groups()
		})
	}
	wg.Wait()
}

func TestKeysThatAreADeviceAreNotOpened(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file := &fstest.MapFile{Data: []byte(key.Recipient().String() + "\n"), Mode: fs.ModeDevice | fs.ModeCharDevice | 0o644}
	for _, name := range []string{PersonFile("alice"), RecipientFile("prod")} {
		if _, err := Load(fstest.MapFS{name: file}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
