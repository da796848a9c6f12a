// Package dist owns the folder that a release is put together in: what goreleaser built, and what is made of it.
package dist

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/oci"

	"github.com/pluralsh/plural/tools/release/attest"
	"github.com/pluralsh/plural/tools/release/images"
	"github.com/pluralsh/plural/tools/release/publish"
)

// What a release has beside its archives and packages.
const (
	Checksums       = "checksums.txt"
	BundleSuffix    = ".sigstore.json"
	Provenance      = "provenance" + BundleSuffix
	layouts         = "oci"
	charts          = "charts"
	billSuffix      = ".cdx.json"
	maxArtifactList = 16 << 20
)

// Release is what is put together.
type Release struct {
	// Dir is goreleaser's folder, Source the clone that it was built from.
	Dir, Source string
	Version     string
	Created     time.Time
	// Registry is where the images and charts will be, such as ghcr.io/pluralsh: their names are signed with them.
	Registry string
	Build    attest.Build
	// Signer is nil where nothing is signed.
	Signer *attest.Signer

	programs []artifact
	files    []artifact
	subjects []attest.Subject
	// sums are the lines of Checksums.
	sums []string
}

// artifact is a line of goreleaser's artifacts.json, as far as it matters.
type artifact struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	GOOS   string `json:"goos"`
	GOARCH string `json:"goarch"`
	Type   string `json:"type"`
	Extra  struct {
		ID string `json:"ID"`
	} `json:"extra"`
}

// file is where an artifact is.
func (r *Release) file(a artifact) string { return filepath.Join(r.Source, a.Path) }

// called is what a program is called outside of its archive.
func (r *Release) called(a artifact) string {
	return fmt.Sprintf("%s_%s_%s_%s", a.Extra.ID, r.Version, a.GOOS, a.GOARCH)
}

// imaged are the programs that are images too, and their charts.
var imaged = []struct{ program, chart, description string }{ //nolint:gochecknoglobals // a table
	{"plural", "hub", "The hub of a plural fleet, and the command line"},
	{"plural-agent", "agent", "The agent that runs in each cluster of a plural fleet"},
}

// Finish makes images, charts, bills of materials, checksums and provenance of what goreleaser built, and signs them. page is a file of
// the hub's page, which has to be in the program.
func (r *Release) Finish(ctx context.Context, page []byte) error {
	if err := r.read(); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		func(context.Context) error { return r.checkPage(page) },
		func(context.Context) error { return os.RemoveAll(filepath.Join(r.Dir, layouts)) },
		r.bills, r.images, r.checksums, r.provenance,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// read reads what goreleaser says that it built.
func (r *Release) read() error {
	name := filepath.Join(r.Dir, "artifacts.json")
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("%w: build with goreleaser first", err)
	}
	if info.Size() > maxArtifactList {
		return fmt.Errorf("%s has %d bytes: want at most %d", name, info.Size(), maxArtifactList)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var all []artifact
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	slices.SortFunc(all, func(a, b artifact) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path)) })
	for _, a := range all {
		switch a.Type {
		case "Binary":
			r.programs = append(r.programs, a)
		case "Archive", "Linux Package":
			r.files = append(r.files, a)
		}
	}
	if len(r.programs) == 0 || len(r.files) == 0 {
		return fmt.Errorf("%s names %d programs and %d archives: nothing that could be released", name, len(r.programs), len(r.files))
	}
	return nil
}

// checkPage refuses a hub without its page.
func (r *Release) checkPage(page []byte) error {
	if len(page) == 0 {
		return errors.New("the hub's page is not built: run make web")
	}
	for _, a := range r.programs {
		if a.Extra.ID != "plural" {
			continue
		}
		program, err := os.ReadFile(r.file(a))
		if err != nil {
			return err
		}
		if !bytes.Contains(program, page) {
			return fmt.Errorf("%s has no page in it, or an older one: run make web, and build again", a.Path)
		}
	}
	return nil
}

