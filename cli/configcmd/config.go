// Package configcmd owns `plural config`.
//
// It refuses to know where settings lie and which ones there are: cli/settings does.
package configcmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/yamlstrict"
)

// NewCmdConfig is `plural config`.
func NewCmdConfig(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "config",
		Short:   "Look after your settings of this program",
		GroupID: cmdutil.GroupTool,
		Long: "Your settings of this program lie in one file, config.yaml, and are the same for every fleet. A flag wins over them, and so " +
			"does an environment variable of ours: plural help environment. What a fleet is like stands in its installation repo, never here.",
		Example: cmdutil.Example("plural config list", "plural config set hub https://hub.example.com"),
	}, newCmdList(f), newCmdGet(f), newCmdSet(f), newCmdUnset(f), newCmdEdit(f), newCmdPath(f))
}

// setting is one, for programs.
type setting struct {
	Key   settings.Key `json:"key"`
	Value string       `json:"value"`
	// From is environment, config or default.
	From  string `json:"from"`
	About string `json:"about"`
}

func effective(f *cmdutil.Factory, s settings.Setting) setting {
	value, from := f.SettingFrom(s.Key)
	return setting{s.Key, value, from, s.About}
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the settings, with where their values come from",
		Example: cmdutil.Example("plural config list", "plural config list -o json"),
		Args:    cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			if _, err := settings.Load(f.ConfigDir()); err != nil {
				return Explain(err)
			}
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			list := []setting{}
			view := ui.View{Columns: []ui.Column{{Name: "KEY"}, {Name: "VALUE"}, {Name: "FROM"}, {Name: "ABOUT", Wide: true}}}
			for _, s := range settings.All() {
				e := effective(f, s)
				list = append(list, e)
				view.Names = append(view.Names, "setting/"+string(s.Key))
				view.Rows = append(view.Rows, []string{string(e.Key), cmdutil.OrDash(e.Value), e.From, e.About})
			}
			view.Value = list
			return printer.Print(view)
		},
	}
}

func newCmdGet(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "get KEY",
		Short:   "Print the value of a setting",
		Example: cmdutil.Example("plural config get hub", "plural config get color -o json"),
		Args:    cmdutil.Exactly("KEY"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := known(args[0])
			if err != nil {
				return err
			}
			if _, err := settings.Load(f.ConfigDir()); err != nil {
				return Explain(err)
			}
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			e := effective(f, s)
			return printer.Print(ui.View{
				Value: e, Names: []string{"setting/" + string(e.Key)},
				Columns: []ui.Column{{Name: "VALUE"}}, Rows: [][]string{{e.Value}},
			})
		},
	}
}

func newCmdSet(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "set KEY VALUE",
		Short:   "Change a setting",
		Example: cmdutil.Example("plural config set output wide", "plural config set editor 'code --wait'"),
		Args:    cmdutil.Exactly("KEY", "VALUE"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := known(args[0])
			if err != nil {
				return err
			}
			if err := s.Check(args[1]); err != nil {
				return &ui.Err{Msg: err.Error(), Fix: "plural config list -o wide", Doc: ui.DocSettings, Err: err}
			}
			return change(f, func(text []byte) ([]byte, error) { return settings.Set(text, s.Key, args[1]) })
		},
	}
}

func newCmdUnset(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "unset KEY",
		Short:   "Go back to the default of a setting",
		Example: cmdutil.Example("plural config unset hub", "plural config unset noUpdateNotifier"),
		Args:    cmdutil.Exactly("KEY"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := known(args[0])
			if err != nil {
				return err
			}
			return change(f, func(text []byte) ([]byte, error) { return settings.Unset(text, s.Key) })
		},
	}
}

// change has another text of the settings saved.
func change(f *cmdutil.Factory, edit func(text []byte) ([]byte, error)) error {
	text, err := settings.Text(f.ConfigDir())
	if err == nil {
		_, err = settings.Parse(settings.Path(f.ConfigDir()), text)
	}
	if err == nil {
		text, err = edit(text)
	}
	if err == nil {
		err = settings.Save(f.ConfigDir(), text)
	}
	return Explain(err)
}

func newCmdPath(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "path",
		Short:   "Print where the settings lie",
		Example: cmdutil.Example("plural config path", "plural config path > where"),
		Args:    cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(f.IO.Out, settings.Path(f.ConfigDir()))
			return err
		},
	}
}

// known is the setting that a person named.
func known(name string) (settings.Setting, error) {
	if s, ok := settings.Find(settings.Key(name)); ok {
		return s, nil
	}
	var names []string
	for _, s := range settings.All() {
		names = append(names, string(s.Key))
	}
	return settings.Setting{}, &ui.Err{
		Msg: fmt.Sprintf("there is no setting %q", name), Fix: yamlstrict.DidYouMean(name, names, "settings"), Doc: ui.DocSettings,
	}
}

// Explain tells mistakes in the settings with their places.
func Explain(err error) error {
	var mistakes yamlstrict.Errors
	if !errors.As(err, &mistakes) {
		return err
	}
	told := cmdutil.Problems("the file with your settings", cmdutil.FleetProblems(mistakes))
	told.Fix, told.Err = "plural config edit", err
	return told
}
