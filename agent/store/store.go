// Package store owns the agent's state on disk.
//
// It never interprets what it keeps and never holds a secret in clear. Files are written to a temporary name, then
// renamed, so a crash leaves the old or the new; any of them can be deleted by hand, at the cost of asking the hub again.
// What the hub said carries its checksum: a damaged file is an error, never an order.
package store

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
)

const (
	lockFile  = "lock"
	ownerFile = "owner"
	rootFile  = "root"
	goodDir   = "good"
	bundleDir = "bundles"
)

// Store is a folder. It is safe for concurrent use.
type Store struct {
	root *os.Root

	mu   sync.Mutex // guards what follows
	lock *os.File   // nil while another store has the folder
}

// Open returns the store in dir, which is made when it is not there. Two stores may have a folder open, as two agents have while
// one takes the place of the other: files are replaced as a whole, and only the store that came first deletes any that the other
// may want. A folder that cannot be written is good enough: what cannot be kept is an error of the call that would keep it.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open agent store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open agent store: %w", err)
	}
	s := &Store{root: root}
	s.sweep()
	return s, nil
}

// alone says whether no other store had the folder first. Whoever comes second is alone when the first has gone, however that ended.
// On a disk that knows no locks everybody is alone.
func (s *Store) alone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		return true
	}
	file, err := s.root.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return true // nothing can be deleted here either
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		_ = file.Close()
		return false
	}
	s.lock = file
	return true
}

// sweep deletes what a crash left half written. What cannot be deleted only takes room.
func (s *Store) sweep() {
	if !s.alone() {
		return // the other one may be writing it
	}
	for _, dir := range []string{".", goodDir, memoryDir, bundleDir} {
		entries, _ := s.list(dir)
		for _, entry := range entries {
			if strings.HasSuffix(entry.Name(), temporary) {
				_ = s.root.Remove(path.Join(dir, entry.Name()))
			}
		}
	}
}

// Close releases the folder.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.root.Close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// Own makes the store that of owner. What it holds of another is forgotten first: a volume outlives the agent that it was made for, and
// the next one must not bring back what that one had in the cluster. A store that names nobody is taken as it is.
func (s *Store) Own(owner string) (forgot bool, err error) {
	before, err := s.root.ReadFile(ownerFile)
	switch {
	case err == nil && string(before) == owner:
		return false, nil
	case err == nil:
		for _, name := range []string{rootFile, goodDir, memoryDir, bundleDir} {
			if err := s.root.RemoveAll(name); err != nil {
				return false, fmt.Errorf("forget what the agent of another fleet or cluster kept in the data folder: %w: delete what is there", err)
			}
		}
		forgot = true
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("read whose data folder it is: %w", err)
	}
	if err := s.write(".", ownerFile, []byte(owner)); err != nil && forgot {
		return forgot, fmt.Errorf("say whose data folder it is: %w", err)
	}
	return forgot, nil // one that cannot be written to keeps nothing of anybody
}

// SavePoll remembers what the hub said, with its ETag and its edition. Neither holds a line break.
func (s *Store) SavePoll(etag, edition string, poll *api.Poll) error {
	body, err := proto.Marshal(poll)
	if err != nil {
		return fmt.Errorf("save poll: %w", err)
	}
	if err := s.write(".", rootFile, seal(append([]byte(etag+"\t"+edition+"\n"), body...))); err != nil {
		return fmt.Errorf("save poll: %w", err)
	}
	return nil
}

// Poll returns what SavePoll wrote last; nil when it wrote nothing, or nothing readable is left.
func (s *Store) Poll() (poll *api.Poll, etag, edition string, err error) {
	raw, err := s.root.ReadFile(rootFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", "", nil
	}
	if err != nil {
		return nil, "", "", fmt.Errorf("read last poll: %w", err)
	}
	raw, err = unseal(raw)
	if err != nil {
		return nil, "", "", fmt.Errorf("read last poll: %w", err)
	}
	line, body, _ := bytes.Cut(raw, []byte("\n"))
	poll = new(api.Poll)
	if err := proto.Unmarshal(body, poll); err != nil {
		return nil, "", "", fmt.Errorf("read last poll: %w", err)
	}
	etag, edition, _ = strings.Cut(string(line), "\t") // an older agent wrote no edition
	return poll, etag, edition, nil
}

