package pkg

import (
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
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packages"
)

func newCmdLint(f *cmdutil.Factory) *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "lint [DIR]",
		Short: "Check a package's folder",
		Long: `Check a package's folder.

Every mistake is listed with its file and line, and after them what would make the
package better. Mistakes fail; advice fails with --strict.`,
		Example: cmdutil.Example("plural package lint", "plural package lint catalog/web --strict"),
		Args:    cmdutil.AtMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return lint(f, dir, strict)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "take advice for mistakes")
	return cmd
}

// problem is what lint prints for programs.
type problem struct {
	Where   string `json:"where"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	Advice  bool   `json:"advice"`
}

func lint(f *cmdutil.Factory, dir string, strict bool) error {
	printer, err := f.Printer("")
	if err != nil {
		return err
	}
	found, err := packages.Lint(os.DirFS(dir))
	if err != nil {
		return err
	}
	list := make([]problem, len(found))
	var mistakes []ui.Problem
	for i, p := range found {
		where := filepath.ToSlash(filepath.Join(dir, p.Position.String()))
		list[i] = problem{where, p.Message, p.Fix, p.Advice}
		if !p.Advice || strict {
			mistakes = append(mistakes, ui.Problem{Where: where, Message: p.Message, Fix: p.Fix})
		}
	}
	err = printer.Print(ui.View{Value: list, Screen: func(w io.Writer) error {
		for _, p := range list {
			if !p.Advice || strict {
				continue // told as the error
			}
			if _, err := fmt.Fprintf(w, "advice  %s: %s: %s\n", ui.Clean(p.Where), ui.Clean(p.Message), ui.Clean(p.Fix)); err != nil {
				return err
			}
		}
		if len(list) == 0 {
			_, err := fmt.Fprintf(w, "%s is sound\n", ui.Clean(dir))
			return err
		}
		return nil
	}})
	if told := cmdutil.Problems("the package", mistakes); err == nil && told != nil {
		return told
	}
	return err
}

func newCmdNew(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "new NAME",
		Short:   "Write a package to begin with, into the folder NAME",
		Example: cmdutil.Example("plural package new web", "plural pkg new postgres -C ./fleet"),
		Args:    cmdutil.Exactly("NAME"),
		RunE:    func(_ *cobra.Command, args []string) error { return scaffold(f, args[0]) },
	}
}

func scaffold(f *cmdutil.Factory, dir string) error {
	name := filepath.Base(dir)
	files, err := packages.Scaffold(name)
	if err != nil {
		return err
	}
	if _, err := packages.Parse(files[packages.File]); err != nil {
		return &ui.Err{Msg: fmt.Sprintf("%q is no name for a package", name), Fix: "use lower-case letters, digits and dashes", Err: err}
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return &ui.Err{
			Msg: fmt.Sprintf("%s is there already", dir), Fix: "choose another name, or remove it", Doc: ui.DocExists,
		}
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		at := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return fmt.Errorf("make a new package: %w", err)
		}
		if err := os.WriteFile(at, files[file], 0o644); err != nil {
			return fmt.Errorf("make a new package: %w", err)
		}
	}
	f.Say("made %s with %d files\nnext  plural package lint %s", dir, len(files), dir)
	return nil
}

type publishOptions struct {
	f       *cmdutil.Factory
	key     string
	force   bool
	plain   bool
	dryRun  bool
	caFile  string
	options catalog.PublishOptions
}

func newCmdPublish(f *cmdutil.Factory) *cobra.Command {
	o := &publishOptions{f: f}
	cmd := &cobra.Command{
		Use:   "publish DIR oci://HOST/REPOSITORY",
		Short: "Publish a package to a repository of a registry",
		Long: `Publish a package to a repository of a registry.

The tag is NAME_VERSION, and the same folder gives the same digest on every machine.
A version that is there stays: publishing other files under it fails, unless --force
replaces them. With a private key (--key, PEM of Ed25519 or ECDSA) the package is
signed in a way that cosign verifies; COSIGN_PASSWORD opens a key that cosign locked.

The log-in is docker's: config.json in DOCKER_CONFIG, else in ~/.docker.`,
		Example: cmdutil.Example(
			"plural package publish catalog/web oci://ghcr.io/example/packages",
			"plural package publish . oci://localhost:5000/packages --plain-http --key cosign.key"),
		Args: cmdutil.Exactly("DIR", "URL"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.key, "key", "", "sign with the private key in this `FILE`")
	flags.BoolVar(&o.force, "force", false, "replace a version that is there with other files")
	flags.BoolVar(&o.plain, "plain-http", false, "speak HTTP without TLS, on this machine only")
	flags.StringVar(&o.caFile, "ca", "", "trust the certificates in this `FILE` besides the system's")
	flags.BoolVar(&o.dryRun, "dry-run", false, "check the package, and publish nothing")
	return cmd
}

