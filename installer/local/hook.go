package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pluralsh/plural/workspace/fleet"
)

// hookFile is the user that the origin's hook is to the hub, with a role that lets it tell of pushes and nothing else.
const hookFile = "access/local-hook.yaml"

const hookAccess = `# The hook of the local origin tells the hub that somebody pushed. plural up --local wrote this, and keeps the token.
apiVersion: plural.sh/v1alpha1
kind: User
metadata: {name: local-hook}
spec:
  tokens:
    - {name: origin, hash: "%s"}
---
apiVersion: plural.sh/v1alpha1
kind: Role
metadata: {name: local-hook}
spec: {fleet: [hint]}
---
apiVersion: plural.sh/v1alpha1
kind: RoleBinding
metadata: {name: local-hook}
spec: {role: local-hook, users: [local-hook]}
`

// hookToken is the file of the token that the origin's hook shows the hub.
func (f Fleet) hookToken() string { return filepath.Join(f.Dir, "hook-token") }

// hintOnPush has the origin tell the hub of a push, as a git host's webhook would. It shortens the wait, nothing else: until the
// hub serves the commit that has the hash of its token, the hub refuses it.
func (b *bringUp) hintOnPush() error {
	if _, err := os.Lstat(b.hookToken()); errors.Is(err, fs.ErrNotExist) {
		if err := replaceFile(b.hookToken(), []byte(fleet.NewToken()+"\n"), 0o600); err != nil {
			return fmt.Errorf("make token of the origin's hook: %w", err)
		}
	}
	script := fmt.Sprintf("#!/bin/sh\n%s hub hint --url %s --token-file %s >/dev/null 2>&1 &\n",
		quoted(b.Plural), quoted(b.hubURL), quoted(b.hookToken()))
	dir := filepath.Join(b.Fleet.origin(), "hooks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("add hook to origin: %w", err)
	}
	if err := replaceFile(filepath.Join(dir, "post-receive"), []byte(script), 0o700); err != nil {
		return fmt.Errorf("add hook to origin: %w", err)
	}
	return nil
}

// letHookIn adds the hook's user to files, where the repo does not have it with this token. An origin of somebody else's has no
// hook of ours.
func (b *bringUp) letHookIn(files map[string][]byte) error {
	token, err := os.ReadFile(b.hookToken())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read token of the origin's hook: %w", err)
	}
	hash := fleet.HashToken(strings.TrimSpace(string(token)))
	known, err := os.ReadFile(filepath.Join(b.Repo, filepath.FromSlash(hookFile)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", hookFile, err)
	}
	if !strings.Contains(string(known), hash) {
		files[hookFile] = fmt.Appendf(nil, hookAccess, hash)
	}
	return nil
}
