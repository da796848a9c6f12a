package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace/schema"
)

// Options say what Init makes.
type Options struct {
	// Dir becomes the installation repo; it is made when it does not exist.
	Dir string
	// Name is the workspace's: a DNS label.
	Name string
	// HubURL is where agents and people reach the hub, http or https. It may be empty.
	HubURL string
	// RepoURL is where the hub fetches the repo from. A new git repository gets it as its remote "origin". It may be empty.
	RepoURL string
	// Branch is the fleet's branch. Empty means the one that is checked out, and main in a new git repository.
	Branch string
	// Management is the cluster on which packages run that name no other. It may be empty.
	Management string
	// NoCommit leaves the files uncommitted.
	NoCommit bool
}

// Result is what Init did.
type Result struct {
	Repo *Repo
	// Created, Updated and Unchanged are paths from the repo's root, sorted. Unchanged also holds files that say
	// something of their own.
	Created, Updated, Unchanged []string
	// Commit is the commit's id, empty when there was nothing to commit.
	Commit string
}

// NewRepository is a fresh identity of a repo.
func NewRepository() string { return strings.ToLower(rand.Text()) }

// repositoryAt is the identity that the manifest in a folder names; empty for none. It has one before the first commit: a run of Init
// may have been killed.
func repositoryAt(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, Manifest))
	if err != nil {
		return ""
	}
	var written struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(text, &written); err != nil {
		return ""
	}
	return written.Metadata.Annotations[repositoryAnnotation]
}

// repositoryAnnotation is that of workspace/fleet, where the file's format is.
const repositoryAnnotation = "plural.sh/repository"

// CheckName says whether name can be a workspace's.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`).MatchString(name) {
		return refuse("use at most 63 lower-case letters, digits and dashes, with a letter or digit at both ends", "name %q cannot be used", name)
	}
	return nil
}

// CheckHubURL says whether s can be a hub's address. Empty is fine.
func CheckHubURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("hub URL %q: write it as https://HOST", s)
	}
	if u.User != nil {
		return fmt.Errorf("hub URL of %s: it carries a credential; log in instead, a repo is no place for it", u.Host)
	}
	return nil
}

// CheckRepoURL says whether s can be the address of a git repository. Empty is fine.
func CheckRepoURL(s string) error {
	u, err := url.Parse(s)
	if err == nil && u.User != nil {
		if _, password := u.User.Password(); password || u.Scheme == "http" || u.Scheme == "https" {
			return refuse("leave it out of the URL: a repo is no place for it", "the repo URL of %s carries a credential", u.Host)
		}
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("repo URL %q: it holds white space", s)
	}
	return nil
}

// CheckBranch says whether s can be a branch's name. Empty is fine.
func CheckBranch(s string) error {
	if s == "" {
		return nil
	}
	if err := plumbing.NewBranchReferenceName(s).Validate(); err != nil {
		return fmt.Errorf("branch %q: git takes no such name", s)
	}
	return nil
}

func (o Options) check() error {
	return errors.Join(CheckName(o.Name), CheckHubURL(o.HubURL), CheckRepoURL(o.RepoURL), CheckBranch(o.Branch))
}

// values are what the scaffold is filled in with, where the repo is or will be at root.
func (o Options) values(root string) map[string]string {
	return map[string]string{
		"name": o.Name, "hubURL": o.HubURL, "repoURL": o.RepoURL, "management": o.Management, "branch": o.Branch,
		"repository": cmp.Or(repositoryAt(filepath.Join(root, Scaffold)), repositoryAt(root), NewRepository()),
	}
}

// Init makes opts.Dir an installation repo: a git repository with the scaffold and one commit. What stands there is
// left alone, but for the managed blocks in .gitignore and .gitattributes; a second run changes nothing.
func Init(ctx context.Context, opts Options) (*Result, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	r, g, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	head, err := readHead(g)
	if err != nil && !opts.NoCommit {
		return nil, fmt.Errorf("commit to %q: %w", r.root, err)
	}
	if opts.Branch == "" && head != nil {
		opts.Branch = head.branch.Short()
	}
	files, err := templates.Render(templates.Installation, opts.values(r.root))
	if err != nil {
		return nil, err
	}
	result := &Result{Repo: r}
	edits, err := result.write(files)
	if err == nil {
		edits, err = result.writeSchemas(edits)
	}
	if err != nil || opts.NoCommit {
		return result, err
	}
	f, err := r.form(g, nil)
	if err != nil {
		return result, err
	}
	index, err := lockIndex(g)
	if err != nil {
		return result, err
	}
	defer index.release()
	if err := ctx.Err(); err != nil {
		return result, err
	}
	result.Commit, err = r.commit(g, head, f, index, "Initialise the installation repo "+opts.Name, edits)
	return result, err
}

