package terraform

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/adrg/xdg"

	"github.com/pluralsh/plural/internal/boundwalk"
	"github.com/pluralsh/plural/internal/replace"
)

// What lies in a module's folder besides the module.
const (
	moduleFolder = "module"
	dataFolder   = ".terraform"
	lockFile     = ".terraform.lock.hcl"
	stateFile    = "terraform.tfstate"
	asideFile    = "plural.tfstate" // the state while init runs, which would ask about it
	erroredFile  = "errored.tfstate"
	planFile     = "plural.tfplan"
	inputsFile   = "plural.tfvars.json"
	secretsFile  = "plural.secret.tfvars.json"
)

const (
	maxFiles = 10_000
	maxBytes = 64 << 20
)

// unpack makes the folder hold the module's files, and of what was there before only what terraform goes on from.
func unpack(files fs.FS, root *os.Root) error {
	there, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range there {
		if !slices.Contains([]string{dataFolder, lockFile, stateFile, asideFile, erroredFile}, entry.Name()) {
			if err := root.RemoveAll(entry.Name()); err != nil {
				return err
			}
		}
	}
	count, size := 0, int64(0)
	return boundwalk.Dir(files, ".", 2*maxFiles, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if reserved(name) {
			return fmt.Errorf("%s: a module may not bring this file, which a run writes: remove it", name)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: it is a link or no plain file: put its content in its place", name)
		}
		if count, size = count+1, size+info.Size(); count > maxFiles || size > maxBytes {
			return fmt.Errorf("%s: the module has more than %d files or %d MiB: leave out what it does not need", name, maxFiles,
				maxBytes>>20)
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return replace.File(root, name, content, 0o600|info.Mode().Perm()&0o100)
	})
}

// reserved says whether a module's file would stand for one that a run writes.
func reserved(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	base := path.Base(name)
	return slices.Contains(strings.Split(name, "/"), dataFolder) || base == stateFile || strings.HasPrefix(base, stateFile+".") ||
		slices.Contains([]string{asideFile, erroredFile, planFile, inputsFile, secretsFile, backendConfig}, first)
}

// write puts a file of ours into the module's folder, for this user alone.
func (w *Work) write(name string, content []byte) error {
	root, err := os.OpenRoot(w.module())
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() { _ = root.Close() }()
	return replace.File(root, name, content, 0o600)
}

// remove takes files of the module's folder away, where they are.
func (w *Work) remove(names ...string) error {
	var all []error
	for _, name := range names {
		if err := os.Remove(filepath.Join(w.module(), name)); !errors.Is(err, fs.ErrNotExist) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// cache is where providers are kept for all modules of this user.
type cache struct {
	dir    string
	env    map[string]string
	relock bool // the lock file is terraform's own, from an earlier run, and not the module's
}

// caches makes the folder of providers. Who has named one already keeps that.
func (w *Work) caches(m Module) (*cache, error) {
	c := &cache{dir: m.Cache, env: map[string]string{}, relock: true}
	for name, value := range m.Env {
		c.env[name] = value
	}
	if c.dir == "" {
		c.dir = filepath.Join(xdg.CacheHome, "plural", "terraform")
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for providers: %w", err)
	}
	if c.env["TF_PLUGIN_CACHE_DIR"] == "" && os.Getenv("TF_PLUGIN_CACHE_DIR") == "" {
		c.env["TF_PLUGIN_CACHE_DIR"] = c.dir
	}
	if _, err := fs.Stat(m.Files, lockFile); err == nil {
		c.relock = false
	} else {
		// The lock file is for this folder alone, so it needs no checksums but of what is here.
		c.env["TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE"] = "1"
	}
	return c, nil
}

// take has the folder of providers for one init: terraform does not guard it against two.
func (c *cache) take(ctx context.Context, log *journal) (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(c.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock folder of providers: %w", err)
	}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for told := false; syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil; told = true {
		if !told {
			log.say("waiting for another module to get its providers")
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, &StoppedError{During: "init", Cause: context.Cause(ctx)}
		case <-ticker.C:
		}
	}
	return func() { _ = file.Close() }, nil
}

// outdated says whether the lock file is what stood in init's way.
func (h *hearing) outdated() bool {
	for _, d := range h.errors {
		said := strings.Join(strings.Fields(d.Summary+" "+d.Detail), " ")
		if strings.Contains(said, "does not match configured version constraint") || strings.Contains(said, "init -upgrade") ||
			strings.Contains(said, "doesn't match any of the checksums") {
			return true
		}
	}
	return false
}
