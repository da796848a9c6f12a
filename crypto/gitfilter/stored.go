package gitfilter

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/pluralsh/plural/crypto/gitcmd"
)

// few is how many files are looked for in HEAD one by one. For more it is listed: git searches a folder from its start for
// each file.
const few = 8

// stored is what git holds at a path, in the index and in HEAD.
type stored struct {
	repo  *gitcmd.Repo
	blobs *gitcmd.Blobs
	index fs.FileInfo       // of the index when blobs was started, nil for none
	head  map[string]string // oid by path; nil before it was listed
	asked int               // how many files were looked for in HEAD
}

// blob is one stored file; the zero blob is none.
type blob struct {
	content []byte
	oid     string
}

// places are where a file may be, the nearest first.
func (s *stored) places() []func(ctx context.Context, path string) (blob, error) {
	return []func(context.Context, string) (blob, error){s.inIndex, s.inHead}
}

func (s *stored) inIndex(ctx context.Context, path string) (blob, error) {
	return s.get(ctx, ":0:"+path)
}

func (s *stored) inHead(ctx context.Context, path string) (blob, error) {
	if s.head == nil && s.asked < few {
		s.asked++
		return s.get(ctx, "HEAD:"+path)
	}
	if s.head == nil {
		entries, err := s.repo.Tree(ctx, "HEAD")
		if err != nil && !errors.Is(err, gitcmd.ErrNoRevision) {
			return blob{}, err
		}
		s.head = make(map[string]string, len(entries))
		for _, e := range entries {
			s.head[e.Path] = e.Oid
		}
	}
	oid, ok := s.head[path]
	if !ok {
		return blob{}, nil
	}
	return s.get(ctx, oid)
}

// has says whether a commit or tree has a file at path.
func (s *stored) has(ctx context.Context, treeish, path string) (bool, error) {
	b, err := s.get(ctx, treeish+":"+path)
	return b.oid != "", err
}

// get takes a file that is too large to be a sealed one for none.
func (s *stored) get(ctx context.Context, name string) (blob, error) {
	blobs, err := s.open(ctx)
	if err != nil {
		return blob{}, err
	}
	content, oid, _, err := blobs.Get(name)
	if err != nil && !errors.Is(err, gitcmd.ErrTooLarge) {
		return blob{}, err
	}
	return blob{content, oid}, nil
}

func (s *stored) open(ctx context.Context) (*gitcmd.Blobs, error) {
	if s.blobs != nil {
		return s.blobs, nil
	}
	s.index = s.stat()
	var err error
	s.blobs, err = s.repo.Blobs(ctx)
	return s.blobs, err
}

// moved says whether git has written the index since it was looked at.
func (s *stored) moved() bool { return s.blobs != nil && !same(s.index, s.stat()) }

// forget drops what was read.
func (s *stored) forget() {
	_ = s.close() // a process that only reads
	s.blobs, s.head, s.asked = nil, nil, 0
}

func (s *stored) stat() fs.FileInfo {
	info, err := os.Stat(s.repo.IndexFile)
	if err != nil {
		return nil
	}
	return info
}

// same says whether nobody has written the file: git replaces it as a whole.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (s *stored) close() error {
	if s.blobs == nil {
		return nil
	}
	return s.blobs.Close()
}
