// Package store owns what an agent remembers on disk: the last poll, each service's last good deployment, bundles.
//
// It never interprets what it keeps and never holds a secret in clear. Files are written to a temporary name, then
// renamed, so a crash leaves the old or the new; any of them can be deleted by hand, at the cost of asking the hub again.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
)

const (
	rootFile  = "root"
	goodDir   = "good"
	bundleDir = "bundles"
)

// Store is a folder. It is safe for concurrent use as long as no two callers write the same service.
type Store struct{ root *os.Root }

// Open returns the store in dir, which is made when it is not there.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open agent store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open agent store: %w", err)
	}
	for _, sub := range []string{goodDir, bundleDir} {
		if err := root.Mkdir(sub, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			_ = root.Close()
			return nil, fmt.Errorf("open agent store: %w", err)
		}
	}
	return &Store{root: root}, nil
}

// Close releases the folder.
func (s *Store) Close() error { return s.root.Close() }

// SavePoll remembers what the hub said, with its ETag.
func (s *Store) SavePoll(etag string, poll *api.Poll) error {
	body, err := proto.Marshal(poll)
	if err != nil {
		return fmt.Errorf("save poll: %w", err)
	}
	if err := s.write(rootFile, append([]byte(etag+"\n"), body...)); err != nil {
		return fmt.Errorf("save poll: %w", err)
	}
	return nil
}

// Poll returns what SavePoll wrote last, or nil when there is nothing readable.
func (s *Store) Poll() (poll *api.Poll, etag string, err error) {
	raw, err := s.root.ReadFile(rootFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read last poll: %w", err)
	}
	line, body, _ := bytes.Cut(raw, []byte("\n"))
	poll = new(api.Poll)
	if err := proto.Unmarshal(body, poll); err != nil {
		return nil, "", fmt.Errorf("read last poll: %w", err)
	}
	return poll, string(line), nil
}

// SaveGood remembers a deployment that was applied completely.
func (s *Store) SaveGood(d *api.Deployment) error {
	body, err := proto.Marshal(d)
	if err != nil {
		return fmt.Errorf("save last good of %s: %w", d.GetService(), err)
	}
	if err := s.write(path.Join(goodDir, d.GetService()), body); err != nil {
		return fmt.Errorf("save last good of %s: %w", d.GetService(), err)
	}
	return nil
}

// DropGood forgets a service.
func (s *Store) DropGood(service string) error {
	if err := s.root.Remove(path.Join(goodDir, service)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget %s: %w", service, err)
	}
	return nil
}

// Good returns the last good deployments by service. What cannot be read is left out, and said.
func (s *Store) Good() (map[string]*api.Deployment, error) {
	entries, err := fs.ReadDir(s.root.FS(), goodDir)
	if err != nil {
		return nil, fmt.Errorf("list last good deployments: %w", err)
	}
	good := make(map[string]*api.Deployment, len(entries))
	var problems []error
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), temporary) {
			continue
		}
		d := new(api.Deployment)
		body, err := s.root.ReadFile(path.Join(goodDir, entry.Name()))
		if err == nil {
			err = proto.Unmarshal(body, d)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("read last good of %q: %w", entry.Name(), err))
			continue
		}
		good[d.GetService()] = d
	}
	return good, errors.Join(problems...)
}

// SaveBundle keeps an archive under its key.
func (s *Store) SaveBundle(key string, archive []byte) error {
	if err := s.write(path.Join(bundleDir, key), archive); err != nil {
		return fmt.Errorf("save bundle: %w", err)
	}
	return nil
}

// Bundle returns an archive; the error is fs.ErrNotExist when it is not there.
func (s *Store) Bundle(key string) ([]byte, error) {
	archive, err := s.root.ReadFile(path.Join(bundleDir, key))
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	return archive, nil
}

// KeepBundles deletes every archive whose key is not in keys.
func (s *Store) KeepBundles(keys map[string]bool) error {
	entries, err := fs.ReadDir(s.root.FS(), bundleDir)
	if err != nil {
		return fmt.Errorf("list bundles: %w", err)
	}
	var problems []error
	for _, entry := range entries {
		if !keys[entry.Name()] {
			problems = append(problems, s.root.Remove(path.Join(bundleDir, entry.Name())))
		}
	}
	return errors.Join(problems...)
}

const temporary = ".tmp"

func (s *Store) write(name string, data []byte) error {
	if err := s.root.WriteFile(name+temporary, data, 0o600); err != nil {
		return err
	}
	return s.root.Rename(name+temporary, name)
}
