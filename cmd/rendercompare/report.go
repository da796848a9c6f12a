package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/agent/render"
)

// report is all that was found.
type report struct {
	Commit      string `json:"commit"`
	Kustomize   string `json:"kustomize"`
	Helm        string `json:"helm"`
	KubeVersion string `json:"kubeVersion"`
	// Jobs is how many items were rendered at once.
	Jobs    int      `json:"jobs"`
	Results []result `json:"results"`
	// Batches are how long all items of a renderer took, each side by itself; nil when nobody asked.
	Batches []batch `json:"batches,omitempty"`
}

// batch is all items of one renderer that render on both sides, rendered on one side and then on the other.
type batch struct {
	Renderer string        `json:"renderer"`
	Items    int           `json:"items"`
	Ours     time.Duration `json:"oursNanoseconds"`
	Theirs   time.Duration `json:"theirsNanoseconds"`
}

// measure renders everything once more, for its time.
func (c *comparison) measure(ctx context.Context) ([]batch, error) {
	var all []batch
	for _, renderer := range renderers {
		var numbers []int
		for i := range c.items {
			if c.items[i].Renderer == renderer && c.deployments[i].Hold == nil {
				numbers = append(numbers, i)
			}
		}
		b := batch{Renderer: renderer, Items: len(numbers)}
		var err error
		b.Ours, err = c.forAll(ctx, numbers, func(ctx context.Context, i int) { renderOurs(ctx, c.renderer, c.deployments[i]) })
		if err != nil {
			return nil, err
		}
		b.Theirs, err = c.forAll(ctx, numbers, func(ctx context.Context, i int) { c.programs.render(ctx, c.items[i]) })
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// forAll does something for each of these items, some at once, and returns how long it took.
func (c *comparison) forAll(ctx context.Context, numbers []int, do func(context.Context, int)) (time.Duration, error) {
	started := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.jobs)
	for _, i := range numbers {
		group.Go(func() error {
			do(ctx, i)
			return ctx.Err()
		})
	}
	err := group.Wait()
	return time.Since(started), err
}

// renderers are in the order in which they are told of.
var renderers = [...]string{"kustomize", "helm"} //nolint:gochecknoglobals // never changes

// verdicts are in the order in which they are told of.
var verdicts = [...]verdict{equal, bothFail, oursFails, theirsFails, differs, unpredictable} //nolint:gochecknoglobals // never changes

// print writes the table, then the reasons, then the times.
func (r *report) print(w io.Writer) error {
	fmt.Fprintf(w, "commit %s, kustomize %s, helm %s, Kubernetes %s\n\n", r.Commit, r.Kustomize, r.Helm, r.KubeVersion)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	for _, v := range verdicts {
		fmt.Fprintf(table, "\t%s", v)
	}
	fmt.Fprintln(table, "\t")
	for _, renderer := range renderers {
		fmt.Fprint(table, renderer)
		for _, v := range verdicts {
			fmt.Fprintf(table, "\t%d", len(r.of(renderer, v)))
		}
		fmt.Fprintln(table, "\t")
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, v := range []verdict{oursFails, differs, theirsFails, unpredictable, bothFail} {
		for _, renderer := range renderers {
			printGroups(w, fmt.Sprintf("%s, %s", renderer, v), r.of(renderer, v), func(each result) string { return each.Reason })
		}
	}
	noted := slices.DeleteFunc(slices.Clone(r.Results), func(each result) bool { return len(each.Notes) == 0 })
	printGroups(w, "different on purpose", noted, func(each result) string { return strings.Join(each.Notes, "; ") })
	return r.printTimes(w)
}

func (r *report) of(renderer string, v verdict) []result {
	var all []result
	for _, each := range r.Results {
		if each.Renderer == renderer && each.Verdict == v {
			all = append(all, each)
		}
	}
	return all
}

// maxNamed is how many items of a group are named.
const maxNamed = 5

// printGroups tells results by reason, the most frequent first, with the first difference or error of one of them.
func printGroups(w io.Writer, title string, results []result, reason func(result) string) {
	if len(results) == 0 {
		return
	}
	groups := map[string][]result{}
	for _, each := range results {
		groups[reason(each)] = append(groups[reason(each)], each)
	}
	fmt.Fprintf(w, "\n%s: %d\n", title, len(results))
	byCount := func(a, b string) int {
		return cmp.Or(cmp.Compare(len(groups[b]), len(groups[a])), strings.Compare(a, b))
	}
	for _, key := range slices.SortedFunc(maps.Keys(groups), byCount) {
		group := groups[key]
		fmt.Fprintf(w, "%5d  %s\n", len(group), key)
		for i, each := range group[:min(len(group), maxNamed)] {
			fmt.Fprintf(w, "       %s\n", each.item)
			if i == 0 {
				each.printDetail(w)
			}
		}
		if more := len(group) - maxNamed; more > 0 {
			fmt.Fprintf(w, "       and %d more\n", more)
		}
	}
}

func (r *result) printDetail(w io.Writer) {
	for _, side := range []struct{ name, text string }{{"ours", r.OursError}, {"theirs", r.TheirsError}} {
		if side.text != "" {
			fmt.Fprintf(w, "           %s: %s\n", side.name, oneLine(side.text))
		}
	}
	if len(r.Differences) > 0 {
		fmt.Fprintf(w, "           %s\n", r.Differences[0])
	}
}

// oneLine is a text of any length, fit for one line.
func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func (r *report) printTimes(w io.Writer) error {
	fmt.Fprintf(w, "\ntime of what renders on both sides, %d at once\n", r.Jobs)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\titems\tours\ttheirs\tours/theirs\t")
	for _, renderer := range renderers {
		var ours, theirs []time.Duration
		for _, each := range r.Results {
			if each.Renderer == renderer && each.OursError == "" && each.TheirsError == "" {
				ours, theirs = append(ours, each.Ours), append(theirs, each.Theirs)
			}
		}
		printTime(table, renderer+", median of one", len(ours), median(ours), median(theirs))
	}
	for _, b := range r.Batches {
		printTime(table, b.Renderer+", all with what fails", b.Items, b.Ours, b.Theirs)
	}
	return table.Flush()
}

func printTime(w io.Writer, name string, items int, ours, theirs time.Duration) {
	if items == 0 {
		return
	}
	fmt.Fprintf(w, "%s\t%d\t%v\t%v\t%.2f\t\n", name, items, ours.Round(time.Millisecond), theirs.Round(time.Millisecond),
		float64(ours)/float64(max(theirs, 1)))
}

func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)/2]
}

var (
	quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|` + "`[^`]*`")
	named  = regexp.MustCompile(`\S*[/.]\S*[^\s:,.]|\b[0-9a-f]{8,}\b|\b\d+\b`)
)

// unvendored is how our error of a chart begins whose dependencies lie elsewhere.
const unvendored = "dependencies are not in charts/"

// maxReason bounds a reason, in bytes.
const maxReason = 160

// reasonOf is an error's text without places, names and numbers.
func reasonOf(err error) string {
	text := err.Error()
	var known *render.Error
	if errors.As(err, &known) {
		text = known.Message
	}
	text = strings.Join(strings.Fields(text), " ")
	if before, _, found := strings.Cut(text, unvendored); found {
		text = before + unvendored // and not which
	}
	text = named.ReplaceAllString(quoted.ReplaceAllString(text, "…"), "…")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
