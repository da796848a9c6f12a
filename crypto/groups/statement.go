package groups

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/crypto/keys"
	"github.com/pluralsh/plural/crypto/policy"
)

// Statement is who can open what, as text: sorted lines, each ending in a newline. Two states of a repository in which the
// same can be opened by the same have the same statement. The empty one says that nobody can open anything.
//
//	group prod clusters matchLabels env=prod
//	group prod member cluster/edge-1
//	group prod recipient age1... epoch 2
//	path secrets/** prod
//	person alice age1...
//
// The keys of clusters stand in other files of the repository. Where they count, when groups get new identities, the
// statement has them too:
//
//	cluster edge-1 age1...
type Statement string

const clusterWord = "cluster "

// WithKeys is the statement with these keys of clusters, by name, and no others.
func (s Statement) WithKeys(keys map[string]string) Statement {
	lines := s.WithoutKeys().Lines()
	for name, key := range keys {
		lines = append(lines, clusterWord+name+" "+key)
	}
	return join(lines)
}

// Keys are the keys of clusters that the statement has, by name.
func (s Statement) Keys() map[string]string {
	found := map[string]string{}
	for _, line := range s.Lines() {
		if rest, ok := strings.CutPrefix(line, clusterWord); ok {
			name, key, _ := strings.Cut(rest, " ")
			found[name] = key
		}
	}
	return found
}

// WithoutKeys is the statement without the keys of clusters.
func (s Statement) WithoutKeys() Statement {
	return join(slices.DeleteFunc(s.Lines(), func(line string) bool { return strings.HasPrefix(line, clusterWord) }))
}

// join sorts lines into a statement.
func join(lines []string) Statement {
	if len(lines) == 0 {
		return ""
	}
	slices.Sort(lines)
	return Statement(strings.Join(slices.Compact(lines), "\n") + "\n")
}

// Lines are the statement's lines, without their ends.
func (s Statement) Lines() []string {
	return strings.FieldsFunc(string(s), func(r rune) bool { return r == '\n' })
}

// Statement says who can open what under a policy. A nil policy says nothing of paths and selectors.
func (s *Set) Statement(p *policy.Policy) Statement {
	var lines []string
	for _, person := range s.people {
		for _, key := range person.Keys {
			lines = append(lines, "person "+person.Name+" "+key.Text)
		}
	}
	for _, name := range s.names {
		g := s.groups[name]
		lines = append(lines, fmt.Sprintf("group %s recipient %s epoch %d", name, g.Recipient.Text, g.Epoch))
		for _, m := range g.Members {
			lines = append(lines, "group "+name+" member "+m.String())
		}
	}
	if p != nil {
		lines = append(lines, policyLines(p)...)
	}
	return join(lines)
}

func policyLines(p *policy.Policy) []string {
	var lines []string
	for _, g := range p.Groups {
		if g.Clusters != nil {
			lines = append(lines, "group "+g.Name+" clusters "+g.Clusters.String())
		}
	}
	for _, one := range p.Paths {
		names := slices.Compact(slices.Sorted(slices.Values(one.Groups)))
		lines = append(lines, "path "+policy.Word(one.Pattern)+" "+policy.Words(names))
	}
	return lines
}

// Check says where a policy asks for what the groups cannot give: a group that does not exist, or post-quantum groups
// beside others for one file.
func (s *Set) Check(p *policy.Policy) error {
	for _, one := range p.Paths {
		var first *Group
		for _, name := range one.Groups {
			g, ok := s.groups[name]
			switch {
			case !ok:
				return fmt.Errorf("%s:%d: the pattern %q names the group %q, which does not exist: plural crypto groups create %s", policy.File, one.Line, one.Pattern, name, name)
			case first == nil:
				first = g
			case first.postQuantum() != g.postQuantum():
				return fmt.Errorf("%s:%d: the pattern %q names the groups %q and %q, only one of which is post-quantum: all groups of one file must be alike", policy.File, one.Line, one.Pattern, first.Name, g.Name)
			}
		}
	}
	return nil
}

func (g *Group) postQuantum() bool { return g.Recipient.Kind == keys.AgePQ }
