// Package rundir owns the folder in which one local cluster lives.
//
// It refuses to know what a cluster is: it hands out a locked folder, a loopback
// listener on the port that folder used before, and files that appear whole or
// not at all.
//
// Data passes through like this: Open takes the lock and clears the readiness
// file of an earlier run; the caller fills the folder; MarkReady tells waiting
// processes where to look; Close withdraws that promise before the lock goes.
package rundir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// Names of the files in a run folder.
const (
	// KubeconfigFile is the kubeconfig of the cluster, for its owner only.
	KubeconfigFile = "kubeconfig"
	// ReadyFile is there exactly while the cluster can be used.
	ReadyFile = "ready.json"

	lockFile = "lock"
	portFile = "port"
)

var (
	// ErrInUse says that another process holds the folder.
	ErrInUse = errors.New("folder is in use by another localkube process")
	// ErrNotEmpty says that a folder to be removed in the end holds something already.
	ErrNotEmpty = errors.New("folder is not empty")
)

// Ready is what the readiness file tells.
type Ready struct {
	Server    string    `json:"server"`    // URL of the API server
	PID       int       `json:"pid"`       // process that serves it
	Version   string    `json:"version"`   // Kubernetes version, such as v1.35.4
	StartedAt time.Time `json:"startedAt"` // start of that process, UTC
}

// Dir is a run folder held by this process until Close.
type Dir struct {
	path string
	root *os.Root
	lock *fileutil.LockedFile
}

// Open creates the folder when it is missing, for its owner only, and locks it.
// The error is ErrInUse when another process serves a cluster from it.
func Open(path string) (*Dir, error) {
	given := path
	path, err := filepath.Abs(given)
	if err != nil {
		return nil, fmt.Errorf("resolve folder %q: %w", given, err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create folder %q: %w", path, err)
	}
	lock, err := fileutil.TryLockFile(filepath.Join(path, lockFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("lock folder %q: %w; stop that one first or pass another --dir", path, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("lock folder %q: %w", path, err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open folder %q: %w", path, err), lock.Close())
	}
	d := &Dir{path: path, root: root, lock: lock}
	if err := d.withdraw(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// OpenEmpty is Open for a folder that is to be removed in the end, so that it must hold
// nothing yet.
func OpenEmpty(path string) (*Dir, error) {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read folder %q: %w", path, err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("use folder %q: %w", path, ErrNotEmpty)
	}
	return Open(path)
}

// Path is the absolute path of the folder.
func (d *Dir) Path() string { return d.path }

// Root gives access to the files of the folder and to nothing outside it.
func (d *Dir) Root() *os.Root { return d.root }

// Listen opens a loopback listener on the port this folder used before, or on a
// free one when there was none or somebody else took it meanwhile.
func (d *Dir) Listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", d.rememberedPort()))
	if err != nil {
		listener, err = config.Listen(ctx, "tcp4", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := d.WriteFile(portFile, []byte(strconv.Itoa(port)+"\n")); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// rememberedPort is the port of the last run, or 0, which asks for any.
func (d *Dir) rememberedPort() string {
	content, err := d.root.ReadFile(portFile)
	if err != nil {
		return "0"
	}
	port, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 16)
	if err != nil {
		return "0"
	}
	return strconv.FormatUint(port, 10)
}

// MarkReady writes the readiness file.
func (d *Dir) MarkReady(ready Ready) error {
	content, err := json.MarshalIndent(ready, "", "  ")
	if err != nil {
		return fmt.Errorf("encode readiness: %w", err)
	}
	return d.WriteFile(ReadyFile, append(content, '\n'))
}

// WriteFile replaces a file of the folder as a whole, readable by its owner only.
func (d *Dir) WriteFile(name string, content []byte) error {
	temporary := name + ".tmp"
	if err := d.root.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := d.root.Rename(temporary, name); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return nil
}

// Close removes the readiness file and gives the folder back.
func (d *Dir) Close() error {
	return errors.Join(d.withdraw(), d.root.Close(), d.lock.Close())
}

// Remove deletes the folder with all it holds, and gives it back.
func (d *Dir) Remove() error {
	return errors.Join(d.withdraw(), os.RemoveAll(d.path), d.root.Close(), d.lock.Close())
}

func (d *Dir) withdraw() error {
	if err := d.root.Remove(ReadyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", ReadyFile, err)
	}
	return nil
}
