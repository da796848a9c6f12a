//go:build release

// Package release_test owns what is checked of a whole release: what goreleaser and tools/release made, read by programs of others.
package release_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/tools/release/images"
)

// made is a release of two places, signed with a key of its own.
type made struct {
	dist, again, key, public, version string
	root                              string // the clone
}

func release(t *testing.T) *made {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	m := &made{dist: os.Getenv("PLURAL_RELEASE"), again: os.Getenv("PLURAL_RELEASE_AGAIN"), key: os.Getenv("PLURAL_RELEASE_KEY"), root: root}
	if m.dist == "" || m.again == "" || m.key == "" {
		t.Fatal("no release to check: run make release-check")
	}
	m.public = strings.TrimSuffix(m.key, ".key") + ".pub"
	var metadata struct{ Version string }
	if err := json.Unmarshal(read(t, filepath.Join(m.dist, "metadata.json")), &metadata); err != nil {
		t.Fatal(err)
	}
	m.version = metadata.Version
	return m
}

// archive is the archive of a program for this machine's kind, unpacked.
func (m *made) archive(t *testing.T, program, arch string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, nil, "tar", "-xzf", filepath.Join(m.dist, fmt.Sprintf("%s_%s_linux_%s.tar.gz", program, m.version, arch)), "-C", dir)
	return dir
}

func TestEveryArtifactIsTheSameInAnotherPlace(t *testing.T) {
	m := release(t)
	one, other := artifacts(t, m.dist), artifacts(t, m.again)
	for name, sum := range one {
		if other[name] != sum {
			t.Errorf("%s differs", name)
		}
	}
	if len(one) < 30 || len(one) != len(other) {
		t.Errorf("%d and %d artifacts", len(one), len(other))
	}
	t.Logf("bench release_same_artifacts %d of %d", len(one), len(other))
}

