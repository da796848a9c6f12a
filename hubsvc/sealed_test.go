package hubsvc

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
)

const (
	repositoryID = "3f0c0123456789abcdef0123456789ab"
	canary       = "canary-6f1d2a7be9c04451-of-the-database"
)

const sealYAML = header + `kind: Seal
metadata: {name: seal}
spec:
  repository: ` + repositoryID + `
  paths:
  - {pattern: "secrets/**", groups: [fleet]}
  - {pattern: "**/*.secret.yaml", groups: [fleet]}
`

// contradiction are two patterns of which none is better for secrets/new.yaml.
const contradiction = `  - {pattern: "secrets/n*.yaml", groups: [fleet]}
  - {pattern: "secrets/*w.yaml", groups: [ops]}
`

// safe is an installation repo that is sealed: group fleet is for cluster a, and for alice.
type safe struct {
	t testing.TB
	// alice and cluster are private halves that the hub never sees.
	alice, cluster *age.X25519Identity
	// files are .plural as it stands.
	files map[string]string
}

func newSafe(t testing.TB) *safe {
	t.Helper()
	s := &safe{t: t, alice: identity(t), cluster: identity(t), files: map[string]string{".plural/seal.yaml": sealYAML}}
	s.files[".plural/members/alice.txt"] = s.alice.Recipient().String() + "\n"
	changes, err := s.set().Create(repositoryID, "fleet", []groups.Member{{Kind: groups.Person, Name: "alice"}, {Kind: groups.Cluster, Name: "a"}},
		groups.CreateOptions{ClusterKey: s.clusterKey})
	s.apply(changes, err)
	return s
}

func identity(t testing.TB) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (s *safe) clusterKey(string) (string, error) { return s.cluster.Recipient().String(), nil }

func (s *safe) set() *groups.Set {
	s.t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range s.files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	set, err := groups.Load(fsys)
	if err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *safe) apply(changes groups.Changes, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	for name, text := range changes {
		s.files[name] = string(text) // "" removes it, here as in origin
	}
}

// rotate gives the group a new identity.
func (s *safe) rotate() {
	s.t.Helper()
	set := s.set()
	changes, _, err := set.Rotate(repositoryID, set.Unlock(repositoryID, []age.Identity{s.alice}), []string{"fleet"}, nil, s.clusterKey)
	s.apply(changes, err)
}

// seal seals for the group as it stands.
func (s *safe) seal(path, plaintext string) string {
	s.t.Helper()
	return s.sealFor(repositoryID, path, plaintext)
}

func (s *safe) sealFor(repository, path, plaintext string) string {
	s.t.Helper()
	group, _ := s.set().Group("fleet")
	b := seal.Binding{Repository: repository, Path: path, Groups: []seal.Epoch{{Group: "fleet", Number: group.Epoch}}}
	data, err := seal.Seal([]byte(plaintext), b, group.Recipient.Recipient)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// fleet is twoServices, of which web asks for a secret, and has another among its files.
func (s *safe) fleet(key []byte) map[string]string {
	files := twoServices(key)
	maps.Copy(files, s.files)
	files["services/web.yaml"] = service("web", path("apps/web")+"  secrets: [{name: db, from: secrets/db.yaml}]\n")
	files["secrets/db.yaml"] = s.seal("secrets/db.yaml", "password: "+canary+"\n")
	files["apps/web/db.secret.yaml"] = s.seal("apps/web/db.secret.yaml", "stringData: {password: "+canary+"}\n")
	return files
}

func TestCommitWithAFileThatIsNotSealedAsItMustBeIsRefusedAsAWhole(t *testing.T) {
	s := newSafe(t)
	old := s.seal("secrets/new.yaml", "a: 1\n")
	rotated := &safe{t: t, alice: s.alice, cluster: s.cluster, files: maps.Clone(s.files)}
	rotated.rotate()
	otherGroup := strings.Replace(sealYAML, "secrets/**\", groups: [fleet]", "secrets/**\", groups: [fleet, ops]", 1)
	ops, err := s.set().Create(repositoryID, "ops", []groups.Member{{Kind: groups.Person, Name: "alice"}}, groups.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	opsFiles := map[string]string{".plural/seal.yaml": otherGroup, "secrets/new.yaml": old}
	for name, text := range ops {
		opsFiles[name] = string(text)
	}
	reseal := func(files map[string]string) map[string]string { // the fleet's own files, for the rotated group
		files["secrets/db.yaml"] = rotated.seal("secrets/db.yaml", "password: x\n")
		files["apps/web/db.secret.yaml"] = rotated.seal("apps/web/db.secret.yaml", "a: x\n")
		return files
	}
	for name, test := range map[string]struct {
		files map[string]string
		file  string
		line  int
		want  string
	}{
		"plaintext":         {map[string]string{"secrets/new.yaml": "password: " + canary}, "secrets/new.yaml", 0, "must be sealed"},
		"of another place":  {map[string]string{"secrets/new.yaml": s.seal("secrets/db.yaml", "a: 1\n")}, "secrets/new.yaml", 0, "moved, copied or swapped"},
		"of another repo":   {map[string]string{"secrets/new.yaml": s.sealFor(strings.Repeat("0", 32), "secrets/new.yaml", "a: 1\n")}, "secrets/new.yaml", 0, "another repository"},
		"of a retired key":  {reseal(merged(rotated.files, map[string]string{"secrets/new.yaml": old})), "secrets/new.yaml", 0, "epoch 1"},
		"of other groups":   {opsFiles, "secrets/new.yaml", 0, "wants fleet, ops"},
		"cut off":           {map[string]string{"secrets/new.yaml": old[:100]}, "secrets/new.yaml", 0, "damaged"},
		"policy is none":    {map[string]string{".plural/seal.yaml": sealYAML + "  color: blue\n"}, ".plural/seal.yaml", 9, "color"},
		"contradictions":    {merged(opsFiles, map[string]string{".plural/seal.yaml": sealYAML + contradiction}), ".plural/seal.yaml", 9, "equally specific"},
		"group that is not": {map[string]string{".plural/seal.yaml": sealYAML + "  - {pattern: \"more/**\", groups: [nobody]}\n"}, ".plural/seal.yaml", 9, "nobody"},
		"group in pieces":   {map[string]string{".plural/groups/fleet/recipient.txt": "# epoch 1\nnonsense\n"}, ".plural/groups/fleet/recipient.txt", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t)
			p := plans(t, o, t.TempDir())
			good := o.push(s.fleet(nil))
			p.serves(good)
			problems := p.refuses(o.push(test.files))
			i := slices.IndexFunc(problems, func(p v1.Problem) bool { return p.File == test.file })
			if i < 0 || !strings.Contains(problems[i].Message, test.want) || problems[i].Fix == "" || test.line > 0 && problems[i].Line != test.line {
				t.Errorf("problems = %+v", problems)
			}
			for _, p := range problems {
				if strings.Contains(p.Message+p.Fix, canary) {
					t.Errorf("the problem repeats the secret: %+v", p)
				}
			}
			if p.plan().desired.Served.ID != good {
				t.Error("the last good commit is gone")
			}
		})
	}
}

