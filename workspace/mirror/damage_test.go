package mirror

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// onlyPack is the path of a mirror's one pack.
func onlyPack(t *testing.T, m *Mirror) string {
	t.Helper()
	packs := m.Manifest().Packs
	if len(packs) != 1 {
		t.Fatalf("%d packs", len(packs))
	}
	return filepath.Join(packDir(m.generation()), packs[0].Name)
}

func change(t *testing.T, name string, how func([]byte)) {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	how(data)
	must(t, os.WriteFile(name, data, 0o600))
}

func TestDamagedMirrorIsReplacedByTheNextFetch(t *testing.T) {
	damage := map[string]func(t *testing.T, m *Mirror, pack string){
		"truncated pack": func(t *testing.T, _ *Mirror, pack string) { must(t, os.Truncate(pack, 30)) },
		"missing index":  func(t *testing.T, _ *Mirror, pack string) { must(t, os.Remove(indexName(pack))) },
		"torn index":     func(t *testing.T, _ *Mirror, pack string) { must(t, os.Truncate(indexName(pack), 1100)) },
		"changed index": func(t *testing.T, _ *Mirror, pack string) {
			change(t, indexName(pack), func(b []byte) { b[len(indexMagic)+fanoutSize+3] ^= 1 })
		},
		"flipped bytes": func(t *testing.T, _ *Mirror, pack string) {
			change(t, pack, func(b []byte) {
				for i := 13; i < len(b)-20; i++ {
					b[i] ^= 0x55
				}
			})
		},
		"lost pack": func(t *testing.T, _ *Mirror, pack string) {
			must(t, errors.Join(os.Remove(pack), os.Remove(indexName(pack))))
		},
		"state lost": func(t *testing.T, m *Mirror, _ string) { must(t, os.Remove(filepath.Join(m.dir, stateFile))) },
		"state torn": func(t *testing.T, m *Mirror, _ string) {
			must(t, os.WriteFile(filepath.Join(m.dir, stateFile), []byte(`{"gen`), 0o600))
		},
		"objects lost": func(t *testing.T, m *Mirror, _ string) { must(t, os.RemoveAll(m.generation())) },
		"all lost":     func(t *testing.T, m *Mirror, _ string) { must(t, os.RemoveAll(m.dir)) },
	}
	for name, harm := range damage {
		for _, restart := range []string{"in use", "at a restart"} {
			t.Run(name+" "+restart, func(t *testing.T) {
				o := charts{}
				o.put("main", "a", strings.Repeat("words of some length\n", 50))
				dir := t.TempDir()
				m := openMirror(t, dir)
				fetch(t, m, o, "main")
				harm(t, m, onlyPack(t, m))
				if restart == "at a restart" {
					m = openMirror(t, dir)
				}
				if s, err := m.Snapshot("main"); err == nil {
					if data, err := fs.ReadFile(s.FS(), "a"); err == nil && len(data) != 1050 {
						t.Errorf("damaged content of %d bytes was served", len(data))
					}
				}
				fetch(t, m, o, "main")
				if got := content(t, m, "main", "a"); len(got) != 1050 {
					t.Errorf("content has %d bytes", len(got))
				}
				m = openMirror(t, dir)
				if restart == "in use" {
					fetch(t, m, o, "main") // what is in memory hides some damage until then
				}
				if got := content(t, m, "main", "a"); len(got) != 1050 {
					t.Errorf("content has %d bytes after a restart", len(got))
				}
			})
		}
	}
}

func TestNoByteOfAPackCanChangeUnnoticed(t *testing.T) {
	o := newOrigin(t)
	text := strings.Repeat("one line after the other\n", 20)
	o.commit("a", text)
	o.commit("b", text+"more\n")
	from := openMirror(t, t.TempDir())
	fetch(t, from, o, "main")
	pack, err := os.ReadFile(onlyPack(t, from))
	must(t, err)
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "main")
	for i := 12; i < len(pack)-sumSize; i++ {
		f, err := os.OpenFile(onlyPack(t, m), os.O_RDWR, 0)
		must(t, err)
		_, err = f.WriteAt([]byte{pack[i] ^ 0x11}, int64(i))
		must(t, err)
		snap, err := snapshot.NewObjects(m.store, nil).Snapshot(snapshot.Hash(m.Tips()["main"].Commit))
		for name, want := range map[string]string{"a": text, "b": text + "more\n"} {
			if err != nil {
				break
			}
			if data, err := fs.ReadFile(snap.FS(), name); err == nil && string(data) != want {
				t.Fatalf("with byte %d changed, %s reads %.60q", i, name, data)
			}
		}
		_, err = f.WriteAt(pack[i:i+1], int64(i))
		must(t, errors.Join(err, f.Close()))
	}
}

