package groups

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pluralsh/plural/crypto/keys"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/internal/boundread"
	"github.com/pluralsh/plural/internal/replace"
)

const (
	maxKeysFile = 64 << 10  // bytes of a file of public keys
	maxEnvelope = 256 << 10 // bytes of an envelope
	maxEpoch    = 1_000_000
)

// Load reads the groups and people from a repository's root: names, public keys, lists of members. No envelope is read.
// Without .plural the set is empty. Errors name file and line where there is one.
func Load(fsys fs.FS) (*Set, error) {
	s := &Set{files: fsys, groups: map[string]*Group{}, owners: map[string][]string{}, within: map[string][]string{}}
	if err := s.loadPeople(); err != nil {
		return nil, err
	}
	if err := s.loadGroups(); err != nil {
		return nil, err
	}
	return s, s.checkCycles()
}

func (s *Set) loadPeople() error {
	names, err := list(s.files, peopleDir, keysExt, MaxPeople)
	if err != nil {
		return err
	}
	for _, name := range names {
		file := PersonFile(name)
		text, err := readBounded(s.files, file, maxKeysFile)
		if err != nil {
			return err
		}
		person, err := parsePerson(name, text)
		if err != nil {
			return err
		}
		s.people = append(s.people, person)
		for _, key := range person.Keys {
			s.owners[key.Text] = append(s.owners[key.Text], name)
		}
	}
	return nil
}

// parsePerson reads a person's file. The keys of one person are alike: an envelope has one header for all of them, and
// age puts no post-quantum key beside one that is not.
func parsePerson(name string, text []byte) (KeyHolder, error) {
	file := PersonFile(name)
	if err := policy.CheckName(name); err != nil {
		return KeyHolder{}, fmt.Errorf("%s: %w", file, err)
	}
	all, err := keys.ParseRecipients(file, text)
	if err != nil {
		return KeyHolder{}, err
	}
	for _, key := range all[1:] {
		if (key.Kind == keys.AgePQ) != (all[0].Kind == keys.AgePQ) {
			return KeyHolder{}, fmt.Errorf("%s: a post-quantum key stands beside one that is not: keep one kind", file)
		}
	}
	return KeyHolder{Name: name, Comment: comments(text), Keys: all}, nil
}

func comments(text []byte) string {
	var all []string
	for line := range strings.Lines(string(text)) {
		if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "#"); ok {
			all = append(all, strings.TrimSpace(comment))
		}
	}
	return strings.Join(all, "\n")
}

func (s *Set) loadGroups() error {
	entries, err := readDir(s.files, groupsDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			s.names = append(s.names, e.Name())
		}
	}
	if err := checkNames(groupsDir, s.names, MaxGroups); err != nil {
		return err
	}
	for _, name := range s.names {
		g, err := loadGroup(s.files, name)
		if err != nil {
			return err
		}
		s.groups[name] = g
		for _, m := range g.Members {
			if m.Kind == Subgroup {
				s.within[m.Name] = append(s.within[m.Name], name)
			}
		}
	}
	return nil
}

func loadGroup(files fs.FS, name string) (*Group, error) {
	file := RecipientFile(name)
	text, err := readBounded(files, file, maxKeysFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: file not found: restore it from git, or remove the folder of the group", file)
	}
	if err != nil {
		return nil, err
	}
	g, err := parseRecipientFile(file, text)
	if err != nil {
		return nil, err
	}
	g.Name = name
	g.Members, err = loadMembers(files, name)
	return g, err
}

// parseRecipientFile reads an epoch and a public key, each once.
func parseRecipientFile(file string, text []byte) (*Group, error) {
	g, number := &Group{}, 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		comment, isComment := strings.CutPrefix(line, "#")
		epoch, isEpoch := strings.CutPrefix(strings.TrimSpace(comment), "epoch ")
		var err error
		switch {
		case isComment && isEpoch:
			err = g.setEpoch(strings.TrimSpace(epoch))
		case line != "" && !isComment:
			err = g.setRecipient(line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
	}
	switch {
	case g.Epoch == 0:
		return nil, fmt.Errorf("%s:1: no epoch: restore the line %q from git", file, "# epoch N")
	case g.Recipient.Recipient == nil:
		return nil, fmt.Errorf("%s:%d: no public key: restore the file from git", file, max(number, 1))
	}
	return g, nil
}

func (g *Group) setEpoch(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case g.Epoch != 0:
		return errors.New("a second epoch: restore the file from git")
	case err != nil || n < 1 || n > maxEpoch || strconv.Itoa(n) != text:
		return fmt.Errorf("bad epoch %q: want a number from 1 to %d", text, maxEpoch)
	}
	g.Epoch = n
	return nil
}