func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

func TestRotationWithEverythingSealedAnewIsServed(t *testing.T) {
	s, o := newSafe(t), newOrigin(t)
	p := plans(t, o, t.TempDir())
	p.serves(o.push(s.fleet(nil)))
	before, envelopes := p.on("web"), p.envelopesOf("a")
	s.rotate()
	p.serves(o.push(s.fleet(nil)))
	if after := p.on("web"); after.SecretsBundle == before.SecretsBundle || after.Key == before.Key {
		t.Error("what was sealed anew has the old key")
	}
	if after := p.envelopesOf("a"); len(after) != 1 || after[0].GetEpoch() != 2 || bytes.Equal(after[0].GetSealed(), envelopes[0].GetSealed()) {
		t.Errorf("envelopes = %v", after)
	}
	p.packs()
}

// poll is what a cluster's agent is told.
func (p *planning) envelopesOf(cluster string) []*api.Envelope {
	p.t.Helper()
	list, err := p.envelopes.last.cluster(cluster)
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

// logs keeps what the hub logs.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestHubHandsOnWhatItCanNotRead(t *testing.T) {
	s, o := newSafe(t), newOrigin(t)
	key, bearer := agent(t, "a")
	otherKey, otherBearer := agent(t, "b")
	files := s.fleet(key)
	files["clusters/b.yaml"] = cluster("b", otherKey)
	files["services/web.yaml"] = strings.Replace(files["services/web.yaml"], "matchLabels: {env: test}", "names: [a]", 1)
	o.push(files)
	opts, said := options(t, o), new(logs)
	hub := startWith(t, opts, slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	hub.ready()

	poll := hub.poll(bearer())
	web := poll.GetDeployments()[slices.IndexFunc(poll.GetDeployments(), func(d *api.Deployment) bool { return d.GetService() == "web" })]
	want := &api.Secret{Name: "db", Path: "secrets/db.yaml"}
	if len(web.GetSecrets()) != 1 || !proto.Equal(web.GetSecrets()[0], want) || !web.GetOwnRepository() {
		t.Errorf("deployment = %v", web)
	}
	if got := s.open(poll.GetEnvelopes(), hub.bundle(web.GetSecretsBundle(), bearer()), "secrets/db.yaml"); got != "password: "+canary+"\n" {
		t.Errorf("the agent reads %q", got)
	}
	if got := s.open(poll.GetEnvelopes(), hub.bundle(web.GetBundle(), bearer()), "apps/web/db.secret.yaml"); !strings.Contains(got, canary) {
		t.Errorf("the agent reads %q", got)
	}

	if other := hub.poll(otherBearer()); len(other.GetEnvelopes()) != 0 {
		t.Errorf("b gets envelopes: %v", other.GetEnvelopes())
	}
	for _, bundleKey := range []string{web.GetBundle(), web.GetSecretsBundle()} {
		if code, _ := hub.do(http.MethodGet, api.BundlePath+bundleKey, otherBearer(), nil); code != http.StatusNotFound {
			t.Errorf("b fetches %s: %d", bundleKey, code)
		}
	}

	hub.do(http.MethodGet, "/metrics", hub.token, nil)
	hub.status()
	hub.stop()
	for _, secret := range []string{canary, strings.Fields(s.alice.String())[0], s.cluster.String(), "AGE-SECRET-KEY-"} {
		searchAll(t, filepath.Dir(opts.Data), secret)
		if strings.Contains(said.String(), secret) {
			t.Errorf("the log holds %.12s…", secret)
		}
	}
	if said.String() == "" {
		t.Error("nothing was logged, so nothing was searched")
	}
}

func (r *running) poll(bearer string) *api.Poll {
	r.t.Helper()
	code, body := r.do(http.MethodGet, api.PollPath, bearer, nil)
	poll := new(api.Poll)
	if err := proto.Unmarshal(body, poll); err != nil || code != http.StatusOK {
		r.t.Fatalf("poll: %d, %v", code, err)
	}
	return poll
}

func (r *running) bundle(key, bearer string) *bundle.Files {
	r.t.Helper()
	code, body := r.do(http.MethodGet, api.BundlePath+key, bearer, nil)
	files, err := bundle.Unpack(bytes.NewReader(body), bundle.DefaultLimits())
	if err != nil || code != http.StatusOK {
		r.t.Fatalf("bundle: %d, %v", code, err)
	}
	return files
}

// open opens a file as cluster a's agent does, with what the hub handed on.
func (s *safe) open(envelopes []*api.Envelope, files fs.FS, path string) string {
	s.t.Helper()
	var list []groups.Envelope
	for _, e := range envelopes {
		list = append(list, groups.Envelope{Group: e.GetGroup(), Epoch: int(e.GetEpoch()), Path: e.GetPath(), Sealed: e.GetSealed()})
	}
	ring, err := groups.OpenEnvelopes(repositoryID, list, s.cluster)
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
	if err := errors.Join(err, binding.Check(repositoryID, path)); err != nil {
		s.t.Fatal(err)
	}
	return string(plaintext)
}

// searchAll looks for a secret in every file below dir: as it is, encoded, and in whatever can be inflated.
func searchAll(t *testing.T, dir, secret string) {
	t.Helper()
	needles := [][]byte{[]byte(secret), []byte(hex.EncodeToString([]byte(secret))), []byte(strings.ToUpper(hex.EncodeToString([]byte(secret))))}
	for shift := range 3 { // base64 looks different at each distance from a multiple of three
		padded := append(make([]byte, shift), secret...)
		encoded := base64.RawStdEncoding.EncodeToString(padded)
		needles = append(needles, []byte(encoded[4:len(encoded)-4]))
	}
	files := 0
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		for _, layer := range inflated(data) {
			for _, needle := range needles {
				if bytes.Contains(layer, needle) {
					t.Errorf("%s holds %.12s…", name, secret)
				}
			}
		}
		return nil
	})
	if err != nil || files < 5 {
		t.Errorf("searched %d files: %v", files, err)
	}
}