func (o *publishOptions) run(ctx context.Context, dir, url string) error {
	printer, err := o.f.Printer("")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(url, "oci://") {
		return &ui.Err{
			Msg: fmt.Sprintf("packages are published to registries, and %q is none", url),
			Fix: "oci://HOST/REPOSITORY; or leave the package in a git repository that spec.catalogs of plural.yaml names", Doc: ui.DocPackage,
		}
	}
	files := os.DirFS(dir)
	if o.dryRun {
		p, err := packages.Load(files)
		if err != nil {
			return explained(dir, err)
		}
		digest, err := packages.Digest(files)
		if err != nil {
			return explained(dir, err)
		}
		o.f.Say("%s %s could be published: %s", p.Metadata.Name, p.Spec.Version, digest)
		return nil
	}
	o.options.URL, o.options.PlainHTTP, o.options.Force = url, o.plain, o.force
	if err := o.secrets(); err != nil {
		return err
	}
	published, err := catalog.Publish(ctx, files, o.options)
	if err != nil {
		return explained(dir, err)
	}
	return printer.Print(ui.View{Value: published, Screen: func(w io.Writer) error {
		how := "published"
		if published.Existed {
			how = "there already"
		}
		_, err := fmt.Fprintf(w, "%s: %s\n  digest    %s\n  manifest  %s\n", how, published.Tag, published.Digest, published.Manifest)
		return err
	}})
}

// secrets reads the key and the log-in.
func (o *publishOptions) secrets() error {
	if o.key != "" {
		key, err := os.ReadFile(o.key)
		if err != nil {
			return &ui.Err{Msg: "cannot read the key", Cause: err.Error(), Fix: "--key FILE", Err: err}
		}
		o.options.Key, o.options.Password = key, []byte(o.f.Getenv("COSIGN_PASSWORD"))
	}
	if o.caFile != "" {
		ca, err := os.ReadFile(o.caFile)
		if err != nil {
			return &ui.Err{Msg: "cannot read the certificates", Cause: err.Error(), Fix: "--ca FILE", Err: err}
		}
		o.options.Credentials.CA = ca
	}
	home := cmp.Or(o.f.Getenv("DOCKER_CONFIG"), filepath.Join(o.f.Getenv("HOME"), ".docker"))
	config, err := os.ReadFile(filepath.Join(home, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &ui.Err{Msg: "cannot read docker's log-in", Cause: err.Error(), Fix: "docker login, or set DOCKER_CONFIG to its folder", Err: err}
	}
	var stored struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if json.Unmarshal(config, &stored) == nil && len(stored.Auths) > 0 {
		o.options.Credentials.DockerConfig = config
	}
	return nil
}

// explained is an error about a package's folder, with its mistakes one by one.
func explained(dir string, err error) error {
	var list fleet.Errors
	if !errors.As(err, &list) {
		return err
	}
	problems := cmdutil.FleetProblems(list)
	for i := range problems {
		problems[i].Where = filepath.ToSlash(filepath.Join(dir, problems[i].Where))
	}
	return cmdutil.Problems("the package", problems)
}
