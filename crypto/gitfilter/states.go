package gitfilter

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
)

// state reads .plural of one state of the repository.
type state func(ctx context.Context) (fs.FS, error)

// openVault opens the first state of the repository that has a policy. While git changes the work tree, or when it shows
// a part of it only, that is not the work tree. The envelopes of older and newer epochs may lie in all the other states.
func (f *Filter) openVault(ctx context.Context, treeish string) *opened {
	all := f.states(treeish)
	for i, read := range all {
		files, err := read(ctx)
		if err != nil {
			continue // no commit yet, a bare index: the next state may do
		}
		v, err := sealer.Open(sealer.Config{
			Files: files, Identities: f.config.Identities, Confirmed: f.config.Confirmed,
			Elsewhere: func() []fs.FS { return readAll(ctx, all[:i], all[i+1:]) }, Memory: f.config.Memory,
		})
		if !errors.Is(err, policy.ErrNone) {
			return &opened{v, err}
		}
	}
	return &opened{nil, policy.ErrNone}
}

// states are all there are, the one that counts first: what is being checked out, the work tree, the index, HEAD, and
// what is being merged.
func (f *Filter) states(treeish string) []state {
	at := func(rev string) state {
		return func(ctx context.Context) (fs.FS, error) { return f.config.Repo.FS(ctx, rev) }
	}
	var all []state
	if treeish != "" {
		all = append(all, at(treeish))
	}
	all = append(all, func(context.Context) (fs.FS, error) { return f.root.FS(), nil }, at(""), at("HEAD"))
	for _, oid := range merging(os.Environ()) {
		all = append(all, at(oid))
	}
	return all
}

// merging are the commits that git merge is at work with, which it names in the environment.
func merging(environ []string) []string {
	var oids []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if oid, ok := strings.CutPrefix(name, "GITHEAD_"); ok {
			oids = append(oids, oid)
		}
	}
	return oids
}

func readAll(ctx context.Context, some, others []state) []fs.FS {
	var files []fs.FS
	for _, list := range [][]state{some, others} {
		for _, read := range list {
			if f, err := read(ctx); err == nil {
				files = append(files, f)
			}
		}
	}
	return files
}
