// Package local owns the commands around the fleets of this machine.
//
// A cluster that belongs to no fleet is to them a fleet of its own, which has nothing else.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	installer "github.com/pluralsh/plural/installer/local"
	"github.com/pluralsh/plural/internal/supervise"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace"
)

// NewCmdLocal is `plural local`.
func NewCmdLocal(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "local",
		Short:   "Look after the fleets of this machine",
		GroupID: cmdutil.GroupTool,
		Example: cmdutil.Example("plural local list", "plural local create scratch", "plural local kubeconfig edge-1 > kubeconfig"),
	}, newCmdCreate(f), newCmdDelete(f), newCmdList(f), newCmdKubeconfig(f), newCmdStop(f, "stop", true), newCmdStop(f, "start", false), newCmdSupervise(f))
}

// Existing is the local fleet of the installation repo in dir.
func Existing(dir string) (installer.Fleet, error) {
	at, err := installer.At(dir, cmdutil.LocalState())
	if err != nil {
		return at, err
	}
	if _, err := os.Stat(at.Dir); err != nil {
		return at, &ui.Err{
			Msg: fmt.Sprintf("%s has no local fleet", at.Repo), Fix: "plural up --local " + dir + ", or plural local list", Doc: ui.DocLocal, Err: err,
		}
	}
	return at, nil
}

// current is the fleet that is meant: that of the repo around the working directory, else the only one there is.
func current(f *cmdutil.Factory) (installer.Fleet, error) {
	if repo, err := f.Repo(); err == nil {
		return Existing(repo.Root())
	}
	all, err := installer.All(cmdutil.LocalState())
	if err != nil {
		return installer.Fleet{}, err
	}
	all = slices.DeleteFunc(all, func(at installer.Fleet) bool {
		parts, err := at.Parts()
		return err == nil && len(parts) == 0 // it was taken down
	})
	switch len(all) {
	case 0:
		return installer.Fleet{}, &ui.Err{Msg: "there is no local fleet", Fix: "plural up --local", Doc: ui.DocLocal}
	case 1:
		return all[0], nil
	}
	return installer.Fleet{}, &ui.Err{Msg: fmt.Sprintf("there are %d local fleets", len(all)), Fix: "name one by its repo: -C DIR"}
}

// holding is the fleet whose cluster is meant by a name: the current one, where that has it or nothing else does.
func holding(f *cmdutil.Factory, cluster string) (installer.Fleet, error) {
	at, err := current(f)
	if err == nil {
		if names, err := at.Clusters(); err == nil && slices.Contains(names, cluster) {
			return at, nil
		}
	}
	if workspace.CheckName(cluster) == nil {
		if one, ok, aloneErr := alone(cluster); aloneErr == nil && ok {
			return one, nil
		}
	}
	return at, err
}

// Programs are the binaries that make up a local fleet.
type Programs struct {
	Plural, Localkube string
	Agent             []string
}

// FindPrograms finds them beside this program, or on PATH.
func FindPrograms() (Programs, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return Programs{}, fmt.Errorf("find this program: %w", err)
	}
	p := Programs{Plural: self, Agent: []string{self, "agent", "run"}}
	if agent := beside(self, "plural-agent"); agent != "" {
		p.Agent = []string{agent, "run"}
	}
	if p.Localkube = beside(self, "localkube"); p.Localkube == "" {
		if p.Localkube, err = exec.LookPath("localkube"); err != nil {
			return p, &ui.Err{
				Msg: "localkube is not installed", Cause: "it is the program that serves local clusters, a binary of its own",
				Fix: "put it beside " + self + " or on PATH (in a clone: make build)", Doc: ui.DocLocal, Err: err,
			}
		}
	}
	return p, nil
}

func beside(self, name string) string {
	path := filepath.Join(filepath.Dir(self), name)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}

// part is a process of a local fleet, for programs.
type part struct {
	Name     string    `json:"name"`
	Phase    string    `json:"phase"`
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	Exit     string    `json:"exit,omitempty"`
	Log      string    `json:"log"`
	// Repo is empty for a cluster that belongs to no fleet.
	Repo string `json:"repo"`
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the processes of the fleets of this machine",
		Example: cmdutil.Example("plural local list", "plural local list -o json"),
		Args:    cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			fleets, err := installer.All(cmdutil.LocalState())
			if err != nil {
				return err
			}
			alone, err := installer.AllAlone(cmdutil.LocalState())
			if err != nil {
				return err
			}
			fleets = append(fleets, alone...)
			parts := []part{}
			for _, at := range fleets {
				list, err := at.Parts()
				if err != nil {
					return err
				}
				for i := range list {
					parts = append(parts, describe(at, &list[i]))
				}
			}
			return show(f, parts)
		},
	}
}

