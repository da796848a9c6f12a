package groups

import (
	"strings"
	"testing"
	"testing/fstest"
)

// FuzzMembers feeds any text to the readers of public keys, of a group's public half, and of members: they must not
// panic, must name the file in every error, and must never repeat a private key.
func FuzzMembers(f *testing.F) {
	const key = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
	f.Add("# alice\n"+key+"\n", "alice")
	f.Add("# epoch 2\r\n"+key+"\r\n", "cluster/edge-1")
	f.Add("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKcWnnLxtY0o8G6VtmTGNM0fTyvn3CWrXXBLHsGdvNmZ a@b\n", "group/ops")
	f.Add("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX\n", "nul.txt")
	f.Add("# epoch 1\n# epoch 1\n", "../x")
	f.Fuzz(func(t *testing.T, text, member string) {
		if m, err := ParseMember(member); err == nil && m.String() != member {
			t.Errorf("%q was read as %q", member, m)
		}
		files := fstest.MapFS{PersonFile("alice"): {Data: []byte(text)}}
		set, err := Load(files)
		check(t, PersonFile("alice"), err)
		if err == nil && len(set.People()) != 1 {
			t.Errorf("people: %v", set.People())
		}
		set, err = Load(fstest.MapFS{RecipientFile("prod"): {Data: []byte(text)}})
		check(t, RecipientFile("prod"), err)
		if err != nil {
			return
		}
		if lines := set.Statement(nil).Lines(); len(lines) != 1 || !strings.HasPrefix(lines[0], "group prod recipient age1") {
			t.Errorf("statement: %q", lines)
		}
	})
}

func check(t *testing.T, file string, err error) {
	t.Helper()
	switch {
	case err == nil:
	case !strings.HasPrefix(err.Error(), file+":"):
		t.Errorf("the error names no place: %v", err)
	case strings.Contains(err.Error(), "AGE-SECRET-KEY-1G"):
		t.Errorf("the error holds a key: %v", err)
	}
}
