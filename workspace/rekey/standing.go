package rekey

import (
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/workspace"
)

// Standing is who can open what as the repository stands, the clusters' keys included, beside what a person has confirmed
// of it.
type Standing struct {
	Statement groups.Statement
	// Changes are against what was confirmed; First says that nothing was.
	Changes []trust.Change
	First   bool

	repository string
	confirmed  trust.Store
}

// Stand reads a repository, as changes will have it; nil: as it is. Without a policy the error is policy.ErrNone.
func Stand(repo *workspace.Repo, changes map[string][]byte, confirmed trust.Store) (*Standing, error) {
	v, err := repo.Vault(changes)
	if err != nil {
		return nil, err
	}
	s := &Standing{repository: v.Policy().Repository, confirmed: confirmed}
	known, err := confirmed.Confirmed(s.repository)
	if err != nil {
		return nil, err
	}
	keys := map[string]string{}
	key := clusterKeys(repo, changes)
	for _, name := range v.Groups().Names() {
		group, _ := v.Groups().Group(name)
		for _, m := range group.Members {
			if m.Kind != groups.Cluster {
				continue
			}
			// A cluster whose file is gone or does not read has no key to confirm: whatever needs it says so.
			if text, err := key(m.Name); err == nil {
				keys[m.Name] = text
			}
		}
	}
	s.Statement = v.Statement().WithKeys(keys)
	s.Changes, s.First = trust.Diff(known, s.Statement), known == ""
	return s, nil
}

// Confirm keeps the statement as what the person has confirmed.
func (s *Standing) Confirm() error { return s.confirmed.Confirm(s.repository, s.Statement) }
