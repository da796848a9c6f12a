// Package cmdutil owns the options, clients and printers that commands share, made when first used.
//
// It refuses to know any single command.
//
// The root command binds Globals to the flags and hands one *Factory to each constructor NewCmdX(f). A constructor only
// declares; when the command runs, it asks the factory for what it needs, and only then is a disk or a network touched.
package cmdutil

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/adrg/xdg"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/cli/hosts"
	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

// maxCertificates bounds the file that PLURAL_CA_FILE names, in bytes.
const maxCertificates = 1 << 20

// Globals are the flags that every command has.
type Globals struct {
	// Dir is where the installation repo is looked for, upward; empty means the working directory.
	Dir string
	// Hub is the hub's address; empty means PLURAL_HUB, then the repo's plural.yaml.
	Hub string
	// Output and JQ choose the format of what is printed.
	Output, JQ string
	// NoHeaders leaves the names of columns out of tables.
	NoHeaders bool
	// Quiet leaves out what is not the result; Verbose adds details of what happens.
	Quiet, Verbose bool
	// Color is auto, always or never.
	Color string
	// NoPager prints long texts as they are.
	NoPager bool
	// NoInput never asks; Yes takes confirmations as given, but those that a name is typed for.
	NoInput, Yes bool
	// Timeout ends the command; 0 means never.
	Timeout time.Duration
	// LogFormat is text or json.
	LogFormat string
}

// Factory makes what commands need from the flags and the environment.
type Factory struct {
	Globals
	// IO is where commands read and write.
	IO *ui.Streams
	// Version is the program's.
	Version string
	// Now is the clock.
	Now func() time.Time
	// Getenv reads the environment.
	Getenv func(string) string
}

// WorkDir is the folder that -C or PLURAL_REPO names, else the working directory.
func (f *Factory) WorkDir() string {
	for _, dir := range []string{f.Dir, f.Getenv("PLURAL_REPO")} {
		if dir != "" {
			return dir
		}
	}
	return "."
}

// Repo is the installation repo around WorkDir.
func (f *Factory) Repo() (*workspace.Repo, error) {
	repo, err := workspace.Find(f.WorkDir())
	if errors.Is(err, workspace.ErrNotFound) {
		return nil, &ui.Err{
			Msg: "this is not an installation repo", Cause: err.Error(),
			Fix: "change into one, name one with -C DIR, or make one: plural init", Doc: ui.DocNoRepo, Err: err,
		}
	}
	if err == nil {
		repo.UseKeys(f.Keys())
	}
	return repo, err
}

// Fleet is the installation repo around WorkDir, with what its work tree says.
func (f *Factory) Fleet() (*workspace.Repo, *fleet.Fleet, error) {
	repo, err := f.Repo()
	if err != nil {
		return nil, nil, err
	}
	said, err := fleet.Load(os.DirFS(repo.Root()))
	return repo, said, err
}

// HubAddress is the hub that is meant: --hub, PLURAL_HUB, what the installation repo says, or, outside of one, what plural config has.
func (f *Factory) HubAddress() (string, error) {
	for _, address := range []string{f.Hub, f.Getenv("PLURAL_HUB")} {
		if address != "" {
			return address, nil
		}
	}
	const fix = "change into an installation repo, or name one with -C DIR; or give --hub URL, set PLURAL_HUB, or write spec.hub.url into plural.yaml"
	repo, err := workspace.Find(f.WorkDir())
	if address := f.Setting(settings.Hub); errors.Is(err, workspace.ErrNotFound) && address != "" {
		return address, nil
	}
	if errors.Is(err, workspace.ErrNotFound) {
		return "", &ui.Err{Msg: "nothing says which hub is meant", Cause: err.Error(), Fix: fix, Doc: ui.DocNoHub, Err: err}
	}
	if err != nil {
		return "", err
	}
	w, err := Manifest(repo)
	if err != nil {
		return "", err
	}
	if w.Spec.Hub.URL == "" {
		return "", &ui.Err{
			Msg: "nothing says which hub is meant", Cause: "plural.yaml has no spec.hub.url", Fix: fix, Doc: ui.DocNoHub,
		}
	}
	return w.Spec.Hub.URL, nil
}

