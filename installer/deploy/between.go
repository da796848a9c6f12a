package deploy

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/internal/boundwalk"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/offline"
)

// Difference is what changes about packages between two states of an installation repo.
type Difference struct {
	// Packages are those that change, in the order in which a deploy comes to them.
	Packages []Changed
	// Before and After say why packages of a state could not be composed; those are left out on both sides.
	Before, After error
}

// Changed is one installation that changes.
type Changed struct {
	Name string `json:"name"`
	// Before and After are its versions; one is empty where it comes or goes.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Files are those below its folder that differ once they are opened.
	Files []string `json:"files,omitempty"`
	// Steps are those about which a deploy does something, or on purpose does not.
	Steps []plan.Step `json:"steps,omitempty"`
	// Protected is set where the installation is protected from now on, or no longer is.
	Protected *bool `json:"protected,omitempty"`
}

// Between compares two states as if the first one were deployed: what was is not asked for, nothing is run, and nothing written.
// What is secret is compared by digests with a key of this one call.
func Between(repo *workspace.Repo, before, after *offline.State) (*Difference, error) {
	sealed, err := repo.Vault(nil)
	if err != nil && !errors.Is(err, policy.ErrNone) {
		return nil, err
	}
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	sides := [2]*side{{state: before, vault: sealed, key: key}, {state: after, vault: sealed, key: key}}
	out := &Difference{}
	out.Before, out.After = sides[0].read(), sides[1].read()
	for i, s := range sides {
		s.drop(sides[1-i].unknown)
	}
	made, err := plan.Between(sides[0].plan(), sides[1].plan())
	if err != nil {
		if out.After == nil {
			out.After = err
		}
		return out, nil
	}
	out.Packages = changes(made, sides[0], sides[1])
	return out, nil
}

// side is one of the states.
type side struct {
	state *offline.State
	vault *sealer.Vault
	key   []byte

	composed []*compose.Composed
	// unknown are the installations that could not be composed.
	unknown map[string]bool
	// files are the digests of each installation's files, by their path below its folder.
	files map[string]map[string]string
}

// read composes what the state has, as far as it can.
func (s *side) read() (err error) {
	s.unknown, s.files = map[string]bool{}, map[string]map[string]string{}
	f := s.state.Fleet
	for i := range f.Installations {
		name := f.Installations[i].Metadata.Name
		s.unknown[name] = true
		if s.files[name], err = s.sums("packages/" + name); err != nil {
			return err
		}
	}
	if len(f.Installations) == 0 {
		return nil
	}
	w := &compose.World{
		Fleet: f, Repo: s.opened(), Blind: true, Stored: func(name string) (string, error) { return s.sum(name), nil },
	}
	if w.Lock, err = lockfile.Load(w.Repo); err != nil {
		return err
	}
	s.composed, err = compose.All(w, nil)
	for _, c := range s.composed {
		delete(s.unknown, c.Name)
	}
	return err
}

func (s *side) opened() fs.FS {
	if s.vault == nil {
		return s.state.Taken().FS()
	}
	return s.vault.FS(s.state.Taken().FS())
}

// sum is the digest of a file's content in clear, or as git keeps it where it cannot be opened here; empty where there is none.
func (s *side) sum(name string) string {
	content, err := fs.ReadFile(s.opened(), name)
	if err != nil {
		if content, err = fs.ReadFile(s.state.Taken().FS(), name); err != nil {
			return ""
		}
	}
	h := hmac.New(sha256.New, s.key)
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// sums are the digests of all files below a folder.
func (s *side) sums(dir string) (map[string]string, error) {
	sums := map[string]string{}
	err := boundwalk.Dir(s.state.Taken().FS(), dir, compose.MaxFiles, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			sums[strings.TrimPrefix(name, dir+"/")] = s.sum(name)
		}
		return nil // a folder that is not there has no files
	})
	return sums, err
}

// drop leaves out installations that the other side could not compose: nobody can say how they differ.
func (s *side) drop(names map[string]bool) {
	s.composed = slices.DeleteFunc(s.composed, func(c *compose.Composed) bool { return names[c.Name] })
}

func (s *side) plan() plan.Side {
	out := plan.Side{Composed: s.composed, Sums: map[string]string{}}
	out.Facts.Tools, out.Facts.Clusters = map[plan.ID]string{}, targetsOf(s.state.Fleet, s.composed)
	for _, c := range s.composed {
		h := hmac.New(sha256.New, s.key)
		for _, name := range slices.Sorted(maps.Keys(s.files[c.Name])) {
			h.Write([]byte(name + "\x00" + s.files[c.Name][name] + "\x00"))
		}
		out.Sums[c.Name] = hex.EncodeToString(h.Sum(nil))
		for i := range c.Steps {
			// What is asked for is compared, not what this machine has.
			if m := module(c.Package, c.Steps[i].Name); m != nil {
				out.Facts.Tools[plan.NewID(c.Name, c.Steps[i].Name)] = strings.TrimSpace(m.Product + " " + m.Version)
			}
		}
	}
	return out
}

func (s *side) version(name string) string {
	for _, c := range s.composed {
		if c.Name == name {
			return c.Version
		}
	}
	return ""
}

// changes are the installations that a plan does something about, in its order, and then those of which only files differ.
func changes(made *plan.Plan, before, after *side) []Changed {
	var list []Changed
	at := func(name string) *Changed {
		i := slices.IndexFunc(list, func(c Changed) bool { return c.Name == name })
		if i < 0 {
			i = len(list)
			list = append(list, Changed{
				Name: name, Before: before.version(name), After: after.version(name), Files: differing(before.files[name], after.files[name]),
			})
		}
		return &list[i]
	}
	for i := range made.Steps {
		if s := &made.Steps[i]; s.Action != plan.Unchanged && s.Action != plan.Skipped {
			c := at(s.ID.Installation())
			c.Steps = append(c.Steps, *s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(made.Protect)) {
		protected := made.Protect[name]
		at(name).Protected = &protected
	}
	for _, s := range []*side{before, after} {
		for _, c := range s.composed {
			if before.version(c.Name) != after.version(c.Name) || len(differing(before.files[c.Name], after.files[c.Name])) > 0 {
				at(c.Name)
			}
		}
	}
	return list
}

// differing are the names whose digests are not the same.
func differing(before, after map[string]string) []string {
	names := map[string]bool{}
	for _, side := range []map[string]string{before, after} {
		for name := range side {
			if before[name] != after[name] {
				names[path.Clean(name)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
