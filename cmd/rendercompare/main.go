// Command rendercompare renders every kustomization and every chart of a git repository twice, here and with the programs
// kustomize and helm, and says what differs.
//
// Data passes through in one line: repository.go finds what to render and checks the commit out, ours.go and theirs.go render
// each item, diff.go compares the objects, report.go counts and prints.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pluralsh/plural/agent/render"
)

// options are what a comparison is asked for.
type options struct {
	repo, rev string
	// kustomize and helm are the programs to compare with.
	kustomize, helm string
	// kubeVersion is what charts are told on both sides, and apiVersions what they are told beyond the built-in ones.
	kubeVersion string
	apiVersions []string
	// paths narrow the items to those in or below these folders; none means all.
	paths []string
	jobs  int
	// limit is how long one run of kustomize or helm may take.
	limit time.Duration
	// timed renders everything once more, each side by itself, to measure it.
	timed bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, apis, paths, format := options{}, "", "", ""
	flags := flag.NewFlagSet("rendercompare", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.repo, "repo", "", "the `folder` of a git work tree or a bare repository")
	flags.StringVar(&o.rev, "rev", "HEAD", "the `commit` to render")
	flags.StringVar(&o.kustomize, "kustomize", "kustomize", "the `program` to compare kustomizations with")
	flags.StringVar(&o.helm, "helm", "helm", "the `program` to compare charts with")
	flags.StringVar(&o.kubeVersion, "kube-version", "v1.37.0", "the Kubernetes `version` that charts are told")
	flags.StringVar(&apis, "api-versions", "", "more API `versions` that charts are told, separated by commas")
	flags.StringVar(&paths, "paths", "", "render in and below these `folders` only, separated by commas")
	flags.StringVar(&format, "format", "text", "`text` or json")
	flags.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "how many items are rendered at once")
	flags.DurationVar(&o.limit, "limit", time.Minute, "how long one run of kustomize or helm may take")
	flags.BoolVar(&o.timed, "time", false, "render everything once more, each side by itself, to measure it")
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp // flags has said what is wrong
	}
	o.apiVersions, o.paths = fields(apis), fields(paths)
	switch {
	case o.repo == "":
		return errors.New("no repository: make compare REPO=FOLDER")
	case format != "text" && format != "json":
		return fmt.Errorf("unknown format %q: it is text or json", format)
	case o.jobs < 1:
		return fmt.Errorf("%d jobs: at least 1 is needed", o.jobs)
	}
	report, err := compareRepository(ctx, o, func(done, all int) {
		if done%100 == 0 || done == all {
			fmt.Fprintf(stderr, "%d of %d\n", done, all)
		}
	})
	if err != nil {
		return err
	}
	if format == "text" {
		return report.print(stdout)
	}
	out := json.NewEncoder(stdout)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(report)
}

// fields are the words of a list with commas.
func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
