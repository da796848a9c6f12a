package fleetrepo

import (
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"filippo.io/age"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
)

// RepositoryID is that of the sealed repository, and Canary a secret in it.
const (
	RepositoryID = "3f0c0123456789abcdef0123456789ab"
	Canary       = "canary-6f1d2a7be9c04451-of-the-database"
)

// SealYAML says what is sealed for whom.
const SealYAML = Header + `kind: Seal
metadata: {name: seal}
spec:
  repository: ` + RepositoryID + `
  paths:
  - {pattern: "secrets/**", groups: [fleet]}
  - {pattern: "**/*.secret.yaml", groups: [fleet]}
`

// Contradiction are two patterns of which none is better for secrets/new.yaml.
const Contradiction = `  - {pattern: "secrets/n*.yaml", groups: [fleet]}
  - {pattern: "secrets/*w.yaml", groups: [ops]}
`

// Safe is an installation repo that is sealed: group fleet is for cluster a, and for alice.
type Safe struct {
	t testing.TB
	// alice and cluster are private halves that the hub never sees.
	Alice, Cluster *age.X25519Identity
	// Files are .plural as it stands.
	Files map[string]string
}

// NewSafe seals for new identities.
func NewSafe(t testing.TB) *Safe {
	t.Helper()
	s := &Safe{t: t, Alice: Identity(t), Cluster: Identity(t), Files: map[string]string{".plural/seal.yaml": SealYAML}}
	s.Files[".plural/members/alice.txt"] = s.Alice.Recipient().String() + "\n"
	changes, err := s.Set().Create(RepositoryID, "fleet", []groups.Member{{Kind: groups.Person, Name: "alice"}, {Kind: groups.Cluster, Name: "a"}},
		groups.CreateOptions{ClusterKey: s.ClusterKey})
	s.Apply(changes, err)
	return s
}

// Identity makes one.
func Identity(t testing.TB) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// ClusterKey is the recipient of every cluster.
func (s *Safe) ClusterKey(string) (string, error) { return s.Cluster.Recipient().String(), nil }

// Set are the groups as they stand.
func (s *Safe) Set() *groups.Set {
	s.t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range s.Files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	set, err := groups.Load(fsys)
	if err != nil {
		s.t.Fatal(err)
	}
	return set
}

// Apply takes changes of groups in.
func (s *Safe) Apply(changes groups.Changes, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	for name, text := range changes {
		s.Files[name] = string(text) // "" removes it, here as in origin
	}
}

// Clone is the same repository, to be changed on its own.
func (s *Safe) Clone() *Safe {
	return &Safe{t: s.t, Alice: s.Alice, Cluster: s.Cluster, Files: maps.Clone(s.Files)}
}

// Rotate gives the group a new identity.
func (s *Safe) Rotate() {
	s.t.Helper()
	set := s.Set()
	changes, _, err := set.Rotate(RepositoryID, set.Unlock(RepositoryID, []age.Identity{s.Alice}), []string{"fleet"}, nil, s.ClusterKey)
	s.Apply(changes, err)
}

// Seal seals for the group as it stands.
func (s *Safe) Seal(path, plaintext string) string {
	s.t.Helper()
	return s.SealFor(RepositoryID, path, plaintext)
}

// SealFor seals for another repository.
func (s *Safe) SealFor(repository, path, plaintext string) string {
	s.t.Helper()
	group, _ := s.Set().Group("fleet")
	b := seal.Binding{Repository: repository, Path: path, Groups: []seal.Epoch{{Group: "fleet", Number: group.Epoch}}}
	data, err := seal.Seal([]byte(plaintext), b, group.Recipient.Recipient)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// Fleet is TwoServices, of which web asks for a secret, and has another among its files.
func (s *Safe) Fleet(key []byte) map[string]string {
	files := TwoServices(key)
	maps.Copy(files, s.Files)
	files["services/web.yaml"] = Service("web", Path("apps/web")+"  secrets: [{name: db, from: secrets/db.yaml}]\n")
	files["secrets/db.yaml"] = s.Seal("secrets/db.yaml", "password: "+Canary+"\n")
	files["apps/web/db.secret.yaml"] = s.Seal("apps/web/db.secret.yaml", "stringData: {password: "+Canary+"}\n")
	return files
}

// Open opens a file as cluster a's agent does, with what the hub handed on.
func (s *Safe) Open(envelopes []*api.Envelope, files fs.FS, path string) string {
	s.t.Helper()
	var list []groups.Envelope
	for _, e := range envelopes {
		list = append(list, groups.Envelope{Group: e.GetGroup(), Epoch: int(e.GetEpoch()), Path: e.GetPath(), Sealed: e.GetSealed()})
	}
	ring, err := groups.OpenEnvelopes(RepositoryID, list, s.Cluster)
	if err != nil {
		s.t.Fatal(err)
	}
	id, err := ring.Identity("fleet", 0)
	if err != nil {
		s.t.Fatal(err)
	}
	data, err := fs.ReadFile(files, path)
	if err != nil {
		s.t.Fatal(err)
	}
	plaintext, binding, err := seal.Open(data, id)
	if err := errors.Join(err, binding.Check(RepositoryID, path)); err != nil {
		s.t.Fatal(err)
	}
	return string(plaintext)
}

// NewHubSafe is an installation repo in which secrets/hub is sealed for the hub, whose private half it gives.
func NewHubSafe(t *testing.T) (*Safe, *age.X25519Identity) {
	t.Helper()
	s, hub := NewSafe(t), Identity(t)
	s.Files[".plural/seal.yaml"] = strings.Replace(SealYAML, "  paths:\n", "  paths:\n  - {pattern: \"secrets/hub/**\", groups: [hub]}\n", 1)
	s.Files[".plural/members/the-hub.txt"] = hub.Recipient().String() + "\n"
	changes, err := s.Set().Create(RepositoryID, "hub", []groups.Member{{Kind: groups.Person, Name: "the-hub"}}, groups.CreateOptions{ClusterKey: s.ClusterKey})
	s.Apply(changes, err)
	return s, hub
}

// ForHub seals for the hub's group.
func (s *Safe) ForHub(path, plaintext string) string {
	s.t.Helper()
	group, _ := s.Set().Group("hub")
	b := seal.Binding{Repository: RepositoryID, Path: path, Groups: []seal.Epoch{{Group: "hub", Number: group.Epoch}}}
	data, err := seal.Seal([]byte(plaintext), b, group.Recipient.Recipient)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}
