package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/seal"
)

// How often a rotation is killed, and how many sealed files it has to do.
const (
	kills      = 16
	rekeyFiles = 200
)

// TestRotationThatIsKilledLosesNothingAndIsFinishedLater kills plural crypto rotate again and again. Whenever it dies, git's
// objects are sound, HEAD is wholly of the old epoch or wholly of the new one, and people's files are as they were; the
// next command brings the change to its end.
func TestRotationThatIsKilledLosesNothingAndIsFinishedLater(t *testing.T) {
	t.Parallel()
	l := alone(t)
	l.run("init", l.repo, "--name", "demo")
	r := &rekeying{l, map[string]string{}}
	for i := range rekeyFiles {
		r.plain[fmt.Sprintf("secrets/%d/db-%d.yaml", i%7, i)] = fmt.Sprintf("# of %d\npassword: %x\n", i, rand.Uint64())
	}
	l.write(r.plain)
	l.git("add", "-A")
	l.git("commit", "-qm", "Add secrets")
	began := time.Now()
	l.run("crypto", "rotate", "fleet", "--yes")
	whole := time.Since(began)
	t.Logf("a rotation takes %v", whole)

	deaths := map[string]int{}
	for n, tries := 0, 0; n < kills; tries++ {
		if tries > 10*kills {
			t.Fatalf("only %d of %d rotations died before they were done", n, tries)
		}
		delay := rand.N(whole)
		if !r.kill(delay, "crypto", "rotate", "fleet", "--yes") {
			continue
		}
		n++
		deaths[r.where()]++
		r.sound(fmt.Sprintf("killed after %v", delay))
		if n%3 == 0 && r.kill(rand.N(whole/2), "crypto", "doctor", "--fix", "--yes") {
			deaths["while it was mended, "+r.where()]++
			r.sound("killed while it was mended")
		}
		r.finish(n)
		if t.Failed() {
			t.FailNow() // what follows builds on it
		}
	}
	t.Logf("it died %v", deaths)
	r.readable()
}

// rekeying is a repository with sealed files.
type rekeying struct {
	*local
	// plain are the files as people have them.
	plain map[string]string
}

// kill starts plural and kills it after delay, with all that it has started every other time. It says whether plural died
// of it.
func (r *rekeying) kill(delay time.Duration, args ...string) bool {
	r.t.Helper()
	cmd := r.command(filepath.Join(r.bin, "plural"), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out // Wait returns when children that live on have ended, too
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if rand.IntN(2) == 0 {
		pid = -pid
	}
	timer := time.AfterFunc(delay, func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // it may have ended
	defer timer.Stop()
	err := cmd.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		r.t.Fatalf("plural %v: %v\n%s", args, err, out.Bytes())
	}
	return false
}

// where says how far the rotation had come when it died.
func (r *rekeying) where() string {
	var facts []string
	for name, fact := range map[string]string{"plural/journal.json": "with a journal", "index.lock": "holding the index"} {
		if _, err := os.Stat(filepath.Join(r.repo, ".git", name)); err == nil {
			facts = append(facts, fact)
		}
	}
	if len(facts) == 0 {
		return "before its journal"
	}
	if len(facts) == 2 {
		return "with a journal and the index"
	}
	return facts[0]
}

// sound checks what has to hold at any moment.
func (r *rekeying) sound(when string) {
	r.t.Helper()
	if out, err := r.command("git", "fsck", "--full", "--no-dangling").CombinedOutput(); err != nil || bytes.Contains(out, []byte("error")) {
		r.t.Errorf("%s: git fsck: %v\n%s", when, err, out)
	}
	for path, want := range r.plain {
		if got, err := os.ReadFile(filepath.Join(r.repo, path)); err != nil || string(got) != want {
			r.t.Errorf("%s: %s is %.80q, %v", when, path, got, err)
		}
	}
	r.epoch(when)
}

// epoch is the one that HEAD is at, with every one of its files.
func (r *rekeying) epoch(when string) int {
	r.t.Helper()
	var paths []string
	for path := range r.plain {
		paths = append(paths, path)
	}
	blobs := r.blobs("HEAD", append(paths, ".plural/groups/fleet/recipient.txt"))
	first, _, _ := strings.Cut(string(blobs[".plural/groups/fleet/recipient.txt"]), "\n")
	epoch, err := strconv.Atoi(strings.TrimPrefix(first, "# epoch "))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, path := range paths {
		binding, err := seal.Inspect(blobs[path])
		if err != nil || len(binding.Groups) != 1 || binding.Groups[0].Number != epoch || binding.Path != path {
			r.t.Errorf("%s: at epoch %d, %s is sealed for %+v: %v", when, epoch, path, binding, err)
		}
	}
	return epoch
}

// blobs reads files of a commit as git keeps them.
func (r *rekeying) blobs(rev string, paths []string) map[string][]byte {
	r.t.Helper()
	cmd := r.command("git", "cat-file", "--batch")
	cmd.Stdin = strings.NewReader(rev + ":" + strings.Join(paths, "\n"+rev+":") + "\n")
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatal(err)
	}
	blobs, reader := map[string][]byte{}, bufio.NewReader(bytes.NewReader(out))
	for _, path := range paths {
		header, err := reader.ReadString('\n')
		if err != nil {
			r.t.Fatal(err)
		}
		words := strings.Fields(header)
		size, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			r.t.Fatalf("%s: git says %q", path, header)
		}
		blob := make([]byte, size+1) // and a line feed
		if _, err := io.ReadFull(reader, blob); err != nil {
			r.t.Fatal(err)
		}
		blobs[path] = blob[:size]
	}
	return blobs
}

