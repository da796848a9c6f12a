package gitcmd

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// GitPath is where git keeps a file of its own folder, "hooks" or "info/attributes", as an absolute path. Settings like
// core.hooksPath are respected, and what belongs to one work tree is told from what all share.
func (r *Repo) GitPath(ctx context.Context, name string) (string, error) {
	out, err := r.run(ctx, nil, "rev-parse", "--path-format=absolute", "--git-path", name)
	if err != nil {
		return "", fmt.Errorf("locate %q: %w", name, err)
	}
	return filepath.FromSlash(strings.TrimSuffix(string(out), "\n")), nil
}

// Config is the value that counts of a key like "core.bare"; ok is false when no file sets it.
func (r *Repo) Config(ctx context.Context, key string) (value string, ok bool, err error) {
	out, err := r.run(ctx, nil, "config", "-z", "--get", key)
	switch {
	case exited(err, 1):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("read git's setting %s: %w", key, err)
	}
	return strings.TrimSuffix(string(out), "\x00"), true, nil
}

// SetConfig sets a key for this clone, in all its work trees, in place of all values that it had there.
func (r *Repo) SetConfig(ctx context.Context, key, value string) error {
	if _, err := r.run(ctx, nil, "config", "--local", "--replace-all", key, value); err != nil {
		return fmt.Errorf("set git's setting %s: %w", key, err)
	}
	return nil
}

// UnsetConfig takes a key away from this clone. A key that is not set is no error.
func (r *Repo) UnsetConfig(ctx context.Context, key string) error {
	if _, err := r.run(ctx, nil, "config", "--local", "--unset-all", key); err != nil && !exited(err, 5) {
		return fmt.Errorf("unset git's setting %s: %w", key, err)
	}
	return nil
}
