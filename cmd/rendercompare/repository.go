package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/boundwalk"
	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// item is one thing to render: a kustomization, or a chart with its own values or with one more file of them.
type item struct {
	Renderer string `json:"renderer"`
	Path     string `json:"path"`
	Values   string `json:"values,omitempty"`
}

func (i item) String() string {
	if i.Values != "" {
		return i.Path + " with " + path.Base(i.Values)
	}
	return i.Path
}

// maxEntries bounds the files and folders of a repository.
const maxEntries = 500_000

// findItems lists the kustomizations and charts of a repository, in path order. A chart inside of another one's charts/ is
// rendered with that one, and what lies in vendor/ and node_modules/ is somebody else's.
func findItems(files fs.FS, below []string) ([]item, error) {
	var items []item
	err := boundwalk.Dir(files, ".", maxEntries, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if base := path.Base(name); base == "vendor" || base == "node_modules" || base == ".git" {
			return fs.SkipDir
		}
		if parent := path.Dir(name); path.Base(name) == "charts" && isFile(files, path.Join(parent, "Chart.yaml")) {
			return fs.SkipDir
		}
		if !wanted(name, below) {
			return nil
		}
		for _, file := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
			if isFile(files, path.Join(name, file)) {
				items = append(items, item{Renderer: "kustomize", Path: name})
				break
			}
		}
		if !isFile(files, path.Join(name, "Chart.yaml")) {
			return nil
		}
		items = append(items, item{Renderer: "helm", Path: name})
		values, err := fs.Glob(files, path.Join(quoteGlob(name), "ci", "*-values.yaml"))
		for _, file := range values {
			items = append(items, item{Renderer: "helm", Path: name, Values: file})
		}
		return err
	})
	return items, err
}

func isFile(files fs.FS, name string) bool {
	info, err := fs.Stat(files, name)
	return err == nil && info.Mode().IsRegular()
}

// wanted says whether dir is one of the folders or lies below one; without folders everything is wanted.
func wanted(dir string, below []string) bool {
	return len(below) == 0 || slices.ContainsFunc(below, func(folder string) bool {
		folder = path.Clean(folder)
		return folder == "." || dir == folder || strings.HasPrefix(dir, folder+"/")
	})
}

func quoteGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

// checkOut writes a commit's files into dir, as they are in git: no filter and no conversion of line ends changes them.
func checkOut(ctx context.Context, repo, commit, dir string) error {
	tree, gitDir := filepath.Join(dir, "tree"), filepath.Join(dir, "git")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return err
	}
	from, err := gitOutput(ctx, repo, nil, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return err
	}
	// A clone that borrows the objects has neither the attributes nor the filters of the repository's own folder.
	if _, err := gitOutput(ctx, "", nil, "clone", "--quiet", "--bare", "--shared", "--template=", from, gitDir); err != nil {
		return err
	}
	env := []string{"GIT_ATTR_NOSYSTEM=1", "GIT_DIR=" + gitDir, "GIT_WORK_TREE=" + tree, "GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	for _, args := range [][]string{
		{"read-tree", commit},
		// These ask for conversions.
		{"rm", "--cached", "-r", "-q", "-f", "--ignore-unmatch", "--", ":(top,glob)**/.gitattributes"},
		{"checkout-index", "--all", "--force", "--quiet"},
	} {
		settings := []string{"-c", "core.autocrlf=false", "-c", "core.attributesFile=" + os.DevNull, "-c", "core.symlinks=true"}
		if _, err := gitOutput(ctx, tree, env, slices.Concat(settings, args)...); err != nil {
			return err
		}
	}
	return nil
}

func gitOutput(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	out, err := gitexec.Call{Dir: dir, Args: args, Env: env}.Run(ctx)
	return strings.TrimSpace(string(out)), err
}

// here is the cluster for which everything is resolved.
const here = "here"

// release is the name that every chart is installed as.
const release = "release"

// only is the one repository there is.
type only struct{ files *snapshot.Snapshot }

// Snapshot implements resolve.Sources.
func (o only) Snapshot(name, _ string) (*snapshot.Snapshot, error) {
	if name != "" {
		return nil, snapshot.ErrNotFetched
	}
	return o.files, nil
}

// resolveItems makes a service of each item, and resolves it as the hub does. Deployments are in the order of items.
func resolveItems(files *snapshot.Snapshot, items []item) ([]*resolve.Deployment, error) {
	f := &fleet.Fleet{Clusters: []fleet.Cluster{{Metadata: fleet.Metadata{Name: here}}}}
	numbers := map[string]int{}
	for i, each := range items {
		name := fmt.Sprintf("item-%d", i)
		numbers[name] = i
		service := fleet.Service{Metadata: fleet.Metadata{Name: name}, Spec: fleet.ServiceSpec{
			Source: fleet.SourceRef{Path: each.Path}, Renderer: each.Renderer, Namespace: "default",
			Clusters: fleet.Selector{Names: []string{here}},
		}}
		if each.Renderer == "helm" {
			service.Spec.Helm = &fleet.Helm{Release: release}
			if each.Values != "" {
				service.Spec.Helm.ValuesFiles = []string{each.Values}
			}
		}
		f.Services = append(f.Services, service)
	}
	list, err := resolve.New().For(f, here, only{files})
	if err != nil {
		return nil, err
	}
	deployments := make([]*resolve.Deployment, len(items))
	for i := range list {
		deployments[numbers[list[i].Service]] = &list[i]
	}
	return deployments, nil
}
