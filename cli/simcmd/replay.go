package simcmd

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/simcmd/replay"
	"github.com/pluralsh/plural/cli/ui"
)

// newCmdReplay is `plural sim replay`.
func newCmdReplay(f *cmdutil.Factory) *cobra.Command {
	o, commits := replay.Options{Workers: runtime.NumCPU()}, ""
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Compare keys with rendered output over a git history",
		Long: "Compare keys with rendered output over a repository's history.\n\n" +
			"At each commit every service is resolved to its key, and rendered from the whole repository. A service whose output\n" +
			"changed without its key would have been missed by its clusters; one whose key changed without its output was\n" +
			"rendered for nothing. The services are those of an installation repo, without what other repositories hold; in any\n" +
			"other repository each folder with a kustomization, a chart or manifests is one. Ctrl-C prints what was found by then.",
		Example: cmdutil.Example(
			"plural sim replay --repo ~/src/podinfo --range v6.5.0..v6.9.0",
			"plural sim replay --repo . --range HEAD~50..HEAD --path apps -o json"),
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var ok bool
			if o.From, o.To, ok = strings.Cut(commits, ".."); !ok || o.From == "" {
				return &ui.Err{Msg: "which commits?", Fix: "--range FROM..TO"}
			}
			if o.To == "" {
				o.To = "HEAD"
			}
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			o.Render = []string{program, "render-child"}
			o.Progress = func(done, all int, commit string) {
				f.Say("commit %d of %d: %s", done, all, cmdutil.ShortCommit(commit))
			}
			result, ended := replay.Run(cmd.Context(), o)
			if result == nil {
				return ended
			}
			if err := printer.Print(showReplay(f, result)); err != nil || ended != nil {
				return errors.Join(ended, err)
			}
			if missed := len(result.FalseNegatives) + len(result.Incomplete); missed > 0 {
				return &ui.Err{Msg: fmt.Sprintf("%d times a cluster would not have got what the repository renders to", missed), Fix: "the commits are above: look at what resolves them, plural render --commit COMMIT"}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Repo, "repo", ".", "the `FOLDER` of a git repository")
	cmd.Flags().StringVar(&commits, "range", "", "the commits, as `FROM..TO`")
	cmd.Flags().StringSliceVar(&o.Paths, "path", nil, "look at services below this `FOLDER` only; may be repeated")
	return cmd
}

// replayed is what programs get.
type replayed struct {
	*replay.Result
	Ratio float64 `json:"keysPerOutput"`
}

func showReplay(f *cmdutil.Factory, r *replay.Result) ui.View {
	return ui.View{Value: replayed{r, r.Ratio()}, Screen: func(w io.Writer) error {
		rows := [][]string{
			{"commits", strconv.Itoa(r.Commits)},
			{"services", fmt.Sprintf("%d, of which %d never rendered", r.Services, r.Unrendered)},
			{"steps compared", strconv.Itoa(r.Steps)},
			{"keys changed", strconv.Itoa(r.KeysChanged)},
			{"outputs changed", strconv.Itoa(r.OutputsChanged)},
			{"work factor", fmt.Sprintf("%.2f keys changed for each output", r.Ratio())},
			{"false negatives", strconv.Itoa(len(r.FalseNegatives))},
			{"false positives", strconv.Itoa(len(r.FalsePositives))},
			{"incomplete bundles", strconv.Itoa(len(r.Incomplete))},
			{"unrepeatable", strconv.Itoa(len(r.Unrepeatable))},
			{"renders", strconv.Itoa(r.Renders)},
		}
		for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
			rows = append(rows, []string{"never rendered", fmt.Sprintf("%d: %s", r.Reasons[reason], reason)})
		}
		for _, group := range []struct {
			name string
			list []replay.Offender
		}{{"false negative", r.FalseNegatives}, {"incomplete bundle", r.Incomplete}, {"false positive", r.FalsePositives}} {
			for _, each := range group.list {
				rows = append(rows, []string{group.name, each.Service + " at " + cmdutil.ShortCommit(each.Commit)})
			}
		}
		return f.IO.Aligned(w, []ui.Column{{Name: "REPLAY"}, {Name: ""}}, rows)
	}}
}
