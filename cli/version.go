package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// version is what `plural version` tells.
type version struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newCmdVersion(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		GroupID: cmdutil.GroupTool,
		Short:   "Print the program's version",
		Example: cmdutil.Example("plural version", "plural version -o json"),
		Args:    cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			v := version{f.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return printer.Print(ui.View{
				Value: v,
				Screen: func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "plural %s (%s, %s)\n", v.Version, v.Go, v.Platform)
					return err
				},
				Names: []string{v.Version},
			})
		},
	}
}
