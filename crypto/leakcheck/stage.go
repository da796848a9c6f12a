package leakcheck

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/internal/replace"
)

// replacement is new content for an entry of the index.
type replacement struct {
	gitcmd.Entry
	old, content []byte
}

// stage writes the contents as objects and puts them into the index.
func stage(ctx context.Context, repo *gitcmd.Repo, all []replacement) error {
	if len(all) == 0 {
		return nil
	}
	oids, err := writeObjects(ctx, repo, all)
	if err != nil {
		return fmt.Errorf("stage what was sealed: %w", err)
	}
	var lines strings.Builder
	for i, r := range all {
		lines.WriteString(r.Mode + " " + oids[i] + "\t" + r.Path + "\x00")
	}
	for _, index := range indexes(repo) {
		if _, err := git(ctx, repo, index, strings.NewReader(lines.String()), "update-index", "-z", "--index-info"); err != nil {
			return fmt.Errorf("stage what was sealed: %w", err)
		}
	}
	return nil
}

// indexes are the index that is about to be committed, and for "git commit PATH" the one besides that git has written
// already and puts in place afterwards: without the same contents it would take the commit back.
func indexes(repo *gitcmd.Repo) []string {
	all := []string{repo.IndexFile}
	if strings.HasPrefix(filepath.Base(repo.IndexFile), "next-index-") {
		pending := filepath.Join(repo.GitDir, "index.lock")
		if _, err := os.Lstat(pending); err == nil {
			all = append(all, pending)
		}
	}
	return all
}

// writeObjects gives the contents to git by files in its own folder, so that one process takes them all.
func writeObjects(ctx context.Context, repo *gitcmd.Repo, all []replacement) ([]string, error) {
	dir, err := os.MkdirTemp(repo.GitDir, "plural-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // nothing but what is sealed
	var paths strings.Builder
	for i, r := range all {
		name := filepath.Join(dir, strconv.Itoa(i))
		if strings.ContainsAny(name, "\n") {
			return nil, fmt.Errorf("the path of %q contains a line break", repo.GitDir)
		}
		if err := os.WriteFile(name, r.content, 0o600); err != nil {
			return nil, err
		}
		paths.WriteString(name + "\n")
	}
	out, err := git(ctx, repo, repo.IndexFile, strings.NewReader(paths.String()), "hash-object", "-w", "--no-filters", "--stdin-paths")
	if err != nil {
		return nil, err
	}
	oids := strings.Fields(out)
	if len(oids) != len(all) {
		return nil, fmt.Errorf("git wrote %d objects instead of %d", len(oids), len(all))
	}
	return oids, nil
}

// follow puts the content into the work tree too, where that holds a file as git keeps it.
func (r replacement) follow(root *os.Root) error {
	info, err := root.Lstat(r.Path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(r.old)) {
		return nil // nothing there that git would compare
	}
	if here, err := root.ReadFile(r.Path); err != nil || !bytes.Equal(here, r.old) {
		return nil
	}
	if err := replace.File(root, r.Path, r.content, info.Mode().Perm()); err != nil {
		return fmt.Errorf("write %q: %w", r.Path, err)
	}
	return nil
}

// git runs git to change the repository, where gitcmd only asks. Whoever writes an index compares files that are as young
// as it is; without the filter they count as changed until somebody looks again, and nothing can be refused here.
func git(ctx context.Context, repo *gitcmd.Repo, index string, input io.Reader, args ...string) (string, error) {
	call := repo.Call(append([]string{"-c", "filter.plural.process=", "-c", "filter.plural.required=false"}, args...)...)
	call.Env = append(call.Env, "GIT_DIR="+repo.GitDir, "GIT_WORK_TREE="+repo.Top, "GIT_INDEX_FILE="+index)
	call.Input = input
	out, err := call.Run(ctx)
	return string(out), err
}
