// Package pkg owns `plural package`.
//
// It refuses to know which versions fit together and what becomes of them in the repo: it asks, shows, and carries out what was
// planned. Every change is shown, then committed and pushed, as far as the person's flags say.
package pkg

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/installer/catalogs"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packs"
)

// NewCmdPackage is `plural package`.
func NewCmdPackage(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "package",
		GroupID: cmdutil.GroupCatalog,
		Aliases: []string{"pkg"},
		Short:   "Find, install, upgrade and publish packages",
		Long: `Find, install, upgrade and publish packages.

What a fleet has of packages lies in the installation repo: plural.lock pins the
versions, packages/NAME holds answers, the package's files, and the Services that
they become. Adding or upgrading one is a commit; plural deploy carries it out.`,
		Example: cmdutil.Example(
			"plural package search cluster",
			"plural package add agent@^0.1 --as agent-edge-1 --clusters edge-1",
			"plural package outdated",
			"plural package upgrade"),
	}, newCmdSearch(f), newCmdShow(f), newCmdList(f), newCmdGet(f), newCmdGraph(f), newCmdOutdated(f),
		newCmdAdd(f), newCmdSet(f), newCmdRemove(f), newCmdUpgrade(f),
		newCmdLint(f), newCmdNew(f), newCmdPublish(f))
}

// packageRepo is an installation repo with the catalogs that its fleet names.
type packageRepo struct {
	f    *cmdutil.Factory
	repo *workspace.Repo
	packs.Snapshot
}

// open is the installation repo around.
func open(f *cmdutil.Factory) (*packageRepo, error) {
	repo, err := f.Repo()
	if err != nil {
		return nil, err
	}
	d := &packageRepo{f: f, repo: repo}
	files := os.DirFS(repo.Root())
	d.World = &compose.World{Blind: true, Repo: files}
	if d.World.Fleet, err = fleet.Load(files); err != nil {
		return nil, err
	}
	if d.World.Lock, err = lockfile.Load(files); err != nil {
		return nil, err
	}
	switch vault, err := repo.Vault(nil); {
	case err == nil:
		d.World.Repo = vault.FS(files)
	case !errors.Is(err, policy.ErrNone):
		return nil, err
	}
	d.Catalogs, err = openCatalogs(f, d.World.Fleet, files)
	d.Past = packs.History(repo.Root())
	return d, err
}

// browse is the installation repo around or, where there is none, what the program brings along.
func browse(f *cmdutil.Factory) (*packageRepo, error) {
	_, err := workspace.Find(f.WorkDir())
	if !errors.Is(err, workspace.ErrNotFound) {
		return open(f)
	}
	d := &packageRepo{f: f}
	d.World = &compose.World{Fleet: &fleet.Fleet{}, Lock: &lockfile.Lock{}}
	d.Catalogs, err = openCatalogs(f, d.World.Fleet, nil)
	return d, err
}

func openCatalogs(f *cmdutil.Factory, loaded *fleet.Fleet, files fs.FS) (*catalog.Set, error) {
	return catalogs.Open(loaded, files, catalogs.Options{
		Cache: catalogs.CacheDir(f.Getenv), Identities: f.Identities().Load,
		AllowFile: f.Getenv("PLURAL_ALLOW_FILE_SOURCES") != "",
		Stale: func(s catalogs.Stale) {
			f.Say("catalog %s is as of %s, since its server did not answer: %v", ui.Clean(s.Catalog), cmdutil.Ago(f.Now(), &s.Fetched), s.Err)
		},
	})
}

// carryOut makes what was planned the repo's. Files that a package brings are counted, not shown.
func (d *packageRepo) carryOut(
	ctx context.Context, making *change.CommitOptions, files map[string][]byte, message string,
) (change.Outcome, error) {
	if len(files) == 0 {
		d.f.Say("nothing to do")
		return change.Outcome{}, nil
	}
	made, err := making.CarryOutFiles(ctx, d.repo, files, d.foldNew, message)
	if err == nil && made.Written && made.Branch == "" {
		d.f.Say("next  plural deploy")
	}
	return made, err
}

// foldNew is the payload folder of a file that it does not have yet.
func (d *packageRepo) foldNew(file string) string {
	parts := strings.SplitN(file, "/", 4)
	if len(parts) < 4 || parts[0] != "packages" || parts[2] != "payload" {
		return ""
	}
	if _, err := fs.Stat(d.World.Repo, file); err == nil {
		return ""
	}
	return path.Join(parts[:3]...)
}

// catalogOf is the catalog that a package comes from, as people are told.
func catalogOf(name string) string { return cmp.Or(name, "-") }
