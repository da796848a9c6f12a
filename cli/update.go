package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/update"
	"github.com/pluralsh/plural/internal/replace"
	"github.com/pluralsh/plural/workspace/versions"
)

// fetching bounds how long a release may take to come.
const fetching = 10 * time.Minute

// releasePlace are the flags that say where a release is, and who signs it.
type releasePlace struct {
	from, keyFile string
}

func (p *releasePlace) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.from, "from", "", "the `PLACE` of the release's files: a folder, or a mirror's URL (default GitHub)")
	cmd.Flags().StringVar(&p.keyFile, "key", "",
		"the `FILE` with the public key of who signs the release, PEM (default the project's workflow)")
}

func (p *releasePlace) of(version string) (*update.Place, error) {
	place := &update.Place{Version: version, From: p.from}
	if p.keyFile == "" {
		return place, nil
	}
	key, err := os.ReadFile(p.keyFile)
	if err != nil {
		return nil, err
	}
	place.Key = key
	return place, nil
}

// verifySelf says whether this program is the release's.
func (p *releasePlace) verifySelf(ctx context.Context, version string) (*verified, error) {
	if versions.Parse(version) == nil {
		return nil, &ui.Err{
			Msg: "this program is of no release", Cause: "it calls itself " + version,
			Fix: "a build of one's own is compared with a build by somebody else: docs/releases.md",
		}
	}
	ctx, cancel := context.WithTimeout(ctx, fetching)
	defer cancel()
	place, err := p.of(version)
	if err != nil {
		return nil, err
	}
	sums, err := place.Sums(ctx)
	if err != nil {
		return nil, unverified("this program", err)
	}
	v := &verified{Program: program(), Signer: place.Signer()}
	if v.SHA256, err = sums.Program(v.Program, "plural", version); err != nil {
		return nil, unverified("this program", err)
	}
	return v, nil
}

// unverified is the error of what could not be verified, or was found to be something else.
func unverified(what string, err error) error {
	fix := "name a place that has the release's files: --from"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fix = "--from names where the release's files are; a release without checksums.txt.sigstore.json is not signed"
	case errors.Is(err, update.ErrNotOurs):
		fix = "do not use it; fetch the release again from " + update.Home
	}
	return &ui.Err{Msg: what + " is not verified", Cause: err.Error(), Fix: fix, Err: err}
}

// updated is what `plural update` did, or would do.
type updated struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Programs []string `json:"programs"`
	DryRun   bool     `json:"dryRun,omitempty"`
}

func newCmdUpdate(f *cmdutil.Factory) *cobra.Command {
	var place releasePlace
	var to string
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "update",
		GroupID: cmdutil.GroupTool,
		Short:   "Replace this program by a newer release",
		Long: "Replace this program, and localkube beside it, by a newer release. What is fetched is verified before anything is replaced, as\n" +
			"plural version --verify does. An older release is taken only where --version names it. What a package manager has installed\n" +
			"is left to it.",
		Example: cmdutil.Example("plural update", "plural update --dry-run", "plural update --version 1.2.3 --from ./plural-1.2.3"),
		Args:    cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), fetching)
			defer cancel()
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			self := program()
			if err := replaceable(self); err != nil {
				return err
			}
			if to, err = wanted(ctx, f, to); err != nil {
				return err
			}
			done := &updated{From: f.Version, To: to, DryRun: dryRun}
			if to != f.Version {
				at, err := place.of(to)
				if err == nil {
					done.Programs, err = bring(ctx, at, self, dryRun)
				}
				if err != nil {
					return err
				}
			}
			return printer.Print(ui.View{Value: done, Names: done.Programs, Screen: done.write})
		},
	}
	cmd.Flags().StringVar(&to, "version", "", "the release's `VERSION` (default the newest)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "fetch and verify, and replace nothing")
	place.flags(cmd)
	return cmd
}

func (u *updated) write(w io.Writer) error {
	switch {
	case len(u.Programs) == 0:
		_, err := fmt.Fprintf(w, "plural %s is installed already: nothing to do\n", u.From)
		return err
	case u.DryRun:
		_, err := fmt.Fprintf(w, "plural %s is verified; it would replace %s\n", u.To, strings.Join(u.Programs, " and "))
		return err
	}
	_, err := fmt.Fprintf(w, "plural %s is verified and replaces %s of %s\n", u.To, strings.Join(u.Programs, " and "), u.From)
	return err
}

// wanted is the version that is asked for, or the newest; never one that is older than this unless it is asked for.
func wanted(ctx context.Context, f *cmdutil.Factory, to string) (string, error) {
	if to != "" {
		v := versions.Parse(to)
		if v == nil {
			return "", &ui.Err{Msg: fmt.Sprintf("--version %q is no version", to), Fix: "name it as releases are named: --version 1.2.3"}
		}
		return v.String(), nil
	}
	releases := checker(f)
	newest, err := releases.Check(ctx)
	if err != nil {
		return "", &ui.Err{Msg: "the newest release is not known", Cause: err.Error(), Fix: "name it: plural update --version VERSION", Err: err}
	}
	if own := versions.Parse(f.Version); own != nil && !releases.Newer(newest) {
		return f.Version, nil
	}
	return newest.Version, nil
}

// replaceable refuses to replace what somebody else keeps.
func replaceable(self string) error {
	by := ""
	switch {
	case self == "":
		return &ui.Err{Msg: "this program does not know where it lies", Fix: "install the release by hand: docs/guide/install.md"}
	case isBrewed(self):
		by = "brew upgrade --cask plural"
	case strings.Contains(self, "/.krew/"):
		by = "kubectl krew upgrade plural"
	case strings.HasPrefix(self, "/usr/bin/"), strings.HasPrefix(self, "/nix/"), strings.HasPrefix(self, "/snap/"):
		by = "the package manager of this system"
	default:
		return nil
	}
	return &ui.Err{Msg: self + " was installed by a package manager", Fix: "upgrade it the same way: " + by}
}

// bring fetches a release, verifies it, and puts its programs where this one lies. localkube is replaced only where it lies beside.
func bring(ctx context.Context, place *update.Place, self string, dryRun bool) ([]string, error) {
	sums, err := place.Sums(ctx)
	if err != nil {
		return nil, unverified("plural "+place.Version, err)
	}
	names := []string{"plural"}
	if _, err := os.Stat(filepath.Join(filepath.Dir(self), "localkube")); err == nil {
		names = append(names, "localkube")
	}
	programs, err := place.Programs(ctx, sums, names...)
	if err != nil {
		return nil, unverified("plural "+place.Version, err)
	}
	dir, err := os.OpenRoot(filepath.Dir(self))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var replaced []string
	for _, name := range names {
		at := filepath.Join(filepath.Dir(self), name)
		target := name
		if name == "plural" { // whatever it is called here
			at, target = self, filepath.Base(self)
		}
		replaced = append(replaced, at)
		if dryRun {
			continue
		}
		if err := replace.File(dir, target, programs[name], 0o755); err != nil {
			return nil, &ui.Err{
				Msg: at + " cannot be replaced", Cause: err.Error(), Fix: "as somebody who may write there, or install into a folder of your own", Err: err,
			}
		}
	}
	return replaced, nil
}