func (g *Group) setRecipient(line string) error {
	if g.Recipient.Recipient != nil {
		return errors.New("a second public key: a group has one, restore the file from git")
	}
	r, err := keys.ParseRecipient(line)
	switch {
	case err != nil:
		return err
	case r.Kind != keys.Age && r.Kind != keys.AgePQ:
		return fmt.Errorf("a public key of the kind %s: that of a group begins with age1 or age1pq1", r.Kind)
	}
	g.Recipient = r
	return nil
}

// loadMembers lists who has an envelope.
func loadMembers(files fs.FS, group string) ([]Member, error) {
	dir := path.Join(groupsDir, group, "members")
	var members []Member
	for _, of := range []struct {
		kind Kind
		dir  string
	}{{Person, dir}, {Cluster, path.Join(dir, clustersDir)}, {Subgroup, path.Join(dir, nestedDir)}} {
		names, err := list(files, of.dir, sealedExt, MaxMembers)
		if err != nil {
			return nil, err
		}
		members = slices.Grow(members, len(names))
		for _, name := range names {
			members = append(members, Member{of.kind, name})
		}
	}
	return members, nil
}

// list gives the names of the files in dir that end in ext, without it, sorted. Other files are nobody's.
func list(files fs.FS, dir, ext string, most int) ([]string, error) {
	entries, err := readDir(files, dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ext)
		switch {
		case !ok || e.IsDir() || strings.HasPrefix(e.Name(), replace.Prefix): // the last is of a program that was killed
			continue
		case !e.Type().IsRegular():
			return nil, fmt.Errorf("%s: not a regular file: put the file itself here", path.Join(dir, e.Name()))
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, checkNames(dir, names, most)
}

// checkNames refuses names that would not be files of their own on every system.
func checkNames(dir string, names []string, most int) error {
	if len(names) > most {
		return fmt.Errorf("%s holds more than %d entries", dir, most)
	}
	folded := make(map[string]string, len(names))
	for _, name := range names {
		if err := policy.CheckName(name); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		key := strings.ToLower(name)
		if other, taken := folded[key]; taken {
			return fmt.Errorf("%s: the names %q and %q differ in case only, and are one file on some systems: rename one", dir, other, name)
		}
		folded[key] = name
	}
	return nil
}

// readDir is empty for a folder that does not exist.
func readDir(files fs.FS, dir string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	return entries, nil
}

func readBounded(files fs.FS, name string, most int64) ([]byte, error) {
	data, err := boundread.File(files, name, most)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s: the file is larger than %d KiB", name, most>>10)
	}
	return data, nil
}

// checkCycles refuses groups that contain each other: none of them would have a first key to open.
func (s *Set) checkCycles() error {
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(name string, trail []string) error
	visit = func(name string, trail []string) error {
		trail = append(trail, name)
		switch state[name] {
		case done:
			return nil
		case visiting:
			return cycleError(trail)
		}
		state[name] = visiting
		for _, outer := range s.within[name] {
			if err := visit(outer, trail); err != nil {
				return err
			}
		}
		state[name] = done
		return nil
	}
	for _, name := range s.names {
		if err := visit(name, nil); err != nil {
			return err
		}
	}
	return nil
}

// cycleError takes a walk from inner to outer groups that ends where it has been.
func cycleError(trail []string) error {
	last := trail[len(trail)-1]
	trail = trail[slices.Index(trail, last):]
	file := EnvelopeFile(trail[1], Member{Subgroup, trail[0]})
	return fmt.Errorf("the groups %s contain each other: remove one envelope, like %s", strings.Join(trail, ", "), file)
}
