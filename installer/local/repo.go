package local

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

const branch = "main"

// choose takes the hub's address, the branch and the repo's origin from the installation repo where they stand there.
func (b *bringUp) choose(known record) error {
	b.branch, b.origin = branch, "file://"+b.Fleet.origin()
	port := b.Port
	w, err := b.manifest()
	if err != nil {
		return err
	}
	if w == nil {
		if _, err := git.PlainOpen(b.Fleet.origin()); err == nil {
			return fmt.Errorf("the repo of this fleet is not in %s any more, and its origin is still there: git clone %s %s brings it back; "+
				"plural down %s && rm -r %s lets a new fleet begin", b.Repo, b.Fleet.origin(), b.Repo, b.Repo, b.Dir)
		}
	} else {
		b.origin, b.branch = cmp.Or(w.Spec.Repo.URL, b.origin), cmp.Or(w.Spec.Repo.Branch, b.branch)
		if port, err = localPort(w.Spec.Hub.URL, port); err != nil {
			return err
		}
	}
	runs, err := b.hubRuns()
	if err != nil {
		return err
	}
	if runs && known.Hub != "" {
		b.hubURL = known.Hub // its own port is in use
		return nil
	}
	if w == nil && b.isOthers(port) {
		port = 0
	}
	taken := port
	if port, err = freePort(port); err != nil {
		return err
	}
	if b.hubURL = "http://127.0.0.1:" + strconv.Itoa(port); w != nil && port != taken && taken != 0 {
		b.moved = fmt.Sprintf("; port %d was taken", taken)
	}
	return nil
}

// isOthers says whether a port is that of another fleet's hub, which may be down just now.
func (b *bringUp) isOthers(port int) bool {
	fleets, err := All(filepath.Dir(b.Dir))
	return err == nil && slices.ContainsFunc(fleets, func(other Fleet) bool {
		w, err := other.manifest()
		if err != nil || w == nil || other.Dir == b.Dir {
			return false
		}
		its, err := localPort(w.Spec.Hub.URL, 0)
		return err == nil && its == port
	})
}

// manifest is what plural.yaml says, nil when there is none. What is wrong with other files is for the hub to say.
func (f Fleet) manifest() (*fleet.Workspace, error) {
	root, err := os.OpenRoot(f.Repo)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	if _, err := root.Lstat(workspace.Manifest); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return fleet.LoadWorkspace(root.FS())
}

// localPort is the port of a hub on this machine. A repo whose hub is elsewhere is somebody's fleet: it is not for us to
// move that hub, or to push local clusters to it.
func localPort(hub string, otherwise int) (int, error) {
	if hub == "" {
		return otherwise, nil
	}
	u, err := url.Parse(hub)
	if err != nil {
		return 0, fmt.Errorf("read spec.hub.url of %s: %w", workspace.Manifest, err)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && !ip.IsLoopback() {
		return 0, fmt.Errorf("the repo belongs to the hub at %s: a local fleet wants a folder of its own", hub)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return otherwise, nil //nolint:nilerr // no port is written there
	}
	return port, nil
}

// hubRuns says whether the hub of an earlier up is running now.
func (b *bringUp) hubRuns() (bool, error) {
	up, err := b.Running()
	if err != nil || !up {
		return false, err
	}
	wanted, err := b.processes().Wanted()
	if err != nil {
		return false, err
	}
	states, err := b.processes().Status()
	hub, ok := wanted[HubPart]
	return ok && !hub.Stopped && states[HubPart].PID != 0, err
}

// initRepo scaffolds the installation repo with a bare repository as its origin, as far as that is not done.
func (b *bringUp) initRepo(ctx context.Context) (string, error) {
	made, err := workspace.Init(ctx, workspace.Options{
		Dir: b.Repo, Name: b.Name, HubURL: b.hubURL, RepoURL: b.origin, Branch: b.branch,
	})
	if err != nil {
		return "", err
	}
	if b.repo, err = workspace.Find(b.Repo); err != nil {
		return "", err
	}
	b.repo.UseKeys(b.Keys)
	if b.Seal != nil && slices.Contains(made.Created, workspace.Manifest) {
		if err := b.Seal(ctx, b.repo); err != nil {
			return "", fmt.Errorf("seal secrets: %w", err)
		}
	}
	if err := b.connectOrigin(); err != nil {
		return "", err
	}
	if err := b.moveHub(ctx); err != nil {
		return "", err
	}
	if _, err := b.repo.Push(ctx); err != nil {
		return "", err
	}
	if made.Commit == "" {
		return b.Repo + " as it was", nil
	}
	return b.Repo, nil
}

// freePort is the wanted port, or another one when that is in use.
func freePort(wanted int) (int, error) {
	for _, port := range []int{wanted, 0} {
		listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)) //nolint:noctx // returns at once
		if err != nil {
			continue
		}
		addr, _ := listener.Addr().(*net.TCPAddr)
		return addr.Port, listener.Close()
	}
	return 0, errors.New("no port is free on 127.0.0.1 for the hub")
}

// connectOrigin makes the bare repository that stands in for a git host, unless the installation repo has an origin.
func (b *bringUp) connectOrigin() error {
	if b.origin == "file://"+b.Fleet.origin() {
		_, err := git.PlainInitWithOptions(b.Fleet.origin(), &git.PlainInitOptions{
			Bare: true, InitOptions: git.InitOptions{DefaultBranch: plumbing.NewBranchReferenceName(b.branch)},
		})
		if err != nil && !errors.Is(err, git.ErrRepositoryAlreadyExists) {
			return fmt.Errorf("make origin %s: %w", b.origin, err)
		}
		if err := b.hintOnPush(); err != nil {
			return err
		}
	}
	return b.repo.AddOrigin(b.origin, b.branch)
}

// quoted is text as one word of a shell, whatever is in it.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// moveHub writes the hub's address into plural.yaml when it had to move to another port.
func (b *bringUp) moveHub(ctx context.Context) error {
	w, err := b.manifest()
	if err != nil {
		return err
	}
	old := w.Spec.Hub.URL
	if old == b.hubURL || old == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(b.Repo, workspace.Manifest))
	if err != nil {
		return fmt.Errorf("read %s: %w", workspace.Manifest, err)
	}
	text = bytes.Replace(text, []byte(old), []byte(b.hubURL), 1)
	_, err = b.repo.Commit(ctx, "Move the local hub to "+b.hubURL, map[string][]byte{workspace.Manifest: text})
	return err
}