// Manifest is what plural.yaml says. It reads that file alone: a mistake elsewhere must not keep anybody from asking
// the hub about it.
func Manifest(repo *workspace.Repo) (*fleet.Workspace, error) {
	root, err := os.OpenRoot(repo.Root())
	if err != nil {
		return nil, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	return fleet.LoadWorkspace(root.FS())
}

// HubClient asks the hub that is meant, as the user that PLURAL_TOKEN, PLURAL_TOKEN_FILE or the stored token says.
func (f *Factory) HubClient() (*client.Client, error) {
	address, err := f.HubAddress()
	if err != nil {
		return nil, err
	}
	if _, err := client.New(address, "", f.Version); err != nil {
		return nil, &ui.Err{Msg: err.Error(), Fix: "--hub https://HOST, or correct it where it is written", Doc: ui.DocNoHub, Err: err}
	}
	token, err := f.HubToken(address)
	if err != nil {
		return nil, err
	}
	return f.HubAt(address, token)
}

// HubAt asks the hub at address with a token. A hub that the installation repo or the environment names has to be the repo's own;
// one that --hub names is asked whatever it serves.
func (f *Factory) HubAt(address, token string) (*client.Client, error) {
	hub, err := client.New(address, token, f.Version)
	if err != nil {
		return nil, err
	}
	certificates, err := f.HubCA()
	if err == nil && certificates != nil {
		err = hub.Trust(certificates)
	}
	if err != nil {
		return nil, err
	}
	if own, err := f.HubAddress(); err == nil && f.Hub == "" && hosts.Same(own, address) {
		hub.Expect(f.Repository())
	}
	hub.WhenSlow(func(cluster string) {
		who := "the hub at " + hub.Address()
		if cluster != "" { // the hub is well, as far as anybody knows
			who = "cluster " + ui.Clean(cluster)
		}
		f.Say("%s has not answered for %s; waiting for it", who, client.SlowAfter)
	})
	return hub, nil
}

// LocalState is where the fleets of this machine keep their data.
func LocalState() string { return filepath.Join(xdg.StateHome, "plural", "local") }

// Repository is the identity of the installation repo around WorkDir; empty where there is no repo, or it has none.
func (f *Factory) Repository() string {
	repo, err := workspace.Find(f.WorkDir())
	if err != nil {
		return ""
	}
	w, err := Manifest(repo)
	if err != nil { // who needs it says what is wrong with it
		return ""
	}
	return w.Repository()
}

// LastSeen is where what was seen of the fleet around WorkDir is kept; nil: nothing says which hub's it is.
func (f *Factory) LastSeen() *fleetcache.Store {
	address, err := f.HubAddress()
	if err != nil {
		return nil
	}
	name, repository := "", ""
	if repo, err := workspace.Find(f.WorkDir()); err == nil {
		if w, err := Manifest(repo); err == nil {
			name = w.Metadata.Name
			if f.Hub == "" { // which may name another's hub
				repository = w.Repository()
			}
		}
	}
	return fleetcache.New(f.Getenv("PLURAL_CONFIG_DIR"), address, name, repository)
}

// HubCA are the certificates, PEM, that PLURAL_CA_FILE adds to those that the system knows hubs by; nil where it is not set.
func (f *Factory) HubCA() ([]byte, error) {
	name := f.Getenv("PLURAL_CA_FILE")
	if name == "" {
		return nil, nil
	}
	text, err := readBounded(name, maxCertificates)
	if err != nil {
		return nil, fmt.Errorf("read PLURAL_CA_FILE: %w", err)
	}
	return text, nil
}

// Ask is what a command needs that shows what the hub knows: whom to ask, and where to print.
func (f *Factory) Ask() (*client.Client, *ui.Printer, error) {
	printer, err := f.Printer("")
	if err != nil {
		return nil, nil, err
	}
	hub, err := f.HubClient()
	return hub, printer, err
}

// Hosts are the stored tokens.
func (f *Factory) Hosts() *hosts.Store { return hosts.New(f.Getenv("PLURAL_CONFIG_DIR")) }

// readBounded reads a file up to a length.
func readBounded(name string, most int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

// Printer prints results in the format that was asked for, and as fallback when none was; without a fallback, as the person's
// settings have it.
func (f *Factory) Printer(fallback string) (*ui.Printer, error) {
	output := f.Output
	if output == "" && f.JQ == "" {
		output = cmp.Or(fallback, f.Setting(settings.Output))
	}
	return ui.NewPrinter(f.IO, output, f.JQ)
}

// Prompter asks people, unless --no-input or CI forbids it.
func (f *Factory) Prompter() *ui.Prompter {
	return ui.NewPrompter(f.IO, f.NoInput || f.Getenv("CI") != "")
}

// Say tells people something beside the result, unless --quiet.
func (f *Factory) Say(format string, args ...any) {
	if !f.Quiet {
		fmt.Fprintf(f.IO.ErrOut, format+"\n", args...)
	}
}

// Logger logs to ErrOut in the form that --log-format asks for; debug messages only with --verbose.
func (f *Factory) Logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if f.Verbose {
		options.Level = slog.LevelDebug
	}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(f.IO.ErrOut, options))
	}
	return slog.New(slog.NewTextHandler(f.IO.ErrOut, options))
}