func TestAMirrorWhoseFolderIsDeletedServesOn(t *testing.T) {
	o := newOrigin(t)
	o.commit("a", "1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "main")
	must(t, os.RemoveAll(m.dir))
	if got := content(t, m, "main", "a"); got != "1" {
		t.Errorf("content = %q", got)
	}
	o.down = errors.New("no route")
	if _, err := m.Fetch(t.Context(), o, []string{"main"}); !errors.Is(err, o.down) {
		t.Errorf("Fetch: %v", err)
	}
	if got := content(t, m, "main", "a"); got != "1" {
		t.Errorf("content = %q after a failed fetch", got)
	}
	o.down = nil
	fetch(t, m, o, "main")
	if got := content(t, openMirror(t, m.dir), "main", "a"); got != "1" {
		t.Errorf("content = %q after the repair", got)
	}
}

func TestDamagedMirrorIsKeptUntilTheUpstreamAnswers(t *testing.T) {
	o := newOrigin(t)
	o.commit("a", "1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "main")
	m.damaged.Store(true)
	o.down = errors.New("no route")
	if _, err := m.Fetch(t.Context(), o, []string{"main"}); err == nil {
		t.Error("Fetch from nowhere succeeded")
	}
	o.down = nil
	if _, err := m.Fetch(t.Context(), o, []string{"gone"}); err == nil {
		t.Error("Fetch of a missing branch succeeded")
	}
	if got := content(t, m, "main", "a"); got != "1" {
		t.Errorf("content = %q", got)
	}
}

func TestRepairKeepsWhatTheUpstreamNoLongerHas(t *testing.T) {
	o := newOrigin(t)
	o.commit("gone", "1")
	o.git("branch", "side")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "side")
	o.git("rm", "-q", "gone")
	o.commit("b", "2")
	fetch(t, m, o, "main", "side")
	o.git("branch", "-D", "side")
	newest := filepath.Join(packDir(m.generation()), m.Manifest().Packs[0].Name)
	must(t, os.Remove(indexName(newest)))
	m = openMirror(t, m.dir)
	_, err := m.Fetch(t.Context(), o, []string{"main", "side"})
	if err == nil || !strings.Contains(err.Error(), "no such branch") || strings.Contains(err.Error(), "lost") {
		t.Errorf("Fetch: %v", err)
	}
	if got := content(t, m, "main", "b") + content(t, m, "side", "gone"); got != "21" {
		t.Errorf("content = %q", got)
	}
}

func TestWhatIsLostForGoodIsSaidAndHoldsUpNoOtherRef(t *testing.T) {
	o := newOrigin(t)
	o.commit("gone", "1")
	o.git("branch", "side")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "side")
	o.commit("b", "2")
	fetch(t, m, o, "main", "side")
	o.git("branch", "-D", "side")
	packs := m.Manifest().Packs
	must(t, os.Remove(filepath.Join(packDir(m.generation()), indexName(packs[len(packs)-1].Name))))
	m = openMirror(t, m.dir)
	_, err := m.Fetch(t.Context(), o, []string{"main", "side"})
	if err == nil || !strings.Contains(err.Error(), "was lost to damage on disk") {
		t.Errorf("Fetch: %v", err)
	}
	if _, err := m.Snapshot("side"); !errors.Is(err, snapshot.ErrNotFetched) {
		t.Errorf("Snapshot: %v", err)
	}
	if got := content(t, m, "main", "b"); got != "2" {
		t.Errorf("content = %q", got)
	}
}

func TestWhatCouldNotBeSavedIsNotServed(t *testing.T) {
	o := newOrigin(t)
	o.commit("a", "1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "main")
	o.commit("a", "2")
	state := filepath.Join(m.dir, stateFile)
	must(t, os.Remove(state))
	must(t, os.MkdirAll(filepath.Join(state, "in the way"), 0o700))
	if _, err := m.Fetch(t.Context(), o, []string{"main"}); err == nil || !strings.Contains(err.Error(), "write mirror state") {
		t.Errorf("Fetch: %v", err)
	}
	if got := content(t, m, "main", "a"); got != "1" {
		t.Errorf("content = %q, which a restart would not know of", got)
	}
	must(t, os.RemoveAll(state))
	fetch(t, m, o, "main")
	if got := content(t, openMirror(t, m.dir), "main", "a"); got != "2" {
		t.Errorf("content after a restart = %q", got)
	}
}

func TestDamagedMirrorOfWhichNothingCouldBeSavedStays(t *testing.T) {
	o := newOrigin(t)
	o.commit("gone", "1")
	o.git("branch", "side")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "side")
	o.commit("b", "2")
	o.git("branch", "-D", "side")
	must(t, os.Remove(filepath.Join(packDir(m.generation()), indexName(m.Manifest().Packs[0].Name))))
	m = openMirror(t, m.dir)
	before := m.generation()
	if _, err := m.Fetch(t.Context(), o, []string{"side"}); err == nil || !strings.Contains(err.Error(), "was lost to damage on disk") {
		t.Errorf("Fetch: %v", err)
	}
	if m.generation() != before {
		t.Error("the damaged files made way for nothing")
	}
	if _, err := m.Snapshot("side"); errors.Is(err, snapshot.ErrNotFetched) {
		t.Error("that there was a commit is forgotten")
	}
}

// TestReceivingOntoAFullDisk runs itself anew in a process that may write no file of more than 64 KiB.
func TestReceivingOntoAFullDisk(t *testing.T) {
	const role = "MIRROR_TEST_DISK_IS_FULL"
	if os.Getenv(role) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReceivingOntoAFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), role+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	o := newOrigin(t)
	o.commit("a", "1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "main")
	noise := make([]byte, 200<<10)
	fill(noise, 1)
	o.commit("noise", string(noise))
	pack := o.pack([]string{"main"}, nil)
	o.instead = func() []byte { return pack }
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	full := syscall.Rlimit{Cur: 64 << 10, Max: before.Max}
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
	if _, err := m.Fetch(context.Background(), o, []string{"main"}); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("Fetch onto a full disk: %v", err)
	}
	if got := content(t, m, "main", "a"); got != "1" {
		t.Errorf("content = %q", got)
	}
	left, err := filepath.Glob(filepath.Join(packDir(m.generation()), tempPrefix+"*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
	fetch(t, m, o, "main")
	if got := content(t, m, "main", "noise"); got != string(noise) {
		t.Error("the file differs after there was room again")
	}
}
