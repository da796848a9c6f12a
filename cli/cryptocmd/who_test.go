package cryptocmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/crypto/groups"
)

const keyAge = "age105247ecju8m3g7a5mmf7pk4jcs4raffe4rq5n4ry5ftp7ehyn33syllayl"

func TestWHOIsWhateverPeopleHaveAtHand(t *testing.T) {
	set, err := groups.Load(fstest.MapFS{".plural/members/alice.txt": {Data: []byte(keyAge + "\n")}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dave.pub")
	if err := os.WriteFile(file, []byte(keyEd25519+" dave@host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	github := func(context.Context, string) ([]string, error) { return []string{keyEd25519}, nil }
	tests := []struct {
		who, name string
		want      string
		file      string // "" for a member that is known
		fault     string
	}{
		{who: "alice", want: "alice"},
		{who: "cluster/edge-1", want: "cluster/edge-1"},
		{who: "group/ops", want: "group/ops"},
		{who: keyAge, name: "alice", want: "alice"},
		{who: keyAge, name: "bob", want: "bob", file: "# bob, added on 2026-01-02\n" + keyAge + "\n"},
		{who: keyAge, fault: "nothing says whose key this is"},
		{who: keyEd25519 + " carol@laptop", want: "carol", file: "# carol, added on 2026-01-02\n" + keyEd25519 + "\n"},
		{who: keyEd25519, name: "alice", fault: "with other keys"},
		{who: file, want: "dave", file: "# dave, added on 2026-01-02\n" + keyEd25519 + "\n"},
		{who: "gh:Octo-Cat", want: "octo-cat", file: "# octo-cat, added on 2026-01-02\n# GitHub user Octo-Cat\n" + keyEd25519 + "\n"},
		{who: "gh:octocat", name: "../x", fault: "bad name"},
		{who: "mallory", fault: "nobody known here"},
		{who: "age-secret-key-1canary", fault: "this is a private key"},
	}
	for _, tt := range tests {
		t.Run(tt.who+" "+tt.name, func(t *testing.T) {
			find := finder{set: set, name: tt.name, github: github, today: "2026-01-02"}
			member, person, err := find.find(t.Context(), tt.who)
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) || strings.Contains(err.Error(), "canary") {
					t.Errorf("got %v, want %q", err, tt.fault)
				}
				return
			}
			if err != nil || member.String() != tt.want {
				t.Fatalf("got %v, %v", member, err)
			}
			var text string
			if person != nil {
				text = string(person.Keys)
			}
			if diff := cmp.Diff(tt.file, text); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMemberNameKeepsOnlyWhatAFileMayBeCalled(t *testing.T) {
	for from, want := range map[string]string{"Alice": "alice", "a.b+c": "a.b-c", "../x": "x", "": "", "日本": "", "x@y": "x-y"} {
		if got := memberName(from); got != want {
			t.Errorf("%q became %q, want %q", from, got, want)
		}
	}
}
