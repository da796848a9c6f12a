// Package gitsetup owns the settings of one clone that make git seal and open files.
//
// It refuses to know keys and what sealing is: git is told which of the program's commands to run, and for which paths.
//
// Install plans everything first and writes what differs: a managed block in each hook, which leaves the script that
// stands there as it is; the attributes of the policy, in the clone's own file; and the filter, the text conversion and
// the merge driver in the clone's configuration. Hooks come first, so that nothing can be sealed by a filter before there
// is somebody to notice that it was not. Remove takes the same things away. All work trees of a clone share them; only
// whether a work tree is locked is its own.
package gitsetup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pluralsh/plural/crypto/gitcmd"
)

// The keys of git's configuration that are ours.
const (
	filterKey   = "filter.plural.process"
	requiredKey = "filter.plural.required"
	textconvKey = "diff.plural.textconv"
	cacheKey    = "diff.plural.cachetextconv"
	mergeName   = "merge.plural.name"
	mergeDriver = "merge.plural.driver"
)

// setting is one line of git's configuration.
type setting struct{ key, value string }

// settings are what git is told, in the order in which it is: from the first on that makes git run the filter, git fails
// where the filter fails.
func settings(program string) []setting {
	command := quote(program) + " "
	return []setting{
		{requiredKey, "true"},
		{filterKey, command + filterCommand},
		{textconvKey, command + textconvCommand},
		{cacheKey, "false"}, // the cache would keep what was opened as objects
		{mergeName, "sealed files, merged in the clear"},
		{mergeDriver, strings.ReplaceAll(command, "%", "%%") + mergeCommand},
	}
}

// Install makes git use the program, an absolute path, in this clone. What stands already is left alone, and a program
// that has moved is put in place of the old one. It writes nothing when a hook cannot take its lines: *HookError, one for
// each such hook, joined.
func Install(ctx context.Context, repo *gitcmd.Repo, program string) error {
	if repo.Bare {
		return errors.New("set up git: the repository is bare, nothing is checked out in it")
	}
	if !filepath.IsAbs(program) {
		return fmt.Errorf("set up git: program %q: want an absolute path", program)
	}
	hooks, err := planHooks(ctx, repo, func(h *hook) error { return h.add(program) })
	if err != nil {
		return fmt.Errorf("set up git: %w", err)
	}
	attributes, lines, err := planAttributes(ctx, repo)
	if err != nil {
		return fmt.Errorf("set up git: %w", err)
	}
	if err := writeHooks(hooks); err != nil {
		return fmt.Errorf("set up git: %w", err)
	}
	if err := attributes.write(lines, 0o644); err != nil {
		return fmt.Errorf("set up git: %w", err)
	}
	return configure(ctx, repo, settings(program))
}

func writeHooks(hooks []*hook) error {
	for _, h := range hooks {
		if err := h.file.write(h.want, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func configure(ctx context.Context, repo *gitcmd.Repo, want []setting) error {
	for _, s := range want {
		value, ok, err := repo.Config(ctx, s.key)
		if err == nil && (!ok || value != s.value) {
			err = repo.SetConfig(ctx, s.key, s.value)
		}
		if err != nil {
			return fmt.Errorf("set up git: %w", err)
		}
	}
	return nil
}

// Remove takes away what Install wrote, and this work tree's mark of being locked. Whatever else stands in the same files
// stays byte for byte; a file that holds nothing else goes.
func Remove(ctx context.Context, repo *gitcmd.Repo) error {
	hooks, err := planHooks(ctx, repo, (*hook).cut)
	if err != nil {
		return fmt.Errorf("remove git's settings: %w", err)
	}
	attributes, err := attributesFile(ctx, repo)
	if err != nil {
		return fmt.Errorf("remove git's settings: %w", err)
	}
	rest, err := attributes.cut()
	if err != nil {
		return fmt.Errorf("remove git's settings: %w", err)
	}
	for _, s := range settings("") {
		if err := repo.UnsetConfig(ctx, s.key); err != nil {
			return fmt.Errorf("remove git's settings: %w", err)
		}
	}
	if err := errors.Join(attributes.write(rest, 0o644), writeHooks(hooks)); err != nil {
		return fmt.Errorf("remove git's settings: %w", err)
	}
	return Unlock(ctx, repo)
}

// State is how a clone stands.
type State struct {
	// Filter is the command that git runs to seal and open; empty when there is none.
	Filter string
	// Locked says that the work tree holds what git keeps; see Locked.
	Locked bool
	// Missing says in words what Install would add or change; empty when it would change nothing.
	Missing []string
	// Obstacle is why Install could not do that; nil when it could.
	Obstacle error
}

// Inspect compares the clone with what Install would make of it.
func Inspect(ctx context.Context, repo *gitcmd.Repo, program string) (*State, error) {
	state := &State{}
	var err error
	if state.Locked, err = Locked(ctx, repo); err != nil {
		return nil, err
	}
	for _, s := range settings(program) {
		value, ok, err := repo.Config(ctx, s.key)
		switch {
		case err != nil:
			return nil, fmt.Errorf("inspect git's settings: %w", err)
		case !ok:
			state.Missing = append(state.Missing, "configuration "+s.key)
		case value != s.value:
			state.Missing = append(state.Missing, fmt.Sprintf("configuration %s, which says %q", s.key, value))
		}
		if s.key == filterKey {
			state.Filter = value
		}
	}
	hooks, obstacle := planHooks(ctx, repo, func(h *hook) error { return h.add(program) })
	for _, h := range hooks {
		if !h.current() {
			state.Missing = append(state.Missing, "hook "+h.name)
		}
	}
	attributes, lines, err := planAttributes(ctx, repo)
	if err == nil && !attributes.same(lines) {
		state.Missing = append(state.Missing, "attributes in "+attributes.path)
	}
	state.Obstacle = errors.Join(obstacle, err)
	return state, nil
}
