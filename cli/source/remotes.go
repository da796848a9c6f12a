package source

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
	"github.com/pluralsh/plural/internal/kustomizeurl"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/httpfile"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// remotes writes the sources that kustomizations name as remotes.
type remotes struct {
	making *change.CommitOptions
	files  fs.FS
	// written are the new files, over those of the work tree.
	written map[string][]byte
	// told are lines about what became which source, each once.
	told []string
}

// addRemotes finds the remotes of the kustomizations below a folder, and makes a source of each that is none.
func addRemotes(ctx context.Context, f *cmdutil.Factory, making *change.CommitOptions, dir string) error {
	repo, err := f.Repo()
	if err != nil {
		return err
	}
	r := &remotes{making: making, files: os.DirFS(repo.Root()), written: map[string][]byte{}}
	dir = path.Clean(dir)
	if info, err := fs.Stat(r.files, dir); err != nil || !info.IsDir() {
		return &ui.Err{
			Msg: fmt.Sprintf("the repository has no folder %q", dir), Fix: "name one by its path from the repository's root", Doc: ui.DocUsage,
		}
	}
	named, err := resolve.Remotes(r.files, dir)
	if err != nil {
		return fmt.Errorf("look for kustomizations in %q: %w", dir, err)
	}
	for _, n := range named {
		if n.Err != nil {
			return &ui.Err{
				Msg: fmt.Sprintf("%s: %v", n.Position, n.Err), Cause: "nothing was changed",
				Fix: "correct the address there", Doc: ui.DocMistakes,
			}
		}
		if err := r.add(ctx, n); err != nil {
			return err
		}
	}
	for _, line := range r.told {
		f.Say("%s", ui.Clean(line))
	}
	if len(r.written) == 0 {
		f.Say("%d remotes in kustomizations below %s, and each is a source already", len(named), dir)
		return nil
	}
	message := fmt.Sprintf("Create %d sources for the kustomizations below %s", len(r.written), dir)
	made, err := making.CarryOutFiles(ctx, repo, r.written, nil, message)
	if err != nil {
		return change.Explained(err)
	}
	return making.Finish(ctx, made, waitfor.About{})
}

// add makes a source of one remote, unless it is one.
func (r *remotes) add(ctx context.Context, n resolve.Named) error {
	files := overlay.New(r.files, r.written)
	known, err := fleet.Load(files)
	if err != nil {
		return change.Explained(err)
	}
	for _, meaning := range n.Meanings {
		if source, ok := known.RemoteSource(meaning); ok {
			r.tell("%s: %s is source %s", n.Position, meaning.Shown(), source.Metadata.Name)
			return nil
		}
	}
	remote := n.Meanings[0]
	spec, note, err := specOf(ctx, remote)
	if err != nil {
		return &ui.Err{
			Msg: fmt.Sprintf("%s: %v", n.Position, err), Cause: "nothing was changed",
			Fix: "see that this machine reaches it, or give its digest: " + remote.Command() + " --digest sha256:HEX", Err: err,
		}
	}
	source := &fleet.Source{Metadata: fleet.Metadata{Name: freeName(known, remote)}, Spec: spec}
	planned, err := yamledit.Create(files, source)
	if err != nil {
		return change.Explained(err)
	}
	r.written[planned.File] = planned.After
	r.tell("%s: %s becomes source %s%s", n.Position, remote.Shown(), source.Metadata.Name, note)
	return nil
}

func (r *remotes) tell(format string, args ...any) {
	r.told = append(r.told, fmt.Sprintf(format, args...))
}

// specOf is a source that is a remote, and what is worth a word about it.
func specOf(ctx context.Context, r kustomizeurl.Remote) (spec fleet.SourceSpec, note string, err error) {
	if r.Ref == "" && r.Kind != kustomizeurl.HTTP {
		note = ": it names no version, so the hub follows the newest"
	} else if r.Kind == kustomizeurl.Git && !fixed.MatchString(r.Ref) {
		note = ": if " + r.Ref + " is a branch, the hub follows it from commit to commit"
	}
	switch r.Kind {
	case kustomizeurl.Git:
		spec.Git = &fleet.GitSource{URL: r.URL, Ref: r.Ref}
	case kustomizeurl.Helm:
		spec.Helm = &fleet.HelmSource{URL: r.URL, Chart: r.Chart, Ref: r.Ref}
	case kustomizeurl.OCI:
		spec.OCI = &fleet.OCISource{URL: r.URL, Ref: cmp.Or(r.Ref, fleet.AnyVersion)}
	case kustomizeurl.HTTP:
		spec.HTTP = &fleet.HTTPSource{URL: r.URL}
		spec.HTTP.Digest, err = httpfile.Digest(ctx, r.URL)
		note = ": its digest is that of today"
	}
	return spec, note, err
}

// fixed is a ref that is a version or a commit, and so hardly a branch.
var fixed = regexp.MustCompile(`^(?:[0-9a-f]{40}|(?:.*[-/_])?v?\d+\.\d+.*|v\d+)$`)

// freeName is a name for a source, made of what the address ends in.
func freeName(known *fleet.Fleet, r kustomizeurl.Remote) string {
	base := strings.TrimSuffix(path.Base(strings.TrimRight(r.URL, "/")), ".git")
	if r.Kind == kustomizeurl.HTTP {
		base = strings.TrimSuffix(r.Path, path.Ext(r.Path))
	}
	base = label(cmp.Or(r.Chart, base))
	versioned := label(base[:min(len(base), 30)] + "-" + r.Ref)
	for i := 0; ; i++ {
		name := []string{base, versioned, fmt.Sprintf("%s-%d", versioned, i)}[min(i, 2)]
		if _, taken := known.Source(name); !taken {
			return name
		}
	}
}

// label is a text as a part of a name.
func label(text string) string {
	text = unnamed.ReplaceAllString(strings.ToLower(text), "-")
	return cmp.Or(strings.Trim(text[:min(len(text), 60)], "-"), "remote")
}

var unnamed = regexp.MustCompile(`[^a-z0-9]+`)
