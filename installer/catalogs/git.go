package catalogs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/upstream"
)

// busyPoll is how often another process's fetch into the same mirror is looked for.
const busyPoll = 100 * time.Millisecond

// git is a catalog in a folder of a git repository.
type git struct {
	ref     fleet.CatalogRef
	source  *fleet.Source
	files   fs.FS
	options Options
}

// open brings the mirror up to date and gives the catalog in it. What was opened stays readable when another process changes
// the mirror later: its files are open.
func (g *git) open(ctx context.Context) (catalog.Catalog, error) {
	if !g.options.AllowFile && strings.HasPrefix(strings.ToLower(g.source.URL()), "file:") {
		return nil, &FileError{Source: g.ref.Source}
	}
	dir := filepath.Join(g.options.Cache, "catalogs", g.id())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep a mirror on this machine: %w", err)
	}
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	m, err := mirror.Open(dir)
	if err != nil {
		return nil, err
	}
	ref := g.source.Spec.Git.Ref
	asked := g.fetch(ctx, m, ref)
	if asked != nil && ctx.Err() != nil {
		return nil, asked
	}
	snap, err := m.Snapshot(ref)
	if errors.Is(err, snapshot.ErrNotFetched) && asked != nil {
		return nil, fmt.Errorf("source %s: %w", g.ref.Source, asked)
	}
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", g.ref.Source, err)
	}
	c, err := folder(g.ref, snap.FS())
	if err == nil && asked != nil && g.options.Stale != nil {
		g.options.Stale(Stale{Catalog: g.ref.Name, Fetched: m.Fetched(), Err: asked})
	}
	return c, err
}

func (g *git) fetch(ctx context.Context, m *mirror.Mirror, ref string) error {
	if g.options.Offline {
		return ErrOffline
	}
	a, err := upstream.Find(g.source, g.files, g.options.Identities)
	if err != nil {
		return err
	}
	from, err := a.Mirror(g.options.AllowFile)
	if err != nil {
		return err
	}
	_, err = m.Fetch(ctx, from, []string{ref})
	return err
}

// id tells mirrors apart by all that decides what may be read of a server.
func (g *git) id() string {
	spec := g.source.Spec
	spec.Interval = ""
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err) // a struct of texts
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// lock waits until no other process opens or fetches into a mirror. The lock goes with the process, however it ends.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock a mirror on this machine: %w", err)
	}
	tick := time.NewTicker(busyPoll)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another plural that fetches: %w", context.Cause(ctx)), file.Close())
		case <-tick.C:
		}
	}
}