// artifacts are the digests of what people get. A signature is never the same twice, so signatures and what is attached are left out:
// of a layout counts what its tag names.
func artifacts(t *testing.T, dist string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dist, func(file string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dist, file)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case strings.HasPrefix(name, "oci/"):
			if d.Name() == "index.json" {
				all[name] = string(tagged(t, file))
			}
			return nil
		case strings.HasSuffix(name, ".sigstore.json"), slices.Contains([]string{"artifacts.json", "metadata.json", "config.yaml"}, name):
			return nil
		}
		all[name] = digest(t, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func tagged(t *testing.T, index string) []byte {
	t.Helper()
	var layout struct{ Manifests []json.RawMessage }
	if err := json.Unmarshal(read(t, index), &layout); err != nil || len(layout.Manifests) == 0 {
		t.Fatal(index, err)
	}
	return layout.Manifests[0]
}

func TestTheProgramVerifiesItself(t *testing.T) {
	m := release(t)
	plural := filepath.Join(m.archive(t, "plural", runtime.GOARCH), "plural")
	began := time.Now()
	out := run(t, nil, plural, "version", "--verify", "--from", m.dist, "--key", m.public)
	took := time.Since(began)
	if !bytes.Contains(out, []byte("verified: SHA-256 "+digest(t, plural))) {
		t.Errorf("%s", out)
	}
	t.Logf("bench release_verify_ms %d ms", took.Milliseconds())
	change(t, plural)
	if out, err := exec.CommandContext(t.Context(), plural, "version", "--verify", "--from", m.dist, "--key", m.public).CombinedOutput(); err == nil {
		t.Errorf("a program that was changed verifies itself: %s", out)
	}
}

// change adds a byte at the end, which no program minds.
func change(t *testing.T, file string) {
	t.Helper()
	text := read(t, file)
	if err := os.WriteFile(file, append(text, 0), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (m *made) cosign(t *testing.T, args ...string) []byte {
	t.Helper()
	return run(t, nil, needs.Program(t, filepath.Join(m.root, ".tools/cosign"), "make .tools/cosign"), args...)
}

func TestCosignVerifiesWhatIsSignedHere(t *testing.T) {
	m := release(t)
	sums := filepath.Join(m.dist, "checksums.txt")
	m.cosign(t, "verify-blob", "--key", m.public, "--insecure-ignore-tlog", "--bundle", sums+".sigstore.json", sums)
	m.cosign(t, "verify-blob-attestation", "--key", m.public, "--insecure-ignore-tlog", "--type", "slsaprovenance1",
		"--bundle", filepath.Join(m.dist, "provenance.sigstore.json"), filepath.Join(m.dist, "plural_"+m.version+"_linux_amd64.tar.gz"))
}

func TestWhatCosignSignsIsVerifiedHere(t *testing.T) {
	m := release(t)
	dir := t.TempDir()
	sums := filepath.Join(dir, "checksums.txt")
	if err := os.WriteFile(sums, read(t, filepath.Join(m.dist, "checksums.txt")), 0o600); err != nil {
		t.Fatal(err)
	}
	m.cosign(t, "sign-blob", "--key", m.key, "--yes", "--use-signing-config=false", "--tlog-upload=false", "--bundle", sums+".sigstore.json", sums)
	plural := filepath.Join(m.archive(t, "plural", runtime.GOARCH), "plural")
	run(t, nil, plural, "version", "--verify", "--from", dir, "--key", m.public)
}

// TestARegistryHasTheRelease pushes to a registry of others, twice, and has others read it.
func TestARegistryHasTheRelease(t *testing.T) {
	m := release(t)
	at := startRegistry(t)
	config := t.TempDir()
	push := func() string {
		return string(run(t, []string{"DOCKER_CONFIG=" + config}, "go", "run", "../../tools/release", "push", "--dist", m.dist, "--registry", at+"/plural", "--plain-http"))
	}
	first := push()
	if again := push(); again != first || strings.Count(first, "@sha256:") != 4 {
		t.Fatalf("%s\n%s", first, again)
	}
	helm := needs.Program(t, filepath.Join(m.root, ".tools/helm"), "make .tools/helm")
	for _, line := range strings.Fields(first) {
		name, sum, _ := strings.Cut(line, "@")
		if got := strings.TrimSpace(string(run(t, nil, "skopeo", "inspect", "--raw", "--tls-verify=false", "docker://"+name))); fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(got))) != sum {
			t.Errorf("%s is not what was pushed", name)
		}
		m.cosign(t, "verify", "--key", m.public, "--insecure-ignore-tlog", "--allow-http-registry", name)
		m.cosign(t, "verify-attestation", "--key", m.public, "--insecure-ignore-tlog", "--allow-http-registry", "--type", "slsaprovenance1", name)
		if strings.Contains(name, "/charts/") {
			repository := name[:strings.LastIndex(name, ":")]
			values := run(t, nil, helm, "show", "values", "--plain-http", "oci://"+repository, "--version", m.version)
			if !bytes.Contains(values, []byte("digest: sha256:")) {
				t.Errorf("the chart %s names no digest:\n%s", name, values)
			}
		}
	}
}

// startRegistry is Debian's docker-registry, which knows nothing of referrers: what is attached lies under tags.
func startRegistry(t *testing.T) (at string) {
	t.Helper()
	program := needs.Program(t, "docker-registry", "docker-registry")
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at = listening.Addr().String()
	if err := listening.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %q}\n", dir, at)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "serve", config)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			_ = conn.Close()
			return at
		}
		if time.Now().After(deadline) {
			t.Fatalf("the registry does not come up: %s", log.String())
		}
		<-tick.C
	}
}

func TestImagesArePackedFast(t *testing.T) {
	m := release(t)
	began := time.Now()
	for _, program := range []string{"plural", "plural-agent"} {
		i := &images.Image{Name: "example.com/" + program + ":1", Created: time.Unix(0, 0)}
		for _, arch := range []string{"amd64", "arm64"} {
			i.Programs = append(i.Programs, images.Program{OS: "linux", Arch: arch, File: filepath.Join(m.archive(t, program, arch), program)})
		}
		if _, err := images.Pack(t.Context(), t.TempDir(), i); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("bench images_pack_s %.1f s", time.Since(began).Seconds())
}

// TestAnImageHoldsTheArchivesProgram unpacks both, for each platform.
func TestAnImageHoldsTheArchivesProgram(t *testing.T) {
	m := release(t)
	needs.Program(t, "umoci", "umoci")
	for _, program := range []string{"plural", "plural-agent"} {
		for _, arch := range []string{"amd64", "arm64"} {
			one, bundle := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "bundle")
			from := "oci:" + filepath.Join(m.dist, "oci", program) + ":" + m.version
			run(t, nil, "skopeo", "copy", "--override-os", "linux", "--override-arch", arch, from, "oci:"+one+":x")
			run(t, nil, "umoci", "unpack", "--rootless", "--image", one+":x", bundle)
			image := digest(t, filepath.Join(bundle, "rootfs/usr/local/bin", program))
			if archive := digest(t, filepath.Join(m.archive(t, program, arch), program)); image != archive {
				t.Errorf("%s for %s: %s in the image, %s in the archive", program, arch, image, archive)
			}
		}
	}
}