func describe(at installer.Fleet, p *installer.Part) part {
	out := part{
		Name: p.Name, PID: p.PID, Since: p.Since, Restarts: p.Restarts, Exit: p.Exit, Log: at.Log(p.Name), Repo: at.Repo,
		Phase: "down",
	}
	switch {
	case p.PID != 0:
		out.Phase = "running"
	case p.Stopped:
		out.Phase = "stopped"
	}
	return out
}

func show(f *cmdutil.Factory, parts []part) error {
	printer, err := f.Printer("table")
	if err != nil {
		return err
	}
	view := ui.View{Value: parts, Columns: []ui.Column{
		{Name: "NAME"}, {Name: "PHASE"}, {Name: "PID"}, {Name: "RESTARTS"}, {Name: "REPO"}, {Name: "LOG", Wide: true},
	}}
	for i := range parts {
		p := &parts[i]
		view.Names = append(view.Names, "process/"+p.Name)
		view.Rows = append(view.Rows, []string{p.Name, p.Phase, strconv.Itoa(p.PID), strconv.Itoa(p.Restarts), cmdutil.OrDash(p.Repo), p.Log})
	}
	if len(parts) == 0 {
		view.Note = "no local fleet; plural up --local makes one"
	}
	return f.Print(printer, view)
}

func newCmdKubeconfig(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "kubeconfig NAME",
		Short:   "Print the kubeconfig of a local cluster",
		Example: cmdutil.Example("plural local kubeconfig edge-1 > kubeconfig", "plural local kubeconfig mgmt -C ./fleet"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			at, err := holding(f, args[0])
			if err != nil {
				return err
			}
			raw, err := os.ReadFile(at.Kubeconfig(args[0]))
			if err != nil {
				names, _ := at.Clusters()
				return &ui.Err{
					Msg: fmt.Sprintf("no local cluster %q", args[0]), Fix: fmt.Sprintf("one of %v", names), Doc: ui.DocNotFound, Err: err,
				}
			}
			_, err = f.IO.Out.Write(raw)
			return err
		},
	}
}

func newCmdStop(f *cmdutil.Factory, verb string, stopped bool) *cobra.Command {
	short := map[bool]string{true: "Take a process of a local fleet down", false: "Bring a stopped process up again"}[stopped]
	return &cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Example: cmdutil.Example("plural local "+verb+" hub", "plural local "+verb+" cluster-edge-1"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := holding(f, strings.TrimPrefix(args[0], installer.ClusterPart))
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 20*time.Second)
			defer cancel()
			err = at.Stop(ctx, args[0], stopped)
			if errors.Is(err, installer.ErrDown) {
				told := &ui.Err{Msg: "the fleet is down", Fix: "plural up --local " + at.Repo, Doc: ui.DocLocal, Err: err}
				if at.Repo == "" {
					told.Msg, told.Fix = "the cluster is down", "plural local create "+filepath.Base(at.Dir)
				}
				return told
			}
			if errors.Is(err, fs.ErrNotExist) {
				if parts, listed := at.Parts(); listed == nil {
					return unknown(args[0], parts, err)
				}
			}
			return err
		},
	}
}

// unknown is about a process that a fleet has not, but maybe one that was meant: people know their clusters by name.
func unknown(name string, parts []installer.Part, err error) *ui.Err {
	told := &ui.Err{Msg: fmt.Sprintf("no process %q", name), Fix: "plural local list has all", Doc: ui.DocNotFound, Err: err}
	var names, meant []string
	for i := range parts {
		names = append(names, parts[i].Name)
	}
	for _, part := range []string{installer.ClusterPart, installer.AgentPart} {
		if slices.Contains(names, part+name) {
			meant = append(meant, part+name)
		}
	}
	if near, ok := yamlstrict.Nearest(name, names); ok && len(meant) == 0 {
		meant = []string{near}
	}
	if len(meant) > 0 {
		told.Fix = "did you mean " + strings.Join(meant, " or ") + "? " + told.Fix
	}
	return told
}

// newCmdSupervise is what up starts in the background.
func newCmdSupervise(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:    "supervise FOLDER",
		Short:  "Run the processes of a local fleet",
		Hidden: true,
		Args:   cmdutil.Exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := supervise.Run(cmd.Context(), supervise.Dir(args[0]), f.Logger())
			if errors.Is(err, supervise.ErrRunning) {
				return nil // another up was faster
			}
			return err
		},
	}
}
