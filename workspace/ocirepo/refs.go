package ocirepo

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/versions"
)

const (
	// tagPage and tagPages bound what is asked of a registry for one list, maxTags what it may answer.
	tagPage, tagPages, maxTags = 1000, 50, 50_000
	// shortDigest is how many hex digits people are shown.
	shortDigest = 12
)

// tagForm is what the distribution specification takes for a tag.
var tagForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`) })

// fetch is one Fetch.
type fetch struct {
	*upstream
	into mirror.Receiver
	// made are the artifacts of this fetch, by digest.
	made map[string]artifact
	// tags are listed once, when they are needed.
	tags []string
	// answered says that the registry spoke of what it holds; silent is the last error when it did not.
	answered bool
	silent   error
}

// named is what a ref names now.
type named struct {
	// tag is empty for a digest.
	tag        string
	descriptor ocispec.Descriptor
}

func (n named) digest() string { return n.descriptor.Digest.String() }

func (n named) revision() string {
	if n.tag == "" {
		return short(n.digest())
	}
	return n.tag + "@" + short(n.digest())
}

func short(digest string) string { return digest[:min(len("sha256:")+shortDigest, len(digest))] }

// tip brings one ref up to date.
func (f *fetch) tip(ctx context.Context, ref string, last mirror.Tip) (mirror.Tip, error) {
	if f.held(ref, last) {
		return last, nil
	}
	now, err := f.resolve(ctx, ref, last)
	if err != nil {
		return mirror.Tip{}, err
	}
	if err := f.Verify(ctx, now.descriptor); err != nil {
		return mirror.Tip{}, fmt.Errorf("%s is not taken: %w", now.revision(), err)
	}
	tip := mirror.Tip{ID: now.digest(), Commit: last.Commit, Revision: now.revision()}
	if last.ID == tip.ID {
		tip.Rewound = last.Rewound
	}
	if last.ID == tip.ID && last.Revision == tip.Revision && f.into.Complete(last.Commit) {
		return tip, nil
	}
	if tip.Commit, err = f.take(ctx, now); err != nil {
		return mirror.Tip{}, fmt.Errorf("%s: %w", now.revision(), err)
	}
	before, _, tagged := strings.Cut(last.Revision, "@")
	if last.ID != tip.ID && tagged && before == now.tag && versions.Is(versionOf(now.tag)) {
		tip.Rewound = fmt.Sprintf("tag %s was %s and was moved", before, short(last.ID))
	}
	return tip, nil
}

// held says that a ref is a digest, which names the same for ever, and that nothing is left to do for it.
func (f *fetch) held(ref string, last mirror.Tip) bool {
	return strings.HasPrefix(ref, "sha256:") && last.ID == ref && f.into.Complete(last.Commit) &&
		f.believes(ref)
}

// resolve asks what a ref names.
func (f *fetch) resolve(ctx context.Context, ref string, last mirror.Tip) (named, error) {
	var tag string
	var err error
	switch {
	case strings.Contains(ref, ":"):
		if d, err := digest.Parse(ref); err != nil || d.Algorithm() != digest.SHA256 {
			return named{}, fmt.Errorf("not a digest: want sha256: and 64 hex digits")
		}
	case ref == "", versions.Looks(ref):
		tag, err = f.newest(ctx, ref, last)
	case tagForm().MatchString(ref):
		tag = ref
	default:
		return named{}, fmt.Errorf("not a tag, a range of versions or a digest")
	}
	if err != nil {
		return named{}, err
	}
	name := tag
	if name == "" {
		name = ref
	}
	descriptor, err := f.repo.Resolve(ctx, name)
	if err = f.heard(err); err != nil {
		return named{}, err
	}
	if err := checkDescriptor(descriptor, maxManifest); err != nil {
		return named{}, fmt.Errorf("manifest of %q: %w", name, err)
	}
	return named{tag, descriptor}, nil
}

// heard makes an error fit for people, and notes whether the registry answered at all.
func (f *fetch) heard(err error) error {
	if err == nil || errors.Is(err, errdef.ErrNotFound) {
		f.answered = true
	}
	err = f.readable(err)
	if !f.answered {
		f.silent = err
	}
	return err
}

// newest picks among the tags. A version that was served and is gone is missed, not replaced by an older one.
func (f *fetch) newest(ctx context.Context, ref string, last mirror.Tip) (string, error) {
	want, err := versions.ParseRange(ref)
	if err != nil {
		return "", err
	}
	if f.tags == nil {
		if err := f.listTags(ctx); err != nil {
			return "", err
		}
	}
	tags := map[string]string{}
	list := make([]string, len(f.tags))
	for i, tag := range f.tags {
		list[i] = versionOf(tag)
		tags[list[i]] = tag
	}
	before, _, _ := strings.Cut(last.Revision, "@")
	inUse := versionOf(before)
	version, err := want.Newest(list, inUse)
	var none *versions.MatchError
	if ref == "" && errors.As(err, &none) && !versions.Is(inUse) && tags["latest"] != "" {
		return "latest", nil
	}
	return tags[version], err
}

// versionOf undoes what helm does to a version to make it a tag.
func versionOf(tag string) string { return strings.Replace(tag, "_", "+", 1) }

func (f *fetch) listTags(ctx context.Context) error {
	tags, err := f.list(ctx)
	if err = f.heard(err); err != nil {
		return err
	}
	f.tags = tags
	return nil
}