// TestPackagesOfSystemsHoldWhatRuns opens each kind as its system does, into a folder of its own.
func TestPackagesOfSystemsHoldWhatRuns(t *testing.T) {
	m := release(t)
	want := digest(t, filepath.Join(m.archive(t, "plural", runtime.GOARCH), "plural"))
	for kind, open := range map[string]func(file, dir string){
		"deb": func(file, dir string) { run(t, nil, "dpkg-deb", "-x", file, dir) },
		"rpm": func(file, dir string) {
			run(t, nil, needs.Program(t, "rpm", "rpm"), "--root", dir, "--initdb")
			run(t, nil, "rpm", "--root", dir, "-i", "--nodeps", "--noscripts", "--ignorearch", "--nodigest", file)
		},
		"apk":         func(file, dir string) { run(t, nil, "tar", "-xzf", file, "-C", dir, "--warning=no-unknown-keyword") },
		"pkg.tar.zst": func(file, dir string) { run(t, nil, "tar", "--zstd", "-xf", file, "-C", dir) },
	} {
		t.Run(kind, func(t *testing.T) {
			found, err := filepath.Glob(filepath.Join(m.dist, "plural?[0-9]*"+runtime.GOARCH+"*."+kind))
			if alias := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]; len(found) == 0 {
				found, err = filepath.Glob(filepath.Join(m.dist, "plural?[0-9]*"+alias+"*."+kind))
			}
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			dir := t.TempDir()
			open(found[0], dir)
			if got := digest(t, filepath.Join(dir, "usr/bin/plural")); got != want {
				t.Errorf("its program is another: %s", got)
			}
			if out := run(t, nil, filepath.Join(dir, "usr/bin/plural"), "version"); !bytes.Contains(out, []byte(m.version)) {
				t.Errorf("%s", out)
			}
			for _, name := range []string{
				"usr/share/bash-completion/completions/plural", "usr/share/zsh/vendor-completions/_plural", "usr/share/fish/vendor_completions.d/plural.fish",
				"usr/share/man/man1/plural.1.gz", "usr/bin/kubectl-plural", "usr/bin/localkube",
			} {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
			// Each shell reads what completes for it, and bash completes by it; the page is one that man would show.
			bash := "source '" + filepath.Join(dir, "usr/share/bash-completion/completions/plural") + "' && complete -p plural"
			if out := run(t, nil, "bash", "--norc", "-c", bash); !bytes.Contains(out, []byte("plural")) {
				t.Errorf("bash: %s", out)
			}
			run(t, nil, needs.Program(t, "zsh", "zsh"), "-n", filepath.Join(dir, "usr/share/zsh/vendor-completions/_plural"))
			run(t, nil, needs.Program(t, "fish", "fish"), "--no-execute", filepath.Join(dir, "usr/share/fish/vendor_completions.d/plural.fish"))
			if page := run(t, nil, "gzip", "-dc", filepath.Join(dir, "usr/share/man/man1/plural.1.gz")); !bytes.HasPrefix(page, []byte(".")) ||
				!bytes.Contains(page, []byte(".TH")) {
				t.Errorf("no page of a manual: %.100s", page)
			}
		})
	}
}

// TestManifestsOfPackageManagersNameTheArchives holds the cask and krew's manifest to the archives that they name.
func TestManifestsOfPackageManagersNameTheArchives(t *testing.T) {
	m := release(t)
	var krew struct {
		Spec struct {
			Version   string
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	if err := yaml.Unmarshal(read(t, filepath.Join(m.dist, "krew/plural.yaml")), &krew); err != nil || len(krew.Spec.Platforms) == 0 {
		t.Fatal(krew, err)
	}
	for _, p := range krew.Spec.Platforms {
		if got := digest(t, filepath.Join(m.dist, filepath.Base(p.URI))); got != p.SHA256 {
			t.Errorf("%s is %s, and krew's manifest says %s", p.URI, got, p.SHA256)
		}
	}
	cask := read(t, filepath.Join(m.dist, "homebrew/Casks/plural.rb"))
	for _, arch := range []string{"amd64", "arm64"} {
		if sum := digest(t, filepath.Join(m.dist, "plural_"+m.version+"_linux_"+arch+".tar.gz")); !bytes.Contains(cask, []byte(sum)) {
			t.Errorf("the cask does not name %s of linux/%s", sum, arch)
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func digest(t *testing.T, file string) string {
	t.Helper()
	return fmt.Sprintf("%x", sha256.Sum256(read(t, file)))
}

func run(t *testing.T, env []string, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.Bytes())
	}
	return out
}
