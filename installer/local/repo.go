package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

const branch = "main"

// initRepo scaffolds the installation repo with a bare repository as its origin, as far as that is not done.
func (b *bringUp) initRepo(ctx context.Context) (string, error) {
	if err := b.chooseURLs(); err != nil {
		return "", err
	}
	made, err := workspace.Init(ctx, workspace.Options{
		Dir: b.Repo, Name: b.Name, HubURL: b.hubURL, RepoURL: b.origin, Branch: b.branch,
	})
	if err != nil {
		return "", err
	}
	if b.repo, err = workspace.Find(b.Repo); err != nil {
		return "", err
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

// chooseURLs takes the hub's address and the repo's origin from the installation repo where they stand there.
func (b *bringUp) chooseURLs() error {
	b.branch, b.origin = branch, "file://"+b.Fleet.origin()
	port := b.Port
	if existing, err := fleet.Load(os.DirFS(b.Repo)); err == nil {
		if url := existing.Workspace.Spec.Repo.URL; url != "" {
			b.origin = url
		}
		if name := existing.Workspace.Spec.Repo.Branch; name != "" {
			b.branch = name
		}
		if _, text, err := net.SplitHostPort(trimScheme(existing.Workspace.Spec.Hub.URL)); err == nil {
			port, _ = strconv.Atoi(text) // what is no number is not free either
		}
	}
	wanted, err := b.processes().Wanted()
	if err != nil {
		return err
	}
	if hub, ok := wanted[hubProcess]; ok && !hub.Stopped {
		b.hubURL = flagOf(hub.Command, "--url") // it runs: its own port is in use
		return nil
	}
	port, err = freePort(port)
	b.hubURL = "http://127.0.0.1:" + strconv.Itoa(port)
	return err
}

func trimScheme(url string) string {
	const scheme = "http://"
	if len(url) > len(scheme) && url[:len(scheme)] == scheme {
		return url[len(scheme):]
	}
	return url
}

func flagOf(command []string, name string) string {
	for i, arg := range command[:len(command)-1] {
		if arg == name {
			return command[i+1]
		}
	}
	return ""
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

// hintOnPush has the origin tell the hub of a push, as a git host's webhook would. It shortens the wait, nothing else.
func (b *bringUp) hintOnPush() error {
	script := fmt.Sprintf("#!/bin/sh\n%q hub hint --url %q --token-file %q >/dev/null 2>&1 &\n", b.Plural, b.hubURL, b.TokenFile())
	dir := filepath.Join(b.Fleet.origin(), "hooks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("add hook to origin: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "post-receive"), []byte(script), 0o700); err != nil { //nolint:gosec // git runs it
		return fmt.Errorf("add hook to origin: %w", err)
	}
	return nil
}

// moveHub writes the hub's address into plural.yaml when it had to move to another port.
func (b *bringUp) moveHub(ctx context.Context) error {
	existing, err := fleet.Load(os.DirFS(b.Repo))
	if err != nil {
		return nil //nolint:nilerr // the hub says what is wrong with the repo, with file and line
	}
	old := existing.Workspace.Spec.Hub.URL
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
