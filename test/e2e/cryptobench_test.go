package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/identities"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/rekey"
)

// perFile is the way whose files always differ: what it seals is different each time.
const perFile = "_process_per_file"

// BenchmarkCrypto measures what sealing costs people who use git, beside git alone, beside a filter that is one process for
// each file, and beside git-crypt where it is installed; then what it costs to let one more cluster read what ten thousand
// can. It prints as BenchmarkFleet does, and runs once.
func BenchmarkCrypto(b *testing.B) {
	if b.N > 1 {
		return
	}
	sealed(b).benchFiles("", 3)
	plain := alone(b)
	plain.git("init", "-q", "-b", "main", plain.repo)
	plain.benchFiles("_no_filter", 3)
	processPerFile(b).benchFiles(perFile, 1)
	if l := gitCrypt(b); l != nil {
		l.benchFiles("_git_crypt", 3)
	}
	benchRegister(b)
}

// sealed is a user whose installation repo seals what lies in secrets.
func sealed(tb testing.TB) *local {
	tb.Helper()
	l := alone(tb)
	l.run("init", l.repo, "--name", "demo")
	l.run("crypto", "init", "--yes", "--name", "ada")
	if tb.Failed() {
		tb.FailNow()
	}
	return l
}

// processPerFile seals with the same keys, by a command that git runs for every file.
func processPerFile(tb testing.TB) *local {
	tb.Helper()
	l := sealed(tb)
	l.git("config", "--unset", "filter.plural.process")
	l.git("config", "filter.plural.clean", filepath.Join(l.bin, "plural")+" crypto encrypt - --path %f")
	l.git("config", "filter.plural.smudge", filepath.Join(l.bin, "plural")+" crypto decrypt - --path %f")
	return l
}

// gitCrypt is nil where there is no git-crypt.
func gitCrypt(tb testing.TB) *local {
	tb.Helper()
	if _, err := exec.LookPath("git-crypt"); err != nil {
		tb.Logf("SKIPPED: the peer is not measured: %v", err)
		return nil
	}
	l := alone(tb)
	l.git("init", "-q", "-b", "main", l.repo)
	if out, err := l.command("git-crypt", "init").CombinedOutput(); err != nil {
		tb.Fatalf("git-crypt init: %v\n%s", err, out)
	}
	l.write(map[string]string{".gitattributes": "secrets/** filter=git-crypt diff=git-crypt\n"})
	return l
}

// benchFiles adds a thousand new files of 1 KiB, checks them out again, and asks for the status after all were touched.
// Each figure is the median of the rounds.
func (l *local) benchFiles(suffix string, rounds int) {
	l.t.Helper()
	var add, checkout, status []time.Duration
	for range rounds {
		files := map[string]string{}
		for i := range 1000 {
			files[fmt.Sprintf("secrets/%04d.yaml", i)] = l.random(1024)
		}
		l.write(files)
		add = append(add, l.timed("add", "-A"))
		l.git("commit", "-qnm", "Add secrets")
		for name := range files {
			l.remove(name)
		}
		checkout = append(checkout, l.timed("checkout", "-q", "--", "."))
		before := time.Now().Add(-time.Hour)
		for name, content := range files {
			l.expect(name, content)
			if err := os.Chtimes(filepath.Join(l.repo, name), before, before); err != nil {
				l.t.Fatal(err)
			}
		}
		status = append(status, l.timed("status", "--porcelain"))
		if out := l.git("status", "--porcelain"); out != "" && suffix != perFile {
			l.t.Errorf("%d files differ after touch", strings.Count(out, "\n")+1)
		}
		l.git("rm", "-rqf", "secrets")
		l.git("commit", "-qnm", "Remove secrets")
	}
	report("crypto_add_1000_files"+suffix+"_ms", middle(add), "ms")
	report("crypto_checkout_1000_files"+suffix+"_ms", middle(checkout), "ms")
	report("crypto_status_after_touch_1000"+suffix+"_ms", middle(status), "ms")
}

