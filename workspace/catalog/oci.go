package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/archive"
	"github.com/pluralsh/plural/workspace/ocirepo"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/versions"
)

// What a package is in a registry: a manifest whose config is package.yaml as JSON, with one layer that holds the files.
const (
	artifactType = "application/vnd.plural.package.v1"
	configType   = "application/vnd.plural.package.config.v1+json"
	layerType    = "application/vnd.plural.package.content.v1.tar+gzip"
	// digestKey is the manifest's annotation that holds packages.Digest.
	digestKey = "sh.plural.package.digest"
)

const (
	// lookLasts is how long what a registry said of its tags is taken for true: one command, one look of a hub.
	lookLasts = 15 * time.Second
	// atOnce bounds the requests that one question leads to at a time.
	atOnce = 8
)

// OCIOptions name one repository of a registry. Their Verify is asked about every version: one that nobody vouches for cannot
// be used.
type OCIOptions = ocirepo.Options

// OCI is a catalog in one repository of a registry: a tag NAME_VERSION for each version. Other tags are passed over.
func OCI(name string, o OCIOptions) (Catalog, error) {
	repo, err := ocirepo.Open(o)
	if err != nil {
		return nil, failed(name, err)
	}
	return &oci{name: name, repo: repo, entries: map[string]*artifact{}, now: time.Now}, nil
}

type oci struct {
	name string
	repo *ocirepo.Repository
	now  func() time.Time
	mu   sync.Mutex
	// look is what the registry said last, entries what its manifests hold, by tag and digest, which together never change: what is
	// good under its own tag is not under another. Guarded by mu.
	look    *tagList
	entries map[string]*artifact
}

// tagList is what tags there are, and what they name.
type tagList struct {
	at   time.Time
	tags map[string][]string // versions by package
	// named are manifests by tag.
	named map[string]ocispec.Descriptor
}

// artifact is one version as its manifest and its config have it.
type artifact struct {
	manifest ocispec.Manifest
	entry    Entry
}

