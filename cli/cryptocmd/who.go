package cryptocmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/keys"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace/rekey"
)

// maxKeys bounds a file with public keys, in bytes.
const maxKeys = 64 << 10

// finder turns what a person typed for WHO into a member.
type finder struct {
	set *groups.Set
	// name is what a new person is to be called; empty takes the name from what was typed.
	name string
	// github gives the public keys of a GitHub user.
	github func(ctx context.Context, user string) ([]string, error)
	// today is for the comment in a new person's file.
	today string
}

// find is the member that who means, with a person's keys when the repository does not know them yet. A member that it
// does know comes first, then a GitHub user, a public key, and the name of a file with keys.
func (r *finder) find(ctx context.Context, who string) (groups.Member, *rekey.Person, error) {
	if isPrivate(who) {
		return groups.Member{}, nil, &ui.Err{
			Msg: "this is a private key, and now others may have seen it", Fix: "make another, and give its public half: age-keygen -y FILE", Doc: ui.DocWhoseKey,
		}
	}
	if user, ok := strings.CutPrefix(who, "gh:"); ok {
		list, err := r.github(ctx, user)
		if err != nil {
			return groups.Member{}, nil, err
		}
		return r.person(memberName(user), "GitHub user "+user, strings.Join(list, "\n"))
	}
	if key, err := keys.ParseRecipient(who); err == nil {
		name, _, _ := strings.Cut(key.Comment, "@")
		return r.person(memberName(name), "", who)
	}
	if member, err := groups.ParseMember(who); err == nil && r.known(member) {
		return member, nil, nil
	}
	text, err := readKeys(who)
	if errors.Is(err, fs.ErrNotExist) {
		return groups.Member{}, nil, &ui.Err{
			Msg: fmt.Sprintf("%q is nobody known here, no public key, and no file", who),
			Fix: "give a key (age1…, ssh-ed25519 …), a file with keys, gh:USER, a member of plural crypto members list, cluster/NAME or group/NAME",
			Doc: ui.DocWhoseKey,
		}
	}
	if err != nil {
		return groups.Member{}, nil, err
	}
	base := filepath.Base(who)
	return r.person(memberName(strings.TrimSuffix(base, filepath.Ext(base))), "", string(text))
}

// isPrivate says whether somebody took the wrong half of a key. Nothing may repeat it.
func isPrivate(who string) bool {
	upper := strings.ToUpper(who)
	return strings.Contains(upper, "AGE-SECRET-KEY-") || strings.Contains(upper, "AGE-PLUGIN-") || strings.Contains(upper, "PRIVATE KEY")
}

func (r *finder) known(m groups.Member) bool {
	if m.Kind != groups.Person {
		return true // whether it exists is found out where its key is looked up
	}
	_, ok := r.set.Person(m.Name)
	return ok
}

// person is a person with these keys: one that is known when the keys are those, and else a new one.
func (r *finder) person(name, comment, text string) (groups.Member, *rekey.Person, error) {
	list, err := keys.ParseRecipients("the keys of "+name, []byte(text))
	if err != nil {
		return groups.Member{}, nil, err
	}
	if len(list) == 0 {
		return groups.Member{}, nil, errors.New("there is no public key in it")
	}
	if r.name != "" {
		name = r.name
	}
	if name == "" {
		return groups.Member{}, nil, &ui.Err{Msg: "nothing says whose key this is", Fix: "--name NAME", Doc: ui.DocWhoseKey}
	}
	if err := policy.CheckName(name); err != nil {
		return groups.Member{}, nil, &ui.Err{Msg: err.Error(), Fix: "--name NAME", Err: err}
	}
	member := groups.Member{Kind: groups.Person, Name: name}
	if known, ok := r.set.Person(name); ok {
		if !sameKeys(known.Keys, list) {
			return groups.Member{}, nil, &ui.Err{
				Msg: fmt.Sprintf("%s is known here already, with other keys", name),
				Fix: fmt.Sprintf("if it is somebody else: --name OTHER; if the keys are new: plural crypto revoke %s, then share again", name),
				Doc: ui.DocWhoseKey,
			}
		}
		return member, nil, nil
	}
	return member, &rekey.Person{Name: name, Keys: personFile(name, comment, r.today, list)}, nil
}

// personFile is the text of a person's file: who it is, then their keys.
func personFile(name, comment, today string, list []keys.Recipient) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s, added on %s\n", name, today)
	if comment != "" {
		fmt.Fprintf(&b, "# %s\n", comment)
	}
	for _, key := range list {
		b.WriteString(key.Text)
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

func sameKeys(a, b []keys.Recipient) bool {
	prints := func(list []keys.Recipient) map[string]bool {
		set := map[string]bool{}
		for _, key := range list {
			set[keys.Fingerprint(key.Text)] = true
		}
		return set
	}
	x, y := prints(a), prints(b)
	for key := range y {
		if !x[key] {
			return false
		}
	}
	return len(x) == len(y)
}

// memberName is s in the letters that a member's name is made of; empty when nothing is left.
func memberName(s string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, s)
	return strings.Trim(name, "-_.")
}

func readKeys(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKeys+1))
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if len(text) > maxKeys {
		return nil, fmt.Errorf("read keys: %q is larger than %d bytes", name, maxKeys)
	}
	return text, nil
}