func middle(all []time.Duration) float64 {
	slices.Sort(all)
	return milliseconds(all[len(all)/2])
}

// timed is how long git takes, with all that it starts.
func (l *local) timed(args ...string) time.Duration {
	l.t.Helper()
	began := time.Now()
	l.git(args...)
	return time.Since(began)
}

func (l *local) random(size int) string {
	l.t.Helper()
	data := make([]byte, size/4*3)
	if _, err := rand.Read(data); err != nil {
		l.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(data)
}

func (l *local) remove(name string) {
	l.t.Helper()
	if err := os.Remove(filepath.Join(l.repo, name)); err != nil {
		l.t.Fatal(err)
	}
}

// expect fails when the work tree does not hold content.
func (l *local) expect(name, content string) {
	l.t.Helper()
	if got, err := os.ReadFile(filepath.Join(l.repo, name)); err != nil || string(got) != content {
		l.t.Fatalf("%s holds %.50q, %v; want %.50q", name, got, err, content)
	}
}

// benchRegister adds one cluster to a group of ten thousand, as plural cluster register does once it has reached the
// cluster: plan, envelope, cluster's file, one commit.
func benchRegister(b *testing.B) {
	l := sealed(b)
	const many = 10_000
	repo, err := workspace.Find(l.repo)
	if err != nil {
		b.Fatal(err)
	}
	config := filepath.Join(l.home, "config", "plural")
	keys := workspace.Keys{
		Identities: identities.Source{Dir: identities.Dir(config), Getenv: func(string) string { return "" }}.Load,
		Confirmed:  trust.Store{Dir: filepath.Join(config, "confirmed")},
	}
	fill(b, l, repo, keys, many)
	l.git("add", "-A")
	l.git("commit", "-qnm", "Register clusters")
	l.run("crypto", "groups", "confirm", "--yes")

	began := time.Now()
	editor, err := rekey.Open(repo, keys, trust.Store{Dir: filepath.Join(config, "confirmed")})
	if err != nil {
		b.Fatal(err)
	}
	registration := prepare(b, "one-more")
	plan, err := editor.AddCluster(rekey.Cluster{Name: "one-more", Age: registration.Age})
	if err != nil {
		b.Fatal(err)
	}
	if len(plan.Changes) != 1 {
		b.Errorf("adding one cluster to a group of %d touches %d files of the group", many, len(plan.Changes))
	}
	plan.Changes[register.Path("one-more")] = registration.File
	if _, err := plan.Apply(b.Context(), ""); err != nil {
		b.Fatal(err)
	}
	report("crypto_register_cluster_10000_ms", milliseconds(time.Since(began)), "ms")
	if changed := l.git("diff", "--name-only", "HEAD~1"); strings.Count(changed, "\n") != 1 {
		b.Errorf("the commit changes\n%s", changed)
	}
}

// fill gives the repo and its group n clusters.
func fill(b *testing.B, l *local, repo *workspace.Repo, keys workspace.Keys, n int) {
	b.Helper()
	repo.UseKeys(keys)
	v, err := repo.Vault(nil)
	if err != nil {
		b.Fatal(err)
	}
	ring, err := v.Keyring()
	if err != nil {
		b.Fatal(err)
	}
	files := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("edge-%05d", i)
		registration := prepare(b, name)
		files[register.Path(name)] = string(registration.File)
		key := func(string) (string, error) { return registration.Age, nil }
		member := groups.Member{Kind: groups.Cluster, Name: name}
		changes, err := v.Groups().Add(v.Policy().Repository, ring, "fleet", member, key)
		if err != nil {
			b.Fatal(err)
		}
		for path, content := range changes {
			files[path] = string(content)
		}
	}
	l.write(files)
}

func prepare(b *testing.B, cluster string) *register.Registration {
	b.Helper()
	r, err := register.Prepare(register.Request{Cluster: cluster, HubURL: "https://hub.example.com"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return r
}
