package leakcheck_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/leakcheck"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/internal/overlay"
)

// opened counts what is opened of a file system, and how much is read.
type opened struct {
	fs.FS
	files map[string]int
}

func (o opened) Open(name string) (fs.File, error) {
	file, err := o.FS.Open(name)
	return counted{file, o.files, name}, err
}

type counted struct {
	fs.File
	files map[string]int
	name  string
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.File.Read(p)
	c.files[c.name] += n
	return n, err
}

func (c counted) ReadDir(n int) ([]fs.DirEntry, error) { return c.File.(fs.ReadDirFile).ReadDir(n) }

// sealFor seals text for a path and epochs of groups, whose keys do not matter here.
func sealFor(t testing.TB, repository, path, text string, epochs ...seal.Epoch) []byte {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal.Seal([]byte(text), seal.Binding{Repository: repository, Path: path, Groups: epochs}, id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func plainAge(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := age.Encrypt(&out, identity(t).Recipient())
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// tree judges all files of a repository.
func tree(fsys fs.FS, rules leakcheck.Rules) ([]leakcheck.Finding, error) {
	var all []leakcheck.Finding
	err := fs.WalkDir(fsys, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := rules.File(fsys, path)
		if f != nil {
			all = append(all, *f)
		}
		return err
	})
	return all, err
}

func TestFileTellsEveryKind(t *testing.T) {
	prod := seal.Epoch{Group: "prod", Number: 2}
	old := seal.Epoch{Group: "prod", Number: 1}
	next := seal.Epoch{Group: "prod", Number: 3}
	dev := seal.Epoch{Group: "dev", Number: 1}
	other := strings.Repeat("f", 32)
	good := sealFor(t, repositoryID, "secrets/good", "x", prod)
	files := fstest.MapFS{
		policy.File:                  {Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: " + repositoryID + "\n  paths:\n  - {pattern: \"secrets/**\", groups: [prod]}\n")},
		groups.RecipientFile("prod"): {Data: []byte("# epoch 2\n" + identity(t).Recipient().String() + "\n")},
		"README":                     {Data: []byte(strings.Repeat("clear", 1000))},
		"secrets/good":               {Data: good},
		"secrets/empty":              {},
		"secrets/link":               {Data: []byte("good"), Mode: fs.ModeSymlink},
		"secrets/.gitignore":         {Data: []byte("*.swp\n")},
		"secrets/deep/plain":         {Data: []byte(strings.Repeat("canary", 10_000))},
		"secrets/line\nbreak":        {Data: []byte("canary")},
		"secrets/unbound":            {Data: plainAge(t, "x")},
		"secrets/moved":              {Data: good},
		"secrets/foreign":            {Data: sealFor(t, other, "secrets/foreign", "x", prod)},
		"secrets/retired":            {Data: sealFor(t, repositoryID, "secrets/retired", "x", old)},
		"secrets/ahead":              {Data: sealFor(t, repositoryID, "secrets/ahead", "x", next)},
		"secrets/groups":             {Data: sealFor(t, repositoryID, "secrets/groups", "x", dev)},
		"secrets/more":               {Data: sealFor(t, repositoryID, "secrets/more", "x", dev, prod)},
		"secrets/torn":               {Data: good[:len(good)-20]},
		"secrets/header":             {Data: []byte("age-encryption.org/v1\nwhat people write\n")},
	}
	p, err := policy.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	set, err := groups.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	seen := opened{files, map[string]int{}}
	findings, err := tree(seen, leakcheck.Rules{Policy: p, Groups: set})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"retired secrets/ahead", "plaintext secrets/deep/plain", "foreign secrets/foreign",
		"wrong-groups secrets/groups", "damaged secrets/header", "plaintext secrets/line\nbreak", "wrong-groups secrets/more",
		"moved secrets/moved", "retired secrets/retired", "damaged secrets/torn", "unbound secrets/unbound",
	}
	if diff := cmp.Diff(want, kinds(findings)); diff != "" {
		t.Error(diff)
	}
	for _, f := range findings {
		if f.Message == "" || f.Fix == "" || f.Where != "" || strings.Contains(f.String()+f.Fix, "canary") {
			t.Errorf("%+v", f)
		}
	}
	if seen.files["README"] != 0 || seen.files["secrets/deep/plain"] > 4<<10 {
		t.Errorf("read %d and %d bytes of plaintext", seen.files["README"], seen.files["secrets/deep/plain"])
	}
}

func TestPatternsThatContradictEachOtherAreNamed(t *testing.T) {
	files := fstest.MapFS{"ab": {Data: []byte("x")}}
	p, err := policy.Parse([]byte("apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: " + repositoryID + "\n  paths:\n  - {pattern: \"a*\", groups: [a]}\n  - {pattern: \"*b\", groups: [b]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree(files, leakcheck.Rules{Policy: p}); err == nil || !strings.Contains(err.Error(), `"a*" and "*b"`) {
		t.Errorf("got %v", err)
	}
}

func TestVaultProvesWhatIsOnlyClaimed(t *testing.T) {
	alice := identity(t)
	var files fs.FS = fstest.MapFS{
		policy.File:                {Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: " + repositoryID + "\n  paths:\n  - {pattern: \"secrets/**\", groups: [prod]}\n  - {pattern: \"dev/**\", groups: [dev]}\n")},
		groups.PersonFile("alice"): {Data: []byte(alice.Recipient().String() + "\n")},
		groups.PersonFile("bob"):   {Data: []byte(identity(t).Recipient().String() + "\n")},
	}
	for name, member := range map[string]string{"prod": "alice", "dev": "bob"} {
		set, err := groups.Load(files)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := set.Create(repositoryID, name, []groups.Member{{Kind: groups.Person, Name: member}}, groups.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		files = overlay.New(files, changes)
	}
	store := trust.Store{Dir: t.TempDir()}
	v, err := sealer.Open(sealer.Config{Files: files, Identities: func() ([]age.Identity, error) { return []age.Identity{alice}, nil }, Confirmed: store})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Confirm(repositoryID, v.Statement()); err != nil {
		t.Fatal(err)
	}
	good, err := v.Seal("secrets/good", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	altered := bytes.Clone(good)
	altered[len(altered)-1] ^= 1
	files = overlay.New(files, map[string][]byte{
		"secrets/good": good, "secrets/other": nil,
		"secrets/forged": sealFor(t, repositoryID, "secrets/forged", "x", seal.Epoch{Group: "prod", Number: 1}),
		"dev/unknown":    sealFor(t, repositoryID, "dev/unknown", "x", seal.Epoch{Group: "dev", Number: 1}),
	})
	rules := leakcheck.Rules{Policy: v.Policy(), Groups: v.Groups()}
	if findings, err := tree(files, rules); err != nil || len(findings) > 0 {
		t.Errorf("claims: %v, %v", findings, err)
	}
	rules.Vault = v
	files = overlay.New(files, map[string][]byte{"secrets/good": altered})
	findings, err := tree(files, rules)
	if diff := cmp.Diff([]string{"damaged secrets/forged", "damaged secrets/good"}, kinds(findings)); err != nil || diff != "" {
		t.Errorf("opened: %v, %v", diff, err)
	}
}

func TestIndexAndCommitSeeThroughAttributes(t *testing.T) {
	c := newSealed(t)
	c.smuggle(".gitattributes", "secrets/** -filter\n")
	c.smuggle("secrets/b", "canary\n")
	for name, look := range map[string]func() ([]leakcheck.Finding, error){
		"index": func() ([]leakcheck.Finding, error) { return c.rules(false).Index(t.Context(), c.repo()) },
		"HEAD": func() ([]leakcheck.Finding, error) {
			c.commit("bad")
			return c.rules(false).Commit(t.Context(), c.repo(), "HEAD")
		},
	} {
		if findings, err := look(); err != nil || strings.Join(wheres(findings), "") != "plaintext secrets/b "+name {
			t.Errorf("%v, %v", wheres(findings), err)
		}
	}
}

func TestIndexShowsConflictsSideBySide(t *testing.T) {
	c := newSealed(t)
	plain, err := c.feed("canary\n", "hash-object", "-w", "--stdin")
	if err != nil {
		t.Fatal(err)
	}
	sealed := c.git("rev-parse", ":secrets/a")
	if out, err := c.feed("0 "+zero+"\tsecrets/a\n100644 "+sealed+" 2\tsecrets/a\n100644 "+plain+" 3\tsecrets/a\n", "update-index", "--index-info"); err != nil {
		t.Fatal(out)
	}
	findings, err := c.rules(false).Index(t.Context(), c.repo())
	if err != nil || strings.Join(kinds(findings), "") != "plaintext secrets/a" {
		t.Errorf("got %v, %v", kinds(findings), err)
	}
}

func TestWorkTreeIsClearUnlessItIsLocked(t *testing.T) {
	c := newSealed(t)
	c.write("secrets/new", "untracked\n")
	c.write("secrets/ignored.swp", "ignored\n")
	c.write(".git/info/exclude", "*.swp\n")
	c.write("secrets/copy", string(sealFor(t, repositoryID, "secrets/a", "x", seal.Epoch{Group: "prod", Number: 1})))
	if err := os.Symlink("/etc/passwd", filepath.Join(c.dir, "secrets/link")); err != nil {
		t.Fatal(err)
	}
	for locked, want := range map[bool][]string{
		false: {"moved secrets/copy work tree"},
		true:  {"plaintext secrets/a work tree", "plaintext secrets/new work tree", "moved secrets/copy work tree"},
	} {
		findings, err := c.rules(false).WorkTree(t.Context(), c.repo(), locked)
		if diff := cmp.Diff(want, wheres(findings)); err != nil || diff != "" {
			t.Errorf("locked is %v: %v, %v", locked, diff, err)
		}
	}
}
