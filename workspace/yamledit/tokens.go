package yamledit

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/schema"
)

// Tokens plans that a user has exactly these tokens. A user who is not there yet is added, in these groups.
func Tokens(repo fs.FS, user string, groups []string, tokens []fleet.UserToken) (*Change, error) {
	before, err := fleet.Load(repo)
	if err != nil {
		return nil, err
	}
	c := new(Change)
	if known, ok := before.User(user); ok {
		err = c.setTokens(repo, known, tokens)
	} else {
		err = c.addUser(repo, user, groups, tokens)
	}
	if err != nil {
		return nil, err
	}
	after, err := fleet.Load(overlay.New(repo, map[string][]byte{c.File: c.After}))
	if err != nil {
		return nil, err
	}
	if u, ok := after.User(user); !ok || !slices.Equal(u.Spec.Tokens, tokens) {
		return nil, &Error{fmt.Sprintf("the tokens of user %q cannot be changed by a program", user), "change them by hand in " + c.File}
	}
	return c, nil
}

// setTokens changes the document of a user.
func (c *Change) setTokens(repo fs.FS, u *fleet.User, tokens []fleet.UserToken) (err error) {
	c.File = u.Position.File
	if c.Before, err = read(repo, c.File); err != nil {
		return err
	}
	if c.After = c.Before; slices.Equal(u.Spec.Tokens, tokens) {
		return nil
	}
	prefix, err := document(c.File, c.Before, "User", u.Metadata.Name)
	if err != nil {
		return err
	}
	// The new list comes before the old one goes: what a mapping without keys looks like nobody wrote.
	if len(tokens) > 0 {
		if bytes.Contains(c.Before, []byte(standIn)) {
			return fmt.Errorf("change %q: it holds the word %s", c.File, standIn)
		}
		if c.After, err = values.Set(c.File, c.After, prefix+"spec."+standIn, []byte(standIn), values.String); err != nil {
			return err
		}
	}
	if _, written := u.Fields["spec.tokens"]; written {
		if c.After, err = values.Delete(c.File, c.After, prefix+"spec.tokens"); err != nil {
			return err
		}
	}
	c.After = fill(c.After, tokens)
	return nil
}

// standIn is a key with a value in the place of tokens: what is set there is a scalar, and YAML lets it stand wherever a list
// may.
const standIn = "list-of-tokens-7c41b2aa"

// document is the place of a document in a file, as it stands before a key; empty for a file of one.
func document(file string, text []byte, kind, name string) (string, error) {
	n, err := documents(text)
	if err != nil || n < 2 {
		return "", err
	}
	for i := range n {
		at := fmt.Sprintf("[%d].", i)
		is, kindErr := values.Get(file, text, at+"kind")
		called, nameErr := values.Get(file, text, at+"metadata.name")
		if kindErr == nil && nameErr == nil && string(is) == kind && string(called) == name {
			return at, nil
		}
	}
	return "", fmt.Errorf("find the %s %q in %q: no document says so in plain words", kind, name, file)
}

// fill writes tokens where the stand-in is, if anywhere: one on a line, where it has a line of its own.
func fill(text []byte, tokens []fleet.UserToken) []byte {
	before, after, found := bytes.Cut(text, []byte(standIn+": "+standIn))
	if !found {
		return text
	}
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	before = append(bytes.Clone(before), "tokens:"...)
	if len(bytes.TrimLeft(line, " ")) > 0 || len(after) > 0 && after[0] != '\n' {
		return slices.Concat(before, []byte(" ["+strings.Join(flows(tokens), ", ")+"]"), after)
	}
	for _, token := range flows(tokens) {
		before = append(before, "\n"+strings.Repeat(" ", len(line)+2)+"- "+token...)
	}
	return append(before, after...)
}

func flows(tokens []fleet.UserToken) []string {
	list := make([]string, len(tokens))
	for i, t := range tokens {
		list[i] = fmt.Sprintf("{name: %s, hash: %s", strconv.Quote(t.Name), strconv.Quote(t.Hash))
		if t.Expires != "" {
			list[i] += ", expires: " + strconv.Quote(t.Expires)
		}
		list[i] += "}"
	}
	return list
}

// addUser adds a document for a user: in a file of its own or, where another kind has that file, behind it.
func (c *Change) addUser(repo fs.FS, user string, groups []string, tokens []fleet.UserToken) (err error) {
	c.File = "access/" + user + ".yaml"
	if _, err := fs.Stat(repo, c.File); err == nil {
		if c.Before, err = read(repo, c.File); err != nil {
			return err
		}
		c.After = append(bytes.TrimRight(bytes.Clone(c.Before), "\n"), "\n---\n"...)
	}
	if c.After == nil {
		c.After = schema.Line(repo, c.File, schema.Access)
	}
	out := "apiVersion: " + fleet.APIVersion + "\nkind: User\nmetadata: {name: " + strconv.Quote(user) + "}\nspec:\n"
	if len(groups) > 0 {
		out += "  groups: " + flow(groups) + "\n"
	}
	out += "  tokens:\n"
	for _, token := range flows(tokens) {
		out += "    - " + token + "\n"
	}
	c.After = append(c.After, out...)
	return nil
}
