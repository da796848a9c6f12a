package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// verdict is what the comparison of one item came to.
type verdict string

// The verdicts there are.
const (
	equal         verdict = "equal"
	bothFail      verdict = "both fail"
	oursFails     verdict = "ours fails"
	theirsFails   verdict = "theirs fails"
	differs       verdict = "differs"
	unpredictable verdict = "not deterministic"
)

// result is one item's.
type result struct {
	item
	Verdict verdict `json:"verdict"`
	// Reason is the same for items whose verdict is likely to have one cause.
	Reason string `json:"reason,omitempty"`
	// OursError and TheirsError are what a side that failed said.
	OursError   string `json:"oursError,omitempty"`
	TheirsError string `json:"theirsError,omitempty"`
	// Differences are the first maxDifferences.
	Differences []difference `json:"differences,omitempty"`
	// Notes are differences that are meant to be.
	Notes   []string `json:"notes,omitempty"`
	Objects int      `json:"objects,omitempty"`
	// Ours and Theirs are how long each side took.
	Ours   time.Duration `json:"oursNanoseconds"`
	Theirs time.Duration `json:"theirsNanoseconds"`
}

// comparison is a repository's under way.
type comparison struct {
	options
	renderer    *preview.Renderer
	programs    *programs
	items       []item
	deployments []*resolve.Deployment
}

// compareRepository renders everything on both sides. The error is about the repository, the programs or an end of ctx: what
// does not render is in the report.
func compareRepository(ctx context.Context, o options, progress func(done, all int)) (*report, error) {
	files, err := snapshot.Open(o.repo, o.rev)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rendercompare")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // kustomize says this path
		return nil, err
	}
	if err := checkOut(ctx, o.repo, files.Commit().ID, dir); err != nil {
		return nil, err
	}
	c := &comparison{options: o, programs: &programs{o, filepath.Join(dir, "tree"), filepath.Join(dir, "helm")}}
	made := &report{Commit: files.Commit().ID, KubeVersion: o.kubeVersion, Jobs: o.jobs}
	if made.Kustomize, err = c.programs.version(ctx, o.kustomize, "version"); err != nil {
		return nil, err
	}
	if made.Helm, err = c.programs.version(ctx, o.helm, "version", "--template", "{{.Version}}"); err != nil {
		return nil, err
	}
	if c.renderer, err = newRenderer(files, o); err != nil {
		return nil, err
	}
	if c.items, err = findItems(files.FS(), o.paths); err != nil {
		return nil, err
	}
	if c.deployments, err = resolveItems(files, c.items); err != nil {
		return nil, err
	}
	if made.Results, err = c.compareAll(ctx, progress); err != nil {
		return nil, err
	}
	if o.timed {
		made.Batches, err = c.measure(ctx)
	}
	return made, err
}

// version is what a program calls itself, on one line.
func (p *programs) version(ctx context.Context, program string, args ...string) (string, error) {
	printed, err := p.output(ctx, append([]string{program}, args...))
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	return strings.TrimSpace(string(printed)), nil
}

// compareAll compares each item, some at once. Results are in the order of items.
func (c *comparison) compareAll(ctx context.Context, progress func(done, all int)) ([]result, error) {
	results := make([]result, len(c.items))
	var mu sync.Mutex
	done := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.jobs)
	for i := range c.items {
		group.Go(func() error {
			results[i] = c.compare(ctx, i)
			mu.Lock()
			defer mu.Unlock()
			done++
			progress(done, len(c.items))
			return ctx.Err()
		})
	}
	return results, group.Wait()
}

// compare renders one item on both sides.
func (c *comparison) compare(ctx context.Context, i int) result {
	theirs := c.programs.render(ctx, c.items[i])
	ours := renderOurs(ctx, c.renderer, c.deployments[i])
	r := result{item: c.items[i], Objects: len(ours.objects), Ours: ours.took, Theirs: theirs.took}
	if ours.err != nil {
		r.OursError = ours.err.Error()
	}
	if theirs.err != nil {
		r.TheirsError = theirs.err.Error()
	}
	switch {
	case ours.err != nil && theirs.err != nil:
		r.Verdict, r.Reason = bothFail, reasonOf(ours.err)
	case ours.err != nil:
		r.Verdict, r.Reason = oursFails, reasonOf(ours.err)
	case theirs.err != nil:
		r.Verdict, r.Reason = theirsFails, reasonOf(theirs.err)
	default:
		c.judge(ctx, &r, ours, theirs)
	}
	return r
}

