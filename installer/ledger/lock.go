package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/pluralsh/plural/internal/replace"
)

const (
	// stateDir is in the clone's git folder. Whoever holds the kernel's lock on guardFile is the one process of this clone that
	// may ask for the record's lock; askedFile holds the locks that processes of this clone asked for.
	stateDir  = "plural"
	guardFile = "deployments.lock"
	askedFile = "deployments.asked.json"
	// keptAsked bounds askedFile, maxAsked its length in bytes.
	keptAsked = 8
	maxAsked  = 1 << 20
)

// Acquire makes this process the only one that writes the record. ID, Host, PID and Since are filled in, and Holder where it is
// empty. The error is a *LockedError when somebody else has the lock; but one that a process of this clone asked for which has
// ended since is taken over.
func (l *Ledger) Acquire(ctx context.Context, wanted Lock) (*Held, error) {
	c, err := l.clone(ctx)
	if err != nil {
		return nil, err
	}
	lock, err := c.fill(ctx, wanted)
	if err != nil {
		return nil, err
	}
	g, err := guard(c.CommonDir)
	if errors.Is(err, errGuarded) {
		return nil, l.heldHere(ctx, c)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the record of deployments: %w", err)
	}
	h, err := l.acquire(ctx, g, lock)
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return h, nil
}

func (l *Ledger) acquire(ctx context.Context, g *guarded, lock Lock) (*Held, error) {
	asked, err := g.asked()
	if err != nil {
		return nil, err
	}
	// It is written down before the remote hears of it: whatever becomes of this process, the lock is known to be this clone's.
	if err := g.ask(append(slices.Clone(asked), g.own(lock))); err != nil {
		return nil, err
	}
	h := &Held{Lock: lock, ledger: l, guard: g, turn: make(chan struct{}, 1)}
	h.seen, err = l.change(ctx, fmt.Sprintf("Lock for %s: %s", lock.Holder, lock.Purpose), func(r *Record) error {
		h.TookOver = nil
		if r.Lock != nil && r.Lock.ID != lock.ID {
			if !slices.ContainsFunc(asked, func(a request) bool { return a.Lock.ID == r.Lock.ID && a.Guard == g.id }) {
				return locked(*r.Lock)
			}
			h.TookOver = r.Lock
		}
		r.Lock = &lock
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h, g.ask([]request{g.own(lock)})
}

// heldHere says that another process of this clone holds the lock, or is about to.
func (l *Ledger) heldHere(ctx context.Context, c *clone) error {
	if r, err := l.Read(ctx); err == nil && r.Lock != nil {
		return &LockedError{Lock: *r.Lock}
	}
	g := &guarded{dir: filepath.Join(c.CommonDir, stateDir)}
	if asked, err := g.asked(); err == nil && len(asked) > 0 {
		return &LockedError{Lock: asked[len(asked)-1].Lock}
	}
	return &LockedError{Lock: Lock{ID: "unknown", Holder: "another process of this clone", Host: hostname(), Since: time.Now()}}
}

// Break takes a lock away from whoever has it, who is told when it writes next. The id says which one is meant: an error tells
// when another one is held meanwhile. That none is held is fine.
func (l *Ledger) Break(ctx context.Context, id string) error {
	_, err := l.change(ctx, "Break lock "+id, func(r *Record) error {
		if r.Lock != nil && r.Lock.ID != id {
			return locked(*r.Lock)
		}
		r.Lock = nil
		return nil
	})
	return err
}

// fill completes a lock with what is known of this process.
func (c *clone) fill(ctx context.Context, lock Lock) (Lock, error) {
	name, email := c.person(ctx)
	if lock.Holder == "" {
		lock.Holder = name + " <" + email + ">"
	}
	lock.ID, lock.Host, lock.PID, lock.Since = rand.Text()[:12], hostname(), os.Getpid(), time.Now().UTC().Truncate(time.Second)
	return lock, nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// locked is the error about somebody's lock.
func locked(lock Lock) *LockedError {
	gone := lock.Host == hostname() && lock.PID > 0 && errors.Is(syscall.Kill(lock.PID, 0), syscall.ESRCH)
	return &LockedError{Lock: lock, Gone: gone}
}

// guarded is the right of this process to ask for the record's lock on behalf of its clone. The kernel takes it back when the
// process ends, however it does: so whoever has it knows that no other process of the clone works on the record.
type guarded struct {
	dir  string
	file *os.File
	id   string // of the file, as the kernel knows it
}

// errGuarded means that another process of this clone works on the record.
var errGuarded = errors.New("another process of this clone works on the record")

func guard(gitDir string) (*guarded, error) {
	dir := filepath.Join(gitDir, stateDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, guardFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errGuarded
		}
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	g := &guarded{dir: dir, file: file}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		g.id = fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
	}
	return g, nil
}

// close lets other processes of the clone ask.
func (g *guarded) close() error { return g.file.Close() }

// request is a lock that a process of this clone asked for, in a clone whose guard's file is this one: a clone that was copied,
// with all that its git folder holds, is another one.
type request struct {
	Lock  Lock   `json:"lock"`
	Guard string `json:"guard"`
}

// own is a request of this clone's.
func (g *guarded) own(lock Lock) request { return request{lock, g.id} }

// asked are the requests of processes of this clone.
func (g *guarded) asked() ([]request, error) {
	file, err := os.Open(filepath.Join(g.dir, askedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var asked []request
	if err := json.NewDecoder(io.LimitReader(file, maxAsked)).Decode(&asked); err != nil {
		return nil, fmt.Errorf("read %s: %w; remove it", file.Name(), err)
	}
	return asked, nil
}

func (g *guarded) ask(asked []request) error {
	text, err := json.Marshal(asked[max(0, len(asked)-keptAsked):])
	if err != nil {
		return fmt.Errorf("write %s: %w", askedFile, err)
	}
	root, err := os.OpenRoot(g.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return replace.File(root, askedFile, text, 0o600)
}