// finish lets a later command bring the change to its end.
func (r *rekeying) finish(n int) {
	r.t.Helper()
	before := r.epoch("before the end")
	if n%2 == 0 {
		r.run("crypto", "doctor", "--fix", "--yes")
	} else {
		r.run("crypto", "rotate", "fleet", "--yes") // of its own, after the one that was killed
		if after := r.epoch("after the end"); after <= before {
			r.t.Errorf("the epoch was %d and is %d", before, after)
		}
	}
	r.run("crypto", "status", "--check")
	r.sound("after the end")
	if out := r.git("status", "--porcelain"); out != "" {
		r.t.Errorf("after the end the work tree is not clean:\n%s", out)
	}
	for _, left := range []string{"plural/journal.json", "index.lock"} {
		if _, err := os.Stat(filepath.Join(r.repo, ".git", left)); err == nil {
			r.t.Errorf("after the end there is a %s", left)
		}
	}
}

// readable checks that a fresh clone opens every file.
func (r *rekeying) readable() {
	r.t.Helper()
	clone := *r.local
	clone.repo = filepath.Join(r.home, "clone")
	r.git("clone", "-q", r.repo, clone.repo)
	clone.run("crypto", "unlock", "--yes")
	for path, want := range r.plain {
		if got, err := os.ReadFile(filepath.Join(clone.repo, path)); err != nil || string(got) != want {
			r.t.Errorf("in a fresh clone %s is %.80q, %v", path, got, err)
		}
	}
}

// TestDeletionThatIsKilledIsFinishedAndPushedByTheNextRun is about a cluster that must not read what comes: until the
// commit is pushed, the hub serves it.
func TestDeletionThatIsKilledIsFinishedAndPushedByTheNextRun(t *testing.T) {
	t.Parallel()
	l := alone(t)
	own, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	l.run("init", l.repo, "--name", "demo")
	l.git("init", "-q", "--bare", filepath.Join(l.home, "origin"))
	l.git("remote", "add", "origin", filepath.Join(l.home, "origin"))
	r := &rekeying{l, map[string]string{}}
	for i := range rekeyFiles {
		r.plain[fmt.Sprintf("secrets/db-%d.yaml", i)] = fmt.Sprintf("password: %x\n", rand.Uint64())
	}
	l.write(r.plain)
	l.write(map[string]string{"clusters/edge-1.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-1}\nspec: {agent: {age: " + own.Recipient().String() + "}}\n"})
	l.push("Add a cluster and secrets")
	l.run("crypto", "share", "cluster/edge-1", "--group", "fleet", "--yes")
	l.git("push", "-q", "origin", "HEAD")

	cmd := l.command(filepath.Join(l.bin, "plural"), "cluster", "delete", "edge-1", "--confirm", "edge-1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(timeout); ; { // it is there for a tenth of a second
		if _, err := os.Stat(filepath.Join(l.repo, ".git/plural/journal.json")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the deletion has no journal")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the deletion was done before it was killed")
	}
	r.sound("killed")
	l.run("cluster", "delete", "edge-1", "--confirm", "edge-1")
	r.sound("after the end")
	if pushed := l.git("ls-tree", "-r", "--name-only", "origin/main", "clusters/edge-1.yaml", ".plural/groups/fleet/members/clusters"); pushed != "" {
		t.Errorf("the origin still has %s", pushed)
	}
	if out := l.git("status", "--porcelain", "--branch"); strings.Contains(out, "ahead") || strings.Contains(out, "\n") {
		t.Errorf("status is %s", out)
	}
}