// bills writes a bill of materials beside the archives for each program.
func (r *Release) bills(context.Context) error {
	for _, a := range r.programs {
		text, err := attest.SBOM(r.file(a), r.Version, r.Created)
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.bill(a), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *Release) bill(a artifact) string { return filepath.Join(r.Dir, r.called(a)+billSuffix) }

// images packs images, and charts that name them by digest.
func (r *Release) images(ctx context.Context) error {
	for _, i := range imaged {
		layout := filepath.Join(r.Dir, layouts, i.program)
		image := &images.Image{
			Name: r.Registry + "/" + i.program + ":" + r.Version, Description: i.description, Revision: r.Build.Commit, Created: r.Created,
		}
		for _, a := range r.linux(i.program) {
			image.Programs = append(image.Programs, images.Program{OS: a.GOOS, Arch: a.GOARCH, File: r.file(a)})
		}
		if len(image.Programs) == 0 {
			return fmt.Errorf("no program %s for linux was built", i.program)
		}
		if err := os.MkdirAll(layout, 0o755); err != nil {
			return err
		}
		index, err := images.Pack(ctx, layout, image)
		if err != nil {
			return err
		}
		r.subject(image.Name, index)
		c := &publish.Chart{
			Dir: filepath.Join(r.Source, "templates/catalog", i.chart, "chart"), Version: r.Version, Created: r.Created,
			Repository: r.Registry + "/" + i.program, Digest: index.Digest.String(),
		}
		name := "plural-" + i.chart
		chart, err := c.Pack(ctx, filepath.Join(r.Dir, layouts, charts, name))
		if err != nil {
			return err
		}
		r.subject(r.Registry+"/"+charts+"/"+name+":"+r.Version, chart)
	}
	return nil
}

func (r *Release) linux(program string) []artifact {
	return slices.DeleteFunc(slices.Clone(r.programs), func(a artifact) bool { return a.Extra.ID != program || a.GOOS != "linux" })
}

func (r *Release) subject(name string, d ocispec.Descriptor) {
	r.subjects = append(r.subjects, attest.Subject{Name: name, Digest: map[string]string{d.Digest.Algorithm().String(): d.Digest.Encoded()}})
}

// checksums writes the list of what people download, and of the programs inside.
func (r *Release) checksums(ctx context.Context) error {
	for _, a := range r.files {
		if err := r.sum(a.Name, r.file(a)); err != nil {
			return err
		}
	}
	for _, a := range r.programs {
		if err := errors.Join(r.sum(r.called(a), r.file(a)), r.sum(r.called(a)+billSuffix, r.bill(a))); err != nil {
			return err
		}
	}
	slices.SortFunc(r.sums, func(a, b string) int { return cmp.Compare(a[64:], b[64:]) })
	text := []byte(strings.Join(r.sums, ""))
	name := filepath.Join(r.Dir, Checksums)
	if err := os.WriteFile(name, text, 0o644); err != nil || r.Signer == nil {
		return err
	}
	bundle, err := r.Signer.Blob(ctx, text)
	if err != nil {
		return err
	}
	return os.WriteFile(name+BundleSuffix, bundle, 0o644)
}

func (r *Release) sum(called, file string) error {
	s, err := attest.FileSubject(file)
	if err != nil {
		return err
	}
	s.Name = called
	r.subjects = append(r.subjects, s)
	r.sums = append(r.sums, s.Digest["sha256"]+"  "+called+"\n")
	return nil
}

// provenance says how everything was built, in one statement beside the archives and beside each image and chart.
func (r *Release) provenance(ctx context.Context) error {
	for _, lock := range []string{"go.sum", "localkube/go.sum", "web/package-lock.json"} {
		s, err := attest.FileSubject(filepath.Join(r.Source, lock))
		if err != nil {
			return err
		}
		s.Name = lock
		r.Build.Locks = append(r.Build.Locks, s)
	}
	if r.Signer == nil {
		return nil
	}
	statement, err := attest.Statement(r.subjects, attest.PredicateProvenance, r.Build.Provenance())
	if err != nil {
		return err
	}
	bundle, err := r.Signer.Statement(ctx, statement)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.Dir, Provenance), bundle, 0o644); err != nil {
		return err
	}
	return r.eachLayout(func(dir, name string) error {
		store, err := oci.NewWithContext(ctx, dir)
		if err != nil {
			return err
		}
		store.AutoSaveIndex = false
		top, err := store.Resolve(ctx, r.Version)
		if err != nil {
			return err
		}
		if err := publish.Attach(ctx, store, top, bundle, attest.PredicateProvenance, r.Created); err != nil {
			return err
		}
		if err := r.attach(ctx, store, top, attest.PredicateSignature, json.RawMessage("{}")); err != nil {
			return err
		}
		for _, i := range imaged {
			if name != i.program {
				continue
			}
			if err := r.attachBills(ctx, store, top, i.program); err != nil {
				return err
			}
		}
		return images.Save(store, dir)
	})
}

// attachBills puts each program's bill of materials beside the image of its platform.
func (r *Release) attachBills(ctx context.Context, store *oci.Store, top ocispec.Descriptor, program string) error {
	manifests, err := images.Manifests(ctx, store, top)
	if err != nil {
		return err
	}
	for _, a := range r.linux(program) {
		at := slices.IndexFunc(manifests, func(d ocispec.Descriptor) bool { return d.Platform != nil && d.Platform.Architecture == a.GOARCH })
		if at < 0 {
			return fmt.Errorf("the image has nothing for %s", a.GOARCH)
		}
		text, err := os.ReadFile(r.bill(a))
		if err != nil {
			return err
		}
		if err := r.attach(ctx, store, manifests[at], attest.PredicateSBOM, json.RawMessage(text)); err != nil {
			return err
		}
	}
	return nil
}

// attach signs a statement about a manifest, and puts it beside it.
func (r *Release) attach(ctx context.Context, to *oci.Store, d ocispec.Descriptor, predicateType string, predicate any) error {
	subject := attest.Subject{Digest: map[string]string{d.Digest.Algorithm().String(): d.Digest.Encoded()}}
	statement, err := attest.Statement([]attest.Subject{subject}, predicateType, predicate)
	if err != nil {
		return err
	}
	bundle, err := r.Signer.Statement(ctx, statement)
	if err != nil {
		return err
	}
	return publish.Attach(ctx, to, d, bundle, predicateType, r.Created)
}

// eachLayout calls do with the folder of each image and chart, and with what it is called in a registry.
func (r *Release) eachLayout(do func(dir, name string) error) error {
	top := filepath.Join(r.Dir, layouts)
	return filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, ocispec.ImageLayoutFile)); err != nil {
			return nil //nolint:nilerr // a folder of layouts
		}
		name, err := filepath.Rel(top, dir)
		if err != nil {
			return err
		}
		if err := do(dir, filepath.ToSlash(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return fs.SkipDir
	})
}

// Push brings images and charts to the registry. Pushed tells of each that is there.
func (r *Release) Push(ctx context.Context, plainHTTP bool, pushed func(name string, d ocispec.Descriptor)) error {
	return r.eachLayout(func(dir, name string) error {
		layout, err := oci.NewWithContext(ctx, dir)
		if err != nil {
			return err
		}
		repo, err := publish.Open(r.Registry+"/"+name, plainHTTP)
		if err != nil {
			return err
		}
		d, err := publish.Push(ctx, layout, r.Version, repo)
		if err == nil {
			pushed(r.Registry+"/"+name+":"+r.Version, d)
		}
		return err
	})
}
