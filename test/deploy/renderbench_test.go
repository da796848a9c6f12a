package deploy

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/test/support/needs"
)

// rendering is one folder, as this program and as somebody else's renders it.
type rendering struct {
	input render.Input
	// peer is the other program with its arguments, and dir where it runs.
	peer []string
	dir  string
}

// BenchmarkRenderBesideTheirPrograms renders the folders and charts that others wrote beside kustomize and helm, each of their
// renders a process of its own: one by one with a new child each, and all of them with children that stay warm.
func BenchmarkRenderBesideTheirPrograms(b *testing.B) {
	corpus := needs.Corpus(b)
	tools := filepath.Join("..", "..", ".tools")
	for name, peer := range map[string]struct {
		renderer string
		command  []string
		marks    []string // one of these files makes a folder one that is rendered
	}{
		"kustomize": {render.Kustomize, []string{needs.Program(b, filepath.Join(tools, "kustomize"), "make .tools/kustomize"), "build"}, konfig.RecognizedKustomizationFileNames()},
		"helm":      {render.HelmChart, []string{needs.Program(b, filepath.Join(tools, "helm"), "make .tools/helm"), "template", "web", "--include-crds"}, []string{"Chart.yaml"}},
	} {
		program, err := filepath.Abs(peer.command[0])
		if err != nil {
			b.Fatal(err)
		}
		all := renderings(b, corpus, peer.renderer, append([]string{program}, peer.command[1:]...), peer.marks)
		figure("render_one_ratio_"+name, ratio(b, all, 1, 0), "x", 2)
		figure("render_batch_ratio_"+name, ratio(b, all, runtime.NumCPU(), time.Minute), "x", 1.2)
	}
}

// renderings are the folders below root that both render.
func renderings(b *testing.B, root, renderer string, peer, marks []string) (all []rendering) {
	b.Helper()
	r := &render.Renderer{Command: needs.Child(b, "render-child")}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !slices.Contains(marks, entry.Name()) {
			return err
		}
		project, inside := projectOf(root, filepath.Dir(name))
		one := rendering{
			input: render.Input{Renderer: renderer, Path: inside, Namespace: "default", Service: "web", Tenant: "bench", Files: os.DirFS(project)},
			peer:  append(slices.Clone(peer), inside), dir: project,
		}
		_, failed := r.Render(b.Context(), one.input)
		if theirs := one.byPeer(b.Context()); failed == nil && theirs == nil {
			all = append(all, one)
		}
		return nil
	})
	if err != nil || len(all) == 0 {
		b.Fatalf("%d folders render: %v", len(all), err)
	}
	return all
}

// projectOf is the folder directly below root that a folder lies in, and the rest of its name. A test of Argo CD is a project of its own.
func projectOf(root, dir string) (project, inside string) {
	for inside = "."; filepath.Dir(dir) != root && filepath.Base(filepath.Dir(dir)) != "cases"; dir = filepath.Dir(dir) {
		inside = path.Join(filepath.Base(dir), inside)
	}
	return dir, inside
}

func (r *rendering) byPeer(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, r.peer[0], r.peer[1:]...)
	cmd.Dir = r.dir
	return cmd.Run()
}

// ratio is how long this program takes for all folders, in how long the other takes: the median of five runs of each, in turn.
func ratio(b *testing.B, all []rendering, atOnce int, warm time.Duration) float64 {
	b.Helper()
	var ours, theirs []time.Duration
	for range 5 {
		r := &render.Renderer{Command: needs.Child(b, "render-child"), Warm: warm}
		ours = append(ours, took(b, all, atOnce, func(one *rendering) error {
			_, err := r.Render(b.Context(), one.input)
			return err
		}))
		r.Close()
		theirs = append(theirs, took(b, all, atOnce, func(one *rendering) error { return one.byPeer(b.Context()) }))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	return float64(ours[2]) / float64(theirs[2])
}

func took(b *testing.B, all []rendering, atOnce int, do func(*rendering) error) time.Duration {
	b.Helper()
	began := time.Now()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range all {
		group.Go(func() error { return do(&all[i]) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}