// nameForm is a DNS label.
var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`) })

// tagOf is where a version is published.
func tagOf(name, version string) string { return name + "_" + version }

// parseTag undoes tagOf.
func parseTag(tag string) (name, version string, ok bool) {
	name, version, ok = strings.Cut(tag, "_")
	return name, version, ok && nameForm().MatchString(name) && versions.Is(version)
}

func (c *oci) Name() string { return c.name }

func (c *oci) Packages(ctx context.Context) ([]string, error) {
	l, err := c.current(ctx)
	if err != nil {
		return nil, failed(c.name, err)
	}
	names := make([]string, 0, len(l.tags))
	for name := range l.tags {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (c *oci) Versions(ctx context.Context, name string) ([]Entry, error) {
	l, err := c.current(ctx)
	if err != nil {
		return nil, failed(c.name, err)
	}
	list := make([]Entry, len(l.tags[name]))
	several, ctx := errgroup.WithContext(ctx)
	several.SetLimit(atOnce)
	for i, version := range l.tags[name] {
		several.Go(func() error {
			a, err := c.version(ctx, l, name, version)
			if errors.Is(err, ocirepo.ErrNotFound) { // gone since the tags were listed
				err = nil
				a = &artifact{entry: Entry{Version: version, Problem: ocirepo.ErrNotFound}}
			}
			if err != nil {
				return err
			}
			list[i] = a.entry
			return nil
		})
	}
	if err := several.Wait(); err != nil {
		return nil, failed(c.name, err)
	}
	newestFirst(list)
	return list, nil
}

func (c *oci) Open(ctx context.Context, name, version string) (*Payload, error) {
	l, err := c.current(ctx)
	if err != nil {
		return nil, failed(c.name, err)
	}
	if !slices.Contains(l.tags[name], version) {
		list, err := c.Versions(ctx, name)
		if err != nil {
			return nil, err
		}
		return nil, notFound(c.name, name, version, list)
	}
	a, err := c.version(ctx, l, name, version)
	if err == nil {
		err = a.entry.Problem
	}
	if err != nil {
		return nil, failed(c.name, err)
	}
	payload, err := c.payload(ctx, a, name, version)
	if err != nil {
		return nil, failed(c.name, fmt.Errorf("%s %s: %w", name, version, err))
	}
	return payload, nil
}

// current is what the registry says of its tags, now or a moment ago.
func (c *oci) current(ctx context.Context) (*tagList, error) {
	c.mu.Lock()
	l := c.look
	c.mu.Unlock()
	if l != nil && c.now().Sub(l.at) < lookLasts {
		return l, nil
	}
	tags, err := c.repo.Tags(ctx)
	var status *httpclient.StatusError
	if errors.As(err, &status) && status.Code == 404 {
		return nil, fmt.Errorf("%w: a repository is made when the first package is published to it", err)
	}
	if err != nil {
		return nil, err
	}
	l = &tagList{at: c.now(), tags: map[string][]string{}, named: map[string]ocispec.Descriptor{}}
	for _, tag := range tags {
		if name, version, ok := parseTag(tag); ok {
			l.tags[name] = append(l.tags[name], version)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look = l
	return l, nil
}

// version says what a tag holds. The error means that the registry did not answer; what is wrong with the version itself is
// its entry's problem.
func (c *oci) version(ctx context.Context, l *tagList, name, version string) (*artifact, error) {
	d, err := c.named(ctx, l, tagOf(name, version))
	if err != nil {
		return nil, err
	}
	key := tagOf(name, version) + "@" + d.Digest.String()
	c.mu.Lock()
	known := c.entries[key]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	a := &artifact{entry: Entry{Version: version}}
	if err = c.repo.Verify(ctx, d); err != nil {
		err = fmt.Errorf("%s %s is not taken: %w", name, version, err)
	} else {
		err = c.read(ctx, d, a, name, version)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case unanswered(err):
		return nil, err
	case err != nil: // not kept: a signature may come later
		a.entry.Package, a.entry.Problem = nil, err
		return a, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[key] = a
	return a, nil
}

// unanswered tells a registry that is away, or refuses, from one that holds something useless.
func unanswered(err error) bool {
	var status *httpclient.StatusError
	var retry *httpclient.RetryError
	var network net.Error
	return errors.As(err, &status) || errors.As(err, &retry) || errors.As(err, &network)
}

func (c *oci) named(ctx context.Context, l *tagList, tag string) (ocispec.Descriptor, error) {
	c.mu.Lock()
	d, ok := l.named[tag]
	c.mu.Unlock()
	if ok {
		return d, nil
	}
	d, err := c.repo.Resolve(ctx, tag)
	if err != nil {
		return d, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.named[tag] = d
	return d, nil
}

// read fills in what manifest and config say.
func (c *oci) read(ctx context.Context, d ocispec.Descriptor, a *artifact, name, version string) (err error) {
	fault := func(err error) error { return fmt.Errorf("%s %s: %w", name, version, err) }
	if a.manifest, err = c.repo.Manifest(ctx, d); err != nil {
		return fault(err)
	}
	if a.manifest.Config.MediaType != configType {
		return fault(fmt.Errorf("it is no package: its config has the type %.80q; publish it by plural package publish",
			a.manifest.Config.MediaType))
	}
	config, err := c.repo.Blob(ctx, a.manifest.Config, packages.MaxFile)
	if err != nil {
		return fault(err)
	}
	if a.entry.Package, err = packages.Parse(config); err != nil {
		return fault(err)
	}
	if err := is(a.entry.Package, name, version); err != nil {
		return fault(err)
	}
	if a.entry.Digest = a.manifest.Annotations[digestKey]; a.entry.Digest == "" {
		return fault(fmt.Errorf("its manifest does not say its digest (annotation %s)", digestKey))
	}
	// Nobody has to say when; Publish does not, so that the same files give the same manifest.
	a.entry.Created, _ = time.Parse(time.RFC3339, a.manifest.Annotations[ocispec.AnnotationCreated])
	return nil
}

// is holds what a package says of itself against where it was found.
func is(p *packages.Package, name, version string) error {
	if p.Metadata.Name != name || p.Spec.Version != version {
		return fmt.Errorf("it says that it is %s %s", p.Metadata.Name, p.Spec.Version)
	}
	return nil
}

// payload fetches the files.
func (c *oci) payload(ctx context.Context, a *artifact, name, version string) (*Payload, error) {
	layers := a.manifest.Layers
	if len(layers) != 1 || layers[0].MediaType != layerType {
		return nil, fmt.Errorf("its manifest has %d layers, and should have one of type %s", len(layers), layerType)
	}
	packed, err := c.repo.Blob(ctx, layers[0], archive.DefaultLimits().Packed)
	if err != nil {
		return nil, err
	}
	files, err := archive.Unpack(bytes.NewReader(packed), archive.Limits{Unpacked: packages.MaxBytes, Entries: packages.MaxFiles})
	if err != nil {
		return nil, err
	}
	p, digest, err := examine(files)
	if err != nil {
		return nil, err
	}
	if digest != a.entry.Digest {
		return nil, &DigestError{Catalog: c.name, Name: name, Version: version, Want: a.entry.Digest, Have: digest}
	}
	if err := same(p, a.entry.Package); err != nil {
		return nil, err
	}
	return &Payload{Files: files, Package: p, Digest: digest}, nil
}

// same says that the config is what the files say: else one thing would be resolved, and another installed.
func same(files, config *packages.Package) error {
	of, err := json.Marshal(files)
	if err != nil {
		return err
	}
	shown, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if !bytes.Equal(of, shown) {
		return errors.New("its config and its package.yaml differ: publish it by plural package publish")
	}
	return nil
}
