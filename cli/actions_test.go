package cli

import (
	"io"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/tui/act"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/ui"
)

func TestWhatTheConsoleRunsAreCommandsWithTheirFlags(t *testing.T) {
	world := &pane.World{Context: t.Context(), Fleet: model.New(now), Look: paint.NewLook(paint.Options{}), Now: now}
	desk := act.New(world, act.Runner{Program: "plural"})
	defer desk.Close()
	tried := 0
	for _, subjects := range [][]pane.Subject{
		nil,
		{{Kind: pane.KindService, Name: "web", Service: "web", Token: "t"}},
		{{Kind: pane.KindService, Name: "web", Service: "web", Suspended: true}},
		{{Kind: pane.KindDeployment, Name: "web", Service: "web", Cluster: "edge-1", Token: "t"}},
		{{Kind: pane.KindCluster, Name: "edge-1", Cluster: "edge-1", Token: "t"}},
		{{Kind: pane.KindSource, Name: "podinfo"}},
		{{Kind: pane.KindPackage, Name: "redis"}},
		{{Kind: pane.KindCommit, Name: "3f2c91a"}},
		{{Kind: pane.KindObject, Name: "web", Cluster: "edge-1", Object: &v1.Object{Kind: "Pod", Resource: "pods", Name: "web"}}},
	} {
		for _, a := range desk.Actions() {
			if a.Commands == nil || !a.Applies(subjects) {
				continue
			}
			commands, err := a.Commands(subjects)
			if err != nil {
				continue // k9s is not installed
			}
			for _, args := range commands {
				if a.Care >= act.Look {
					args = append(args, "--dry-run")
				}
				tried++
				knownCommand(t, args)
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d commands were tried", tried)
	}
}

// knownCommand fails the test unless args are a command with flags and arguments that it takes.
func knownCommand(t *testing.T, args []string) {
	t.Helper()
	streams := &ui.Streams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard}
	f := &cmdutil.Factory{IO: streams, Getenv: func(string) string { return "" }, Now: now}
	cmd, rest, err := newRoot(f).Find(args)
	if err != nil || !cmd.Runnable() || cmd.HasSubCommands() {
		t.Errorf("plural %s is no command: %v", strings.Join(args, " "), err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("plural %s: %v", strings.Join(args, " "), err)
		return
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		t.Errorf("plural %s: %v", strings.Join(args, " "), err)
	}
}
