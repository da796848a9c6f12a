package terraform

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pluralsh/plural/internal/replace"
)

// Module is what to run, and where.
type Module struct {
	// Files are the module's own: its root module lies at their root.
	Files fs.FS
	// Dir is this module's working folder, for nobody else and nothing else. It is made, private to its user, and keeps
	// what later runs need. A second Prepare on it waits for the first one's Work to be closed, and for its terraform.
	Dir string
	// Inputs are the values of the module's variables: what JSON can say. Terraform itself brings texts to Unicode's
	// normal form C; every other byte arrives as it is here.
	Inputs map[string]any
	// Secret names the inputs that appear in no log and no error, and whose file goes as soon as it was read. Texts of
	// fewer than four bytes are not hidden: they stand everywhere by chance.
	Secret map[string]bool
	// Backend completes the backend block that the module has; a module without one refuses it.
	Backend map[string]any
	// SecretBackend names those of its settings that appear in no log and no error.
	SecretBackend map[string]bool
	// State is the newest that the caller knows, in clear; nil where there is none or the backend keeps it.
	State []byte
	// AllowDestroy lets Apply destroy and replace.
	AllowDestroy bool
	// Told hears in a line what a person waits for; nil is nobody. The log of Prepare gets much more.
	Told func(text string)
	// Grace is how long terraform may take to stop once it was asked to, before it is killed; zero is five minutes.
	Grace time.Duration
	// Cache is where providers are kept for all modules; empty is plural/terraform in this user's cache folder.
	Cache string
	// Env has variables for terraform and its providers besides this process's own.
	Env map[string]string
}

// Work is an initialised module. It is for one caller at a time.
type Work struct {
	tool    Tool
	dir     string
	env     map[string]string
	log     *journal
	hold    *hold
	grace   time.Duration
	allowed bool
	inputs  map[string]any
	secret  map[string]any
	backend string // its type; empty where the state lies in the module's folder
	plan    *Summary
	closed  bool
}

// module is the folder that terraform runs in.
func (w *Work) module() string { return filepath.Join(w.dir, moduleFolder) }

// HasBackend says whether the module keeps its state elsewhere than in its folder.
func (w *Work) HasBackend() bool { return w.backend != "" }

// Backend is the type of what keeps the state elsewhere, such as s3; empty where nothing does.
func (w *Work) Backend() string { return w.backend }

