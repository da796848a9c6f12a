package leakcheck

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
)

// Rules are what the files of one state of a repository are judged by.
type Rules struct {
	// Policy says which paths are sealed for which groups.
	Policy *policy.Policy
	// Groups says which epoch each group is at; nil: epochs are not judged.
	Groups *groups.Set
	// Vault opens what its person can open, and so proves what else is only claimed; nil: claims are believed.
	Vault *sealer.Vault
}

// verdict is what is wrong with one file, nil for nothing.
type verdict struct {
	kind    Kind
	message string
	// bound is where the file says that it belongs; nil when it does not say.
	bound *seal.Binding
}

// must says whether the file at path has to be sealed, and for whom. Paths that no policy can speak of, and those for
// which patterns contradict each other, are errors.
func (r Rules) must(path string) (names []string, must bool, err error) {
	names, must, err = r.Policy.Match(path)
	if err != nil {
		return nil, false, fmt.Errorf("judge %q: %w", path, err)
	}
	return names, must, nil
}

// judge looks at the content of a file that must be sealed for the groups. An empty file keeps nothing secret.
func (r Rules) judge(path string, names []string, content []byte) (*verdict, error) {
	if len(content) == 0 {
		return nil, nil
	}
	bound, err := seal.Inspect(content)
	switch {
	case errors.Is(err, seal.ErrNotSealed):
		return &verdict{kind: Plaintext, message: "must be sealed for " + strings.Join(names, ", ") + ", and is not"}, nil
	case err != nil:
		return &verdict{kind: Damaged, message: err.Error()}, nil
	}
	if v := r.judgeBinding(path, names, bound); v != nil {
		return v, nil
	}
	return r.authenticate(path, content, bound)
}

func (r Rules) judgeBinding(path string, names []string, bound *seal.Binding) *verdict {
	switch {
	case bound == nil:
		return &verdict{kind: Unbound, message: "is an age file that is bound to nothing: anybody could have put it there"}
	case bound.Repository != r.Policy.Repository:
		return &verdict{Foreign, fmt.Sprintf("was sealed for %q of another repository", bound.Path), bound}
	case bound.Path != path:
		return &verdict{Moved, fmt.Sprintf("was sealed for %q: it was moved, copied or swapped", bound.Path), bound}
	case !sameGroups(bound.Groups, names):
		return &verdict{WrongGroups, fmt.Sprintf("is sealed for %s, and %s wants %s", groupNames(bound.Groups), policy.File, strings.Join(names, ", ")), bound}
	}
	if r.Groups == nil {
		return nil
	}
	for _, epoch := range bound.Groups {
		group, ok := r.Groups.Group(epoch.Group)
		switch {
		case !ok:
			return &verdict{WrongGroups, fmt.Sprintf("is sealed for the group %q, which does not exist", epoch.Group), bound}
		case epoch.Number < group.Epoch:
			return &verdict{Retired, fmt.Sprintf("is sealed for epoch %d of the group %q, which is at %d: whoever was removed since can read it", epoch.Number, epoch.Group, group.Epoch), bound}
		case epoch.Number > group.Epoch:
			return &verdict{Retired, fmt.Sprintf("is sealed for epoch %d of the group %q, which is at %d here: its keys are older than the file", epoch.Number, epoch.Group, group.Epoch), bound}
		}
	}
	return nil
}

// authenticate opens what the vault can open.
func (r Rules) authenticate(path string, content []byte, bound *seal.Binding) (*verdict, error) {
	if r.Vault == nil {
		return nil, nil
	}
	plaintext, _, err := r.Vault.Read(path, content)
	clear(plaintext)
	var locked *sealer.LockedError
	switch {
	case errors.As(err, &locked):
		return nil, nil
	case errors.Is(err, seal.ErrDamaged):
		return &verdict{Damaged, err.Error(), bound}, nil
	case errors.Is(err, seal.ErrNoMatch):
		return &verdict{Damaged, "says that it is sealed for " + groupNames(bound.Groups) + ", whose key does not open it", bound}, nil
	case err != nil:
		return nil, fmt.Errorf("authenticate %q: %w", path, err)
	}
	return nil, nil
}

func sameGroups(have []seal.Epoch, want []string) bool {
	if len(have) != len(want) {
		return false
	}
	for i, epoch := range have {
		if epoch.Group != want[i] {
			return false
		}
	}
	return true
}

func groupNames(epochs []seal.Epoch) string {
	names := make([]string, len(epochs))
	for i, epoch := range epochs {
		names[i] = epoch.Group
	}
	return strings.Join(names, ", ")
}
