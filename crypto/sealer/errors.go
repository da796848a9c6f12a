package sealer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
)

// LockedError means that none of the person's identities opens a file.
type LockedError struct {
	Path string
	// Groups are those that the file is sealed for; empty when it does not say.
	Groups []string
	// Readers are the people who can read it.
	Readers []string
	// NoIdentity says that there is no identity at all.
	NoIdentity bool
}

// Error says whom the file is for. What to do about it is Fix's to say.
func (e *LockedError) Error() string {
	who := "nobody known here"
	if len(e.Groups) > 0 {
		who = strings.Join(e.Groups, ", ")
	}
	text := fmt.Sprintf("%q is sealed for %s, and no identity here opens it", e.Path, who)
	if e.NoIdentity {
		text = fmt.Sprintf("%q is sealed for %s, and there is no identity here", e.Path, who)
	}
	if len(e.Readers) > 0 {
		text += "; " + strings.Join(e.Readers, ", ") + " can read it"
	}
	return text
}

// Fix says how to be added.
func (e *LockedError) Fix() string {
	group := "GROUP"
	if len(e.Groups) > 0 {
		group = e.Groups[0]
	}
	share := "let a member run: plural crypto share YOUR-PUBLIC-KEY --group " + group
	if e.NoIdentity {
		return "restore yours: plural crypto import; or " + share
	}
	return share
}

// RetiredError means that a file is sealed for an identity that its group has given up.
type RetiredError struct {
	Path, Group string
	Epoch       int
	// Exists says whether there still is such a group.
	Exists bool
}

// Error says which epoch the file is of.
func (e *RetiredError) Error() string {
	if !e.Exists {
		return fmt.Sprintf("%q is sealed for the group %q, which does not exist", e.Path, e.Group)
	}
	return fmt.Sprintf("%q is sealed for epoch %d of the group %q, which has been rotated since", e.Path, e.Epoch, e.Group)
}

// Fix is how to seal the file as it should be.
func (e *RetiredError) Fix() string {
	if !e.Exists {
		return fmt.Sprintf("name another group in %s, then: plural crypto encrypt %s", policy.File, e.Path)
	}
	return "plural crypto encrypt " + e.Path
}

// locked explains why nothing opens a file.
func (v *Vault) locked(path string, claims *seal.Binding) error {
	e := &LockedError{Path: path}
	if ids, err := v.identities(); err == nil {
		e.NoIdentity = len(ids) == 0
	}
	if claims == nil {
		return e
	}
	for _, epoch := range claims.Groups {
		e.Groups = append(e.Groups, epoch.Group)
		for _, reader := range v.groups.ReadersOf(epoch.Group) {
			if reader.Kind == groups.Person && !slices.Contains(e.Readers, reader.Name) {
				e.Readers = append(e.Readers, reader.Name)
			}
		}
	}
	slices.Sort(e.Readers)
	return e
}
