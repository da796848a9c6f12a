package groups

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/pluralsh/plural/crypto/policy"
)

// Kind says what a member is.
type Kind int

// The kinds of members.
const (
	Person Kind = iota + 1
	Cluster
	Subgroup
)

// Member is whoever can have an envelope of a group.
type Member struct {
	Kind Kind
	Name string
}

// Prefixes of a member's text, and the folders of their envelopes.
const (
	clusterPrefix = "cluster/"
	groupPrefix   = "group/"
)

// String is "alice", "cluster/edge-1" or "group/ops".
func (m Member) String() string {
	switch m.Kind {
	case Cluster:
		return clusterPrefix + m.Name
	case Subgroup:
		return groupPrefix + m.Name
	}
	return m.Name
}

// ParseMember reads what String writes.
func ParseMember(text string) (Member, error) {
	m := Member{Kind: Person, Name: text}
	if name, ok := strings.CutPrefix(text, clusterPrefix); ok {
		m = Member{Cluster, name}
	} else if name, ok := strings.CutPrefix(text, groupPrefix); ok {
		m = Member{Subgroup, name}
	}
	if err := policy.CheckName(m.Name); err != nil {
		return Member{}, fmt.Errorf("member %q: %w: write NAME, %sNAME or %sNAME", text, err, clusterPrefix, groupPrefix)
	}
	return m, nil
}

func compareMembers(a, b Member) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// The folders and endings of the repository's files.
const (
	groupsDir   = ".plural/groups"
	peopleDir   = ".plural/members"
	clustersDir = "clusters"
	nestedDir   = "groups"
	keysExt     = ".txt"
	sealedExt   = ".age"
)

// PersonFile is the path of a person's public keys.
func PersonFile(name string) string { return path.Join(peopleDir, name+keysExt) }

// RecipientFile is the path of a group's public half.
func RecipientFile(group string) string { return path.Join(groupsDir, group, "recipient.txt") }

// EnvelopeFile is the path of a member's envelope.
func EnvelopeFile(group string, m Member) string {
	dir := path.Join(groupsDir, group, "members")
	switch m.Kind {
	case Cluster:
		dir = path.Join(dir, clustersDir)
	case Subgroup:
		dir = path.Join(dir, nestedDir)
	}
	return path.Join(dir, m.Name+sealedExt)
}

// retiredFile is the path of the identity that a group had in an epoch.
func retiredFile(group string, epoch int) string {
	return path.Join(groupsDir, group, "retired", fmt.Sprint(epoch)+sealedExt)
}
