// Command plural is every role of the system in one binary: the command line, the hub, the agent.
package main

import (
	"os"

	"github.com/pluralsh/plural/agent/health/lua"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/cli"
	"github.com/pluralsh/plural/cli/ui"
)

func main() {
	// The children that work on strangers' files start before anything else can read the environment or a flag.
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == "health-child" {
		os.Exit(lua.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(cli.As(os.Args[0], os.Args[1:], ui.System()))
}