// inflated is data, and each stream in it that zlib, gzip or zstd can read. Git's packs hold one stream after another.
func inflated(data []byte) [][]byte {
	layers := [][]byte{data}
	for at := range data {
		var r io.Reader
		var err error
		switch rest := data[at:]; {
		case len(rest) > 2 && rest[0] == 0x78:
			r, err = zlib.NewReader(bytes.NewReader(rest))
		case bytes.HasPrefix(rest, []byte{0x1f, 0x8b}):
			r, err = gzip.NewReader(bytes.NewReader(rest))
		case bytes.HasPrefix(rest, []byte{0x28, 0xb5, 0x2f, 0xfd}):
			r, err = zstd.NewReader(bytes.NewReader(rest), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(16<<20))
		}
		if r == nil || err != nil {
			continue
		}
		layer, _ := io.ReadAll(io.LimitReader(r, 16<<20)) // as far as it goes
		layers = append(layers, layer)
	}
	return layers
}

func TestSearchFindsWhatIsHidden(t *testing.T) {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	if _, err := io.WriteString(w, "password: "+canary); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layers := inflated(append([]byte("PACK...."), packed.Bytes()...))
	if !slices.ContainsFunc(layers, func(l []byte) bool { return bytes.Contains(l, []byte(canary)) }) {
		t.Error("the search overlooks git's packs")
	}
	if diff := cmp.Diff(1, len(inflated([]byte("plain")))); diff != "" {
		t.Error(diff)
	}
}
