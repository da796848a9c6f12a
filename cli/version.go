package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/paging"
)

// version is what `plural version` tells.
type version struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Check is there with --check.
	Check *checked `json:"check,omitempty"`
	// Verified is there with --verify.
	Verified *verified `json:"verified,omitempty"`
}

// verified says that this program is a release's, byte for byte.
type verified struct {
	Program string `json:"program"`
	SHA256  string `json:"sha256"`
	Signer  string `json:"signer"`
}

// checked is what else runs, and what there is.
type checked struct {
	// Hub is the version of the hub that was asked; HubError says why none was.
	Hub      string `json:"hub,omitempty"`
	HubError string `json:"hubError,omitempty"`
	// Agents has how many clusters run which version of the agent.
	Agents []agents `json:"agents,omitempty"`
	// Newest is the newest release, NewestError why it is not known; Newer says that it is newer than this program.
	Newest      string `json:"newest,omitempty"`
	NewestError string `json:"newestError,omitempty"`
	Newer       bool   `json:"newer"`
}

type agents struct {
	Version  string `json:"version"`
	Clusters int    `json:"clusters"`
}

func newCmdVersion(f *cmdutil.Factory) *cobra.Command {
	var check, verify bool
	var place releasePlace
	cmd := &cobra.Command{
		Use:     "version",
		GroupID: cmdutil.GroupTool,
		Short:   "Print the program's version",
		Long: "Print the program's version. Without --check nobody is asked anything.\n\nWith --check the hub is asked for its version and " +
			"those of the clusters' agents, and GitHub, if this program was built to, for the newest release: one request that says " +
			"nothing of who asks.\n\nWith --verify the program reads its own file and says whether it is the release's, byte for byte: the " +
			"release's checksums.txt lists it, and is signed by the workflow that makes releases, or with --key by that key. Two files are " +
			"fetched, or read where --from names a folder; the signature is verified without asking anybody.",
		Example: cmdutil.Example("plural version", "plural version --check -o json", "plural version --verify"),
		Args:    cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			v := version{Version: f.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if verify {
				if v.Verified, err = place.verifySelf(cmd.Context(), f.Version); err != nil {
					return err
				}
			}
			if check {
				v.Check = lookAround(cmd.Context(), f)
			}
			return printer.Print(ui.View{
				Value: v, Names: []string{v.Version}, Screen: func(w io.Writer) error { return v.write(f, w) },
			})
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "say what the hub and the agents run, and whether there is a newer release")
	cmd.Flags().BoolVar(&verify, "verify", false, "say whether this program is the release's, as its signer says")
	place.flags(cmd)
	return cmd
}

// lookAround asks the hub and the place of releases. That one of them does not answer is no failure.
func lookAround(ctx context.Context, f *cmdutil.Factory) *checked {
	c := &checked{}
	if err := c.askHub(ctx, f); err != nil {
		c.HubError = cmdutil.Explain(err).Error()
	}
	releases := checker(f)
	newest, err := releases.Check(ctx)
	if err != nil {
		c.NewestError = err.Error()
		return c
	}
	c.Newest, c.Newer = newest.Version, releases.Newer(newest)
	return c
}

func (c *checked) askHub(ctx context.Context, f *cmdutil.Factory) error {
	hub, err := f.HubClient()
	if err != nil {
		return err
	}
	status, err := hub.Hub(ctx)
	if err != nil {
		return err
	}
	c.Hub = status.Version
	count := map[string]int{}
	for cluster, err := range client.All(ctx, hub.ClustersPage, paging.Query{Limit: paging.MaxLimit}) {
		if err != nil {
			return err
		}
		if cluster.AgentVersion != "" {
			count[cluster.AgentVersion]++
		}
	}
	for _, v := range slices.Sorted(maps.Keys(count)) {
		c.Agents = append(c.Agents, agents{v, count[v]})
	}
	return nil
}

func (v *version) write(f *cmdutil.Factory, w io.Writer) error {
	_, err := fmt.Fprintf(w, "plural %s (%s, %s)\n", v.Version, v.Go, v.Platform)
	if err == nil && v.Verified != nil {
		_, err = fmt.Fprintf(w, "verified: SHA-256 %s, signed by %s\n", v.Verified.SHA256, v.Verified.Signer)
	}
	if err != nil || v.Check == nil {
		return err
	}
	c := v.Check
	rows := [][]string{{"hub", c.Hub + c.HubError + v.differs(c.Hub)}}
	for _, a := range c.Agents {
		rows = append(rows, []string{"agents", fmt.Sprintf("%s on %d of the clusters%s", a.Version, a.Clusters, v.differs(a.Version))})
	}
	newest := c.Newest + c.NewestError
	if c.Newer {
		newest += ", newer than this program"
	}
	return f.IO.Aligned(w, []ui.Column{{Name: "PART"}, {Name: "VERSION"}}, append(rows, []string{"newest", newest}))
}

// differs says that another part is not of this program's version.
func (v *version) differs(other string) string {
	if other == "" || other == v.Version {
		return ""
	}
	return ", not this program's version"
}
