// Command release makes what is shipped out of what goreleaser built: images, charts, bills of materials, provenance, signatures. Then it
// publishes and verifies them. It needs no daemon, and no network but the registry that it publishes to.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/tools/release/images"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Hour) // a registry or a signer that never ends its answer
	defer cancel()
	root := &cobra.Command{Use: "release", Short: "Make what is shipped of what was built", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newCmdImage(), newCmdFinish(), newCmdPush())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func newCmdImage() *cobra.Command {
	var out, created string
	i := images.Image{}
	cmd := &cobra.Command{
		Use:   "image --out DIR --name REPOSITORY:TAG OS/ARCH=PROGRAM...",
		Short: "Pack a program for each platform as an image: a layout DIR/NAME and an archive DIR/NAME.tar",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, programs []string) error {
			var err error
			if i.Created, err = time.Parse(time.RFC3339, created); err != nil {
				return fmt.Errorf("--created: %w", err)
			}
			for _, text := range programs {
				platform, file, _ := strings.Cut(text, "=")
				goos, arch, ok := strings.Cut(platform, "/")
				if !ok || file == "" {
					return fmt.Errorf("%q: want OS/ARCH=PROGRAM", text)
				}
				i.Programs = append(i.Programs, images.Program{OS: goos, Arch: arch, File: file})
			}
			repository, _, _ := strings.Cut(path.Base(i.Name), ":")
			layout := filepath.Join(out, repository)
			if err := os.MkdirAll(layout, 0o755); err != nil {
				return err
			}
			index, err := images.Pack(cmd.Context(), layout, &i)
			if err != nil {
				return err
			}
			if err := images.Archive(layout, layout+".tar", i.Created); err != nil {
				return err
			}
			fmt.Printf("%s@%s %s.tar\n", i.Name, index.Digest, layout)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "the `DIR` that layouts and archives lie in")
	flags.StringVar(&i.Name, "name", "", "what the image is called, `REPOSITORY:TAG`")
	flags.StringVar(&i.Description, "description", "", "what it is")
	flags.StringVar(&i.Revision, "revision", "", "the commit that it was built from")
	flags.StringVar(&created, "created", "", "when that was made, RFC 3339")
	for _, name := range []string{"out", "name", "created"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}
