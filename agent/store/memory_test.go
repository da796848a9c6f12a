package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pluralsh/plural/agent/store"
	"github.com/pluralsh/plural/api"
)

func remembered() store.Memory {
	return store.Memory{
		Begun: "d1-b", Capabilities: map[string]bool{"d1-a": true, "d1-b": false},
		Quarantined: "d1-b", Reason: "test smoke failed", Test: "t1",
		Tests: map[string]*api.TestReport{"t1": {Name: "smoke", Outcome: api.TestReport_FAILED, Log: "line\n\x00", TookMs: 7}},
		Tried: []store.Reach{{Namespace: "web"}, {Namespace: "web", Account: "web/deployer", Namespaces: []string{"web", "web-jobs"}}},
	}
}

func TestWhatIsRememberedOfAServiceSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	for name, m := range map[string]store.Memory{"web": remembered(), "db": {}} {
		if err := first.SaveMemory(name, m); err != nil {
			t.Fatal(err)
		}
	}
	got, err := open(t, dir).Memories()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]store.Memory{"web": remembered(), "db": {Tests: map[string]*api.TestReport{}}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("Memories (-want +got):\n%s", diff)
	}
}

func TestADamagedMemoryIsSaidAndLeftOut(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"emptied":   func([]byte) []byte { return nil },
		"cut short": func(b []byte) []byte { return b[:len(b)-1] },
		"changed":   func(b []byte) []byte { b[len(b)-2] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			for _, service := range []string{"web", "db"} {
				if err := s.SaveMemory(service, remembered()); err != nil {
					t.Fatal(err)
				}
			}
			file := filepath.Join(dir, "memory", "web")
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Memories(); err == nil || len(got) != 1 || got["db"].Begun != "d1-b" {
				t.Errorf("Memories = %v, %v", got, err)
			}
		})
	}
}

func TestAForgottenServiceLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.SaveMemory("web", remembered()); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveGood(&api.Deployment{Service: "web"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Forget("web"); err != nil {
		t.Fatal(err)
	}
	memories, errMemories := s.Memories()
	good, errGood := s.Good()
	if len(memories)+len(good) > 0 || errMemories != nil || errGood != nil {
		t.Errorf("left are %v and %v, %v, %v", memories, good, errMemories, errGood)
	}
	if err := s.SaveMemory("../web", store.Memory{}); err == nil {
		t.Error("SaveMemory took a name that leaves the folder")
	}
}