// Prepare waits until nothing else works in the module's folder, unpacks the module, puts the newest state there and
// initialises it. The log gets whole lines, each by one Write; it may be nil.
func (t *Tool) Prepare(ctx context.Context, m Module, log io.Writer) (_ *Work, err error) {
	w := &Work{
		tool: *t, dir: m.Dir, log: newJournal(log), grace: cmp.Or(m.Grace, grace), allowed: m.AllowDestroy,
		inputs: map[string]any{}, secret: map[string]any{},
	}
	w.log.told = m.Told
	for _, name := range slices.Sorted(maps.Keys(m.Inputs)) {
		if err := sayable(name, m.Inputs[name]); err != nil {
			return nil, err
		}
		if m.Secret[name] {
			w.secret[name] = m.Inputs[name]
			w.log.give(m.Inputs[name])
		} else {
			w.inputs[name] = m.Inputs[name]
		}
	}
	for name := range m.SecretBackend {
		w.log.keep(m.Backend[name])
	}
	// Terraform makes its state for everybody to read, so the folder around it is shut, whoever made it.
	if err := errors.Join(os.MkdirAll(w.module(), 0o700), os.Chmod(m.Dir, 0o700)); err != nil {
		return nil, fmt.Errorf("prepare terraform: %w", err)
	}
	if w.hold, err = take(ctx, m.Dir, w.log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if err := w.lay(m); err != nil {
		return nil, err
	}
	cache, err := w.caches(m)
	if err != nil {
		return nil, err
	}
	if err := w.initialise(ctx, m.Backend, cache); err != nil {
		return nil, err
	}
	if err := w.settle(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// sayable refuses what JSON would change on the way.
func sayable(name string, value any) error {
	bad := false
	leaves(value, func(text string) { bad = bad || !utf8.ValidString(text) })
	if _, err := json.Marshal(value); err != nil {
		return &InputError{name, "it is not what JSON can say", "give it as text, number, boolean, list or map"}
	}
	if bad {
		return &InputError{name, "it is not valid UTF-8", "give it in base64, and decode it in the module"}
	}
	return nil
}

// lay unpacks the module beside the newest state, and knows what is secret in that.
func (w *Work) lay(m Module) error {
	root, err := os.OpenRoot(w.module())
	if err != nil {
		return fmt.Errorf("prepare terraform: %w", err)
	}
	defer func() { _ = root.Close() }()
	kept := m.State
	for _, name := range []string{asideFile, stateFile} {
		found, err := readIf(root, name)
		if err != nil {
			return err
		}
		backup, err := readIf(root, name+".backup")
		if err != nil {
			return err
		}
		if kept, err = newest(kept, found, filepath.Join(w.module(), name), len(bytes.TrimSpace(backup)) > 0); err != nil {
			return err
		}
	}
	known, err := read(kept)
	if err != nil {
		return err
	}
	known.secrets(w.log.keep)
	if known != nil {
		if err := replace.File(root, asideFile, kept, 0o600); err != nil {
			return fmt.Errorf("keep terraform state: %w", err)
		}
	}
	if err := w.remove(stateFile); err != nil {
		return fmt.Errorf("keep terraform state: %w", err)
	}
	if err := unpack(m.Files, root); err != nil {
		return fmt.Errorf("unpack terraform module: %w", err)
	}
	return nil
}

func readIf(root *os.Root, name string) ([]byte, error) {
	raw, err := root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if raw == nil {
		raw = []byte{} // it is there, and empty
	}
	return raw, err
}

// backendConfig is the file by which a backend block is completed.
const backendConfig = "plural.backend.json"

// initialise gets the module's providers and its backend. Terraform's folder of providers is not made for two at once.
func (w *Work) initialise(ctx context.Context, backend map[string]any, cache *cache) error {
	w.env = cache.env
	args := []string{"init", "-no-color", "-reconfigure"}
	if len(backend) > 0 {
		raw, err := json.Marshal(backend)
		if err != nil {
			return fmt.Errorf("encode terraform backend: %w", err)
		}
		if err := w.write(backendConfig, raw); err != nil {
			return err
		}
		args = append(args, "-backend-config="+backendConfig)
	}
	release, err := cache.take(ctx, w.log)
	if err != nil {
		return err
	}
	defer release()
	heard, err := w.hear(ctx, "init", args)
	if err != nil && ctx.Err() == nil && cache.relock && heard.outdated() {
		// The module asks for other providers than it did when the folder last saw it.
		if err := os.Remove(filepath.Join(w.module(), lockFile)); err != nil {
			return fmt.Errorf("terraform init: %w", err)
		}
		_, err = w.hear(ctx, "init", args)
	}
	if err != nil {
		return err
	}
	w.backend, err = backendOf(w.module())
	if err == nil && len(backend) > 0 && w.backend == "" {
		return &FailedError{
			During: "init", Summary: "the step gives backend settings, and the module has no backend block",
			Solution: "add one to the module, such as terraform { backend \"s3\" {} }, or take the settings out",
		}
	}
	return err
}

// hear runs a command without JSON.
func (w *Work) hear(ctx context.Context, during string, args []string) (*hearing, error) {
	heard := &hearing{log: w.log}
	return heard, w.failed(during, heard, w.run(ctx, during, args, heard.text))
}

// backendOf reads what terraform has noted of the module's backend. A local one without a path is none: its state lies
// where that of a module without a backend does.
func backendOf(module string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(module, dataFolder, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var noted struct {
		Backend struct {
			Type   string         `json:"type"`
			Config map[string]any `json:"config"`
		} `json:"backend"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &noted)
	}
	if err != nil {
		return "", fmt.Errorf("read terraform's note of its backend: %w", err)
	}
	if noted.Backend.Type == "local" && noted.Backend.Config["path"] == nil {
		return "", nil
	}
	return noted.Backend.Type, nil
}

// settle puts the state where the module looks for it. To a backend it brings what lies here: the state of a module that had
// none before, and one that could not be written there when it should have been. Terraform refuses one that is older, or of
// other things.
func (w *Work) settle(ctx context.Context) error {
	if !w.HasBackend() {
		err := os.Rename(filepath.Join(w.module(), asideFile), filepath.Join(w.module(), stateFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("put terraform state in its place: %w", err)
		}
		return nil
	}
	for _, name := range []string{asideFile, erroredFile} {
		raw, err := os.ReadFile(filepath.Join(w.module(), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("move terraform state to its backend: %w", err)
		}
		if err := w.push(ctx, name, raw); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(w.module(), name)); err != nil {
			return fmt.Errorf("move terraform state to its backend: %w", err)
		}
	}
	return nil
}

// push gives the backend a state, unless it has that or what followed it.
func (w *Work) push(ctx context.Context, name string, raw []byte) error {
	program, err := w.reading()
	if err != nil {
		return err
	}
	there, err := program.StatePull(ctx)
	if err != nil {
		return fmt.Errorf("read terraform state from its backend: %s", w.log.clean(err.Error()))
	}
	newer, err := newest([]byte(there), raw, filepath.Join(w.module(), name), false)
	if err != nil || !bytes.Equal(newer, raw) {
		return err
	}
	heard := &hearing{log: w.log}
	return w.failed("state push", heard, w.run(ctx, "state push", []string{"state", "push", "-no-color", name}, heard.text))
}