// prepare makes the folder and its git repository where they are missing.
func prepare(opts Options) (*Repo, *git.Repository, error) {
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("make folder: %w", err)
	}
	root, err := resolve(opts.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("find folder: %w", err)
	}
	r := &Repo{root: root}
	if err := refuseInside(root); err != nil {
		return nil, nil, err
	}
	if _, err := os.Lstat(filepath.Join(root, ".git")); errors.Is(err, fs.ErrNotExist) {
		g, err := newGit(root, opts)
		return r, g, err
	}
	g, err := r.open()
	return r, g, err
}

// refuseInside refuses a folder with files that belong to somebody else's git repository: the hub looks for the
// installation at the top of a repository. An empty folder becomes a repository of its own, as with git init.
func refuseInside(root string) error {
	for at := root; ; at = filepath.Dir(at) {
		if isBare(at) {
			return refuse("choose another folder", "%q is a bare git repository, or the inside of one", at)
		}
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			if at == root || isEmpty(root) {
				return nil
			}
			return refuse("plural init "+at+"; or make the folder a repository first: git init "+root,
				"%q lies inside the git repository %q, and an installation repo is a whole repository", root, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// isBare tells a git folder by what git itself looks for.
func isBare(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

func newGit(root string, opts Options) (*git.Repository, error) {
	if opts.Branch == "" {
		opts.Branch = "main"
	}
	branch := plumbing.NewBranchReferenceName(opts.Branch)
	g, err := git.PlainInitWithOptions(root, &git.PlainInitOptions{InitOptions: git.InitOptions{DefaultBranch: branch}})
	if err != nil {
		return nil, fmt.Errorf("make git repository %q: %w", root, err)
	}
	if g, err = lasting(g); err != nil {
		return nil, err
	}
	if opts.RepoURL == "" {
		return g, nil
	}
	return g, addOrigin(g, opts.RepoURL, opts.Branch)
}

// AddOrigin makes url the remote "origin" that the branch is pushed to and pulled from, unless there is one already.
func (r *Repo) AddOrigin(url, branch string) error {
	g, err := r.open()
	if err != nil {
		return err
	}
	if _, err := g.Remote(git.DefaultRemoteName); err == nil {
		return nil
	}
	return addOrigin(g, url, branch)
}

// addOrigin adds the remote with the branch's tracking, so that a plain git push knows where to.
func addOrigin(g *git.Repository, url, branch string) error {
	if _, err := g.CreateRemote(&config.RemoteConfig{Name: git.DefaultRemoteName, URLs: []string{url}}); err != nil {
		return fmt.Errorf("add remote: %w", err)
	}
	tracking := &config.Branch{Name: branch, Remote: git.DefaultRemoteName, Merge: plumbing.NewBranchReferenceName(branch)}
	if err := g.CreateBranch(tracking); err != nil && !errors.Is(err, git.ErrBranchExists) {
		return fmt.Errorf("track remote branch: %w", err)
	}
	return nil
}

// writeSchemas puts the schemas of what people write on disk, where they are missing, and returns the edits with theirs.
func (result *Result) writeSchemas(edits []edit) ([]edit, error) {
	schemas, err := schema.Files()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(result.Repo.root)
	if err != nil {
		return nil, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	for name, content := range schemas {
		e := provide(name, content)
		done, err := e.write(root)
		if err != nil {
			return nil, err
		}
		if done != foreign {
			edits = append(edits, e)
		}
	}
	return edits, nil
}

// write puts the scaffold on disk, notes what that did, and returns the edits that may be committed.
func (result *Result) write(files []templates.File) ([]edit, error) {
	root, err := os.OpenRoot(result.Repo.root)
	if err != nil {
		return nil, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	var ours []edit
	for _, f := range files {
		e := provide(f.Path, f.Content)
		if f.Block {
			e = managed(f.Path, f.Content)
		}
		if f.Path == AttributesFile {
			e = edit{path: f.Path, apply: func(old []byte) ([]byte, error) { return Attributes(os.DirFS(result.Repo.root), old) }}
		}
		done, err := e.write(root)
		if err != nil {
			return nil, err
		}
		switch done {
		case created:
			result.Created = append(result.Created, f.Path)
		case updated:
			result.Updated = append(result.Updated, f.Path)
		case unchanged, foreign:
			result.Unchanged = append(result.Unchanged, f.Path)
		}
		if done == foreign {
			continue
		}
		ours = append(ours, e)
		if !f.Block {
			keep := provide(pristine(f.Path), f.Content)
			if _, err := keep.write(root); err != nil {
				return nil, err
			}
			ours = append(ours, keep)
		}
	}
	return ours, nil
}