// reruns is how often helm is asked again when a chart's output differs: each time a list in random order may come out as before.
const reruns = 3

// judge compares two renders, and takes away what is meant to differ, or differs from one run of the program to the next.
func (c *comparison) judge(ctx context.Context, r *result, ours, theirs rendition) {
	r.Verdict = equal
	if r.Renderer == "helm" {
		theirs.objects, r.Notes = withoutRollbackHooks(theirs.objects)
	}
	found := diffObjects(ours.objects, theirs.objects, r.Renderer == "kustomize")
	if r.Renderer == "helm" {
		found, r.Notes = withoutLeftOut(found, ours.warnings, r.Notes)
	}
	if len(found) > 0 && r.Renderer == "helm" {
		var moving []difference
		for range reruns {
			again := c.programs.render(ctx, r.item)
			if again.err != nil {
				break
			}
			again.objects, _ = withoutRollbackHooks(again.objects)
			moving = append(moving, diffObjects(again.objects, theirs.objects, false)...)
		}
		if len(moving) > 0 {
			r.Verdict, r.Reason = unpredictable, "helm prints something else each time: "+moving[0].reason()
			found = slices.DeleteFunc(found, func(d difference) bool { return d.movesWith(moving) })
		}
	}
	if len(found) > 0 {
		r.Verdict, r.Reason, r.Differences = differs, found[0].reason(), found
	}
}

// movesWith says whether a difference is in a place that two runs of helm do not agree on.
func (d difference) movesWith(moving []difference) bool {
	return slices.ContainsFunc(moving, func(m difference) bool {
		if m.Field == "" || d.Field == "" { // objects with random names: all of their kind
			return m.Field == "" && d.Field == "" && slices.Equal(strings.Fields(m.Object)[:2], strings.Fields(d.Object)[:2])
		}
		below, inside := strings.CutPrefix(d.Field, m.Field)
		return m.Object == d.Object && inside && (below == "" || below[0] == '.' || below[0] == '[')
	})
}

// withoutRollbackHooks leaves out the hooks that run at a rollback alone, as our renderer does.
func withoutRollbackHooks(objects []object) (kept []object, notes []string) {
	other := func(event string) bool { return !strings.HasSuffix(event, "-rollback") }
	for _, o := range objects {
		if events := hookEvents(o); len(events) > 0 && !slices.ContainsFunc(events, other) {
			notes = append(notes, "hooks of a rollback are left out")
			continue
		}
		kept = append(kept, o)
	}
	return kept, slices.Compact(notes)
}

// withoutLeftOut takes away what our renderer left out and said so.
func withoutLeftOut(found []difference, warnings, notes []string) ([]difference, []string) {
	for _, warning := range warnings {
		_, hook, ok := strings.Cut(warning, ": the hook ")
		if name, _, left := strings.Cut(hook, " stands in this service already"); ok && left {
			notes = append(notes, "a hook that runs aside and names another object of the chart is left out")
			found = slices.DeleteFunc(found, func(d difference) bool {
				parts := strings.Fields(d.Object) // version, kind, name with its namespace
				return d.Class == missingInOurs && len(parts) == 3 && parts[1]+"/"+path.Base(parts[2]) == name
			})
		}
	}
	return found, slices.Compact(notes)
}

// hookEvents are the events of a hook; none when the object is no hook.
func hookEvents(o object) []string {
	metadata, _ := o["metadata"].(object)
	annotations, _ := metadata["annotations"].(object)
	events, _ := annotations["helm.sh/hook"].(string)
	var all []string
	for event := range strings.SplitSeq(events, ",") {
		if event = strings.TrimSpace(event); event != "" {
			all = append(all, event)
		}
	}
	return all
}