// SaveGood remembers a deployment that was applied completely.
func (s *Store) SaveGood(d *api.Deployment) error {
	body, err := proto.Marshal(d)
	if err != nil {
		return fmt.Errorf("save last good of %s: %w", d.GetService(), err)
	}
	if err := s.write(goodDir, d.GetService(), seal(body)); err != nil {
		return fmt.Errorf("save last good of %s: %w", d.GetService(), err)
	}
	return nil
}

// Good returns the last good deployments by service. What cannot be read is left out, and said.
func (s *Store) Good() (map[string]*api.Deployment, error) {
	entries, err := s.list(goodDir)
	if err != nil {
		return nil, fmt.Errorf("list last good deployments: %w", err)
	}
	good := make(map[string]*api.Deployment, len(entries))
	var problems []error
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), temporary) {
			continue
		}
		d, err := s.good(entry.Name())
		if err != nil {
			problems = append(problems, fmt.Errorf("read last good of %q: %w", entry.Name(), err))
			continue
		}
		good[d.GetService()] = d
	}
	return good, errors.Join(problems...)
}

func (s *Store) good(name string) (*api.Deployment, error) {
	raw, err := s.root.ReadFile(path.Join(goodDir, name))
	if err != nil {
		return nil, err
	}
	body, err := unseal(raw)
	if err != nil {
		return nil, err
	}
	d := new(api.Deployment)
	return d, proto.Unmarshal(body, d)
}

// SaveBundle keeps an archive under its key.
func (s *Store) SaveBundle(key string, archive []byte) error {
	if err := s.write(bundleDir, key, archive); err != nil {
		return fmt.Errorf("save bundle: %w", err)
	}
	return nil
}

// Bundle returns an archive; the error is fs.ErrNotExist when it is not there.
func (s *Store) Bundle(key string) ([]byte, error) {
	name, err := inside(bundleDir, key)
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	archive, err := s.root.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	return archive, nil
}

// KeepBundles deletes every archive whose key is not in keys, unless another store had the folder first, or still has it.
func (s *Store) KeepBundles(keys map[string]bool) error {
	if !s.alone() {
		return nil
	}
	entries, err := s.list(bundleDir)
	if err != nil {
		return fmt.Errorf("list bundles: %w", err)
	}
	var problems []error
	for _, entry := range entries {
		if !keys[entry.Name()] && !strings.HasSuffix(entry.Name(), temporary) { // somebody may be writing that one
			problems = append(problems, s.root.Remove(path.Join(bundleDir, entry.Name())))
		}
	}
	return errors.Join(problems...)
}

const temporary = ".tmp"

// write replaces a file. Each write has a temporary name of its own, so that two of the same file do not mix.
func (s *Store) write(dir, base string, data []byte) error {
	name, err := inside(dir, base)
	if err != nil {
		return err
	}
	if err := s.root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp := name + "." + rand.Text() + temporary
	if err := s.settle(temp, data); err != nil {
		_ = s.root.Remove(temp)
		return err
	}
	if err := s.root.Rename(temp, name); err != nil {
		return err
	}
	folder, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// settle writes a file that is on the disk when it returns: one that was renamed before may be empty after a power cut.
func (s *Store) settle(name string, data []byte) error {
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// list is empty for a folder that nothing was written to yet.
func (s *Store) list(dir string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(s.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// inside is the path of a file whose name came from outside.
func inside(dir, base string) (string, error) {
	if base == "" || strings.ContainsAny(base, `/\`) || !filepath.IsLocal(base) || base == "." {
		return "", fmt.Errorf("refuse name %q", base)
	}
	return path.Join(dir, base), nil
}

// seal puts a checksum before data.
func seal(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(sum[:], data...)
}

// unseal returns what was sealed, unless it was damaged since.
func unseal(raw []byte) ([]byte, error) {
	if len(raw) < sha256.Size {
		return nil, errDamaged
	}
	sum := sha256.Sum256(raw[sha256.Size:])
	if !bytes.Equal(sum[:], raw[:sha256.Size]) {
		return nil, errDamaged
	}
	return raw[sha256.Size:], nil
}

var errDamaged = errors.New("the file is damaged")
