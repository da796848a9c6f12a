package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/config"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Bounds of what one commit may pull in.
const (
	modulesFile     = ".gitmodules"
	maxModulesFile  = 64 << 10
	mostModules     = 64
	mostModuleDepth = 4
)

// reader is what a mirror lets an upstream read besides: a commit that is here, as files.
type reader interface {
	At(commit string) (*snapshot.Snapshot, error)
}

// module is one submodule: where it stands, and where its commits come from as the file has it.
type module struct{ path, url string }

// follow puts the files of a commit's submodules in their places, those of submodules of submodules too, and gives the
// commit that has them. Each comes from the host of the repository that names it.
func (s *Source) follow(ctx context.Context, j *job, from *url.URL, commit string, depth int) (string, error) {
	files, ok := j.into.(reader)
	if !ok {
		return "", errors.New("submodules cannot be followed: the mirror does not show what it has received")
	}
	snap, err := files.At(commit)
	if err != nil {
		return "", err
	}
	modules, err := readModules(snap)
	if err != nil || len(modules) == 0 {
		return commit, err
	}
	if depth >= mostModuleDepth {
		return "", fmt.Errorf("submodules stand in submodules more than %d deep", mostModuleDepth)
	}
	at := map[string]string{}
	for _, m := range modules {
		pinned, mode, err := snap.Hash(m.path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && mode.Type() != fs.ModeIrregular {
			continue // the file lists it, the tree has none
		}
		if err == nil {
			at[m.path], err = s.pinned(ctx, j, from, m, string(pinned), depth)
		}
		if err != nil {
			return "", fmt.Errorf("submodule %q: %w", m.path, err)
		}
	}
	if len(at) == 0 {
		return commit, nil
	}
	return j.into.Graft(ctx, commit, at)
}

// pinned brings the commit that a submodule is pinned to, with its own submodules in their places.
func (s *Source) pinned(ctx context.Context, j *job, from *url.URL, m module, commit string, depth int) (string, error) {
	u, err := moduleURL(from, m.url)
	if err != nil {
		return "", err
	}
	if !j.into.Complete(commit) {
		remote, err := s.module(u)
		if err != nil {
			return "", fmt.Errorf("%w%s", err, s.withheld(u))
		}
		if err := remote.pin(ctx, j, commit); err != nil {
			return "", fmt.Errorf("%s: %w%s", httpclient.Redact(u.String()), err, s.withheld(u))
		}
	}
	return s.follow(ctx, j, u, commit, depth+1)
}

// module is the source of a submodule's commits; it shares counts with this one. It gets the credentials only in the folder of
// this one: they may open more of the host than whoever wrote .gitmodules may read.
func (s *Source) module(u *url.URL) (*Source, error) {
	o := s.options
	if !within(s.folder(), u) {
		o.Credentials = httpclient.Credentials{CA: o.Credentials.CA, KnownHosts: o.Credentials.KnownHosts}
		if u.Scheme != "ssh" {
			bare := *u
			bare.User = nil
			u = &bare
		}
	}
	key := u.String()
	if s.modules[key] == nil {
		if len(s.modules) >= mostModules {
			clear(s.modules)
		}
		o.URL, o.AllowFile, o.Check, o.DescendsFrom, o.Rewinds = key, false, nil, "", "" // the commit that pins it was judged
		remote, err := newSource(o, s.count)
		if err != nil {
			return nil, err
		}
		s.modules[key] = remote
	}
	return s.modules[key], nil
}

// folder is where this repository lies on its host.
func (s *Source) folder() string { return path.Dir(path.Clean("/" + s.url.Path)) }

// within says whether a repository lies in a folder of its host.
func within(folder string, u *url.URL) bool {
	at := path.Clean("/" + u.Path)
	return folder == "/" || strings.HasPrefix(at, folder+"/")
}

// withheld tells of a repository that cannot be had that it was not shown the credentials.
func (s *Source) withheld(u *url.URL) string {
	if s.options.Credentials.Zero() || within(s.folder(), u) {
		return ""
	}
	return fmt.Sprintf(" (the source's credentials are shown to repositories in %s only)", s.folder())
}

// pin brings one commit.
func (s *Source) pin(ctx context.Context, j *job, commit string) error {
	defer s.wire.rest()
	server, err := s.wire.greet(ctx, lookout{names: map[string]bool{}, ids: map[string]bool{commit: true}})
	if err != nil {
		return err
	}
	failed, err := s.bring(ctx, &job{server: server, into: j.into, haves: j.haves}, []string{commit})
	if err == nil {
		err = failed[commit]
	}
	return err
}

// readModules gives the submodules that .gitmodules lists; none when there is no such file.
func readModules(snap *snapshot.Snapshot) ([]module, error) {
	info, err := fs.Stat(snap.FS(), modulesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > maxModulesFile {
		return nil, &snapshot.LimitError{What: modulesFile, Size: info.Size(), Max: maxModulesFile}
	}
	text, err := fs.ReadFile(snap.FS(), modulesFile)
	if err != nil {
		return nil, err
	}
	return parseModules(text)
}

func parseModules(text []byte) ([]module, error) {
	file := config.NewModules()
	if err := file.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("read %s: %w", modulesFile, err)
	}
	if len(file.Submodules) > mostModules {
		return nil, &snapshot.LimitError{What: "number of submodules", Size: int64(len(file.Submodules)), Max: mostModules}
	}
	var all []module
	for _, name := range sortedKeys(file.Submodules) {
		m := file.Submodules[name]
		if err := m.Validate(); err != nil {
			return nil, fmt.Errorf("%s: submodule %q: %w", modulesFile, name, err)
		}
		if !fs.ValidPath(m.Path) || m.Path == "." {
			return nil, fmt.Errorf("%s: submodule %q: path %q is none inside the repository", modulesFile, name, m.Path)
		}
		all = append(all, module{m.Path, m.URL})
	}
	return all, nil
}

// moduleURL is where a submodule's commits come from: a URL, git's short form for ssh, or a path relative to the
// repository's own URL; on the same host in any case.
func moduleURL(from *url.URL, raw string) (*url.URL, error) {
	if strings.HasPrefix(raw, "./") || strings.HasPrefix(raw, "../") {
		u := *from
		u.Path, u.RawPath = path.Join("/", from.Path, raw), ""
		return &u, nil
	}
	if user, rest, ok := strings.Cut(raw, "@"); ok && !strings.Contains(raw, "://") {
		host, at, _ := strings.Cut(rest, ":")
		raw = "ssh://" + user + "@" + host + "/" + strings.TrimPrefix(at, "/")
	}
	u, err := httpclient.ParseURL(raw, "https", "ssh", "http")
	if err != nil {
		return nil, err
	}
	if !httpclient.SameHost(from, u) {
		return nil, fmt.Errorf("%s is not on %s://%s: "+
			"submodules are followed on the host and by the scheme of their repository only",
			httpclient.Redact(u.String()), from.Scheme, from.Host)
	}
	if u.User == nil {
		u.User = from.User
	}
	return u, nil
}
