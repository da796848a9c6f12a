package cli

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/plugin"
)

// runPlugin puts a program plural-NAME in the place of this one, where NAME is the first word and no command of ours. It returns
// when there is none: then the command line is ours to read, with its mistakes.
func runPlugin(f *cmdutil.Factory, root *cobra.Command, args []string) error {
	flags := pflag.NewFlagSet(root.Name(), pflag.ContinueOnError)
	flags.AddFlagSet(root.PersistentFlags())
	flags.SetInterspersed(false)
	flags.Usage = func() {}
	if flags.Parse(args) != nil || flags.NArg() == 0 || plugin.Taken(root)(flags.Arg(0)) {
		return nil
	}
	found, ok := plugin.Find(f.Getenv("PATH"), flags.Arg(0))
	if !ok {
		return nil
	}
	return found.Exec(flags.Args()[1:], pluginEnvironment(f))
}

// pluginEnvironment is this program's, with what it knows of hub and repo.
func pluginEnvironment(f *cmdutil.Factory) []string {
	environ := append(os.Environ(), f.OwnEnvironment()...)
	set := func(name, value string, err error) {
		if err == nil && value != "" {
			environ = append(slices.DeleteFunc(environ, func(v string) bool {
				return len(v) > len(name) && v[:len(name)+1] == name+"="
			}), name+"="+value)
		}
	}
	hub, err := f.HubAddress()
	if err == nil {
		_, err = f.HubToken(hub) // a plugin takes the variable for what the person named
	}
	set("PLURAL_HUB", hub, err)
	dir, err := filepath.Abs(f.WorkDir())
	set("PLURAL_REPO", dir, err)
	self, err := os.Executable()
	set("PLURAL_PROGRAM", self, err)
	return environ
}
