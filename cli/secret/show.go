package secret

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/values"
)

// keyList is what list prints as an object.
type keyList struct {
	File string   `json:"file"`
	Keys []string `json:"keys"`
}

func newCmdList(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:     "list FILE",
		Short:   "List the keys of a YAML, JSON or env file",
		Long:    "List the keys of a YAML, JSON or env file, without their values.",
		Example: cmdutil.Example("plural secret list secrets/db.yaml", "plural secret list secrets/app.env -o json"),
		Args:    cmdutil.Exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			t, text, err := read(f, args[0])
			if err != nil {
				return err
			}
			keys, err := values.List(t.path, text)
			if err != nil {
				return err
			}
			rows := make([][]string, len(keys))
			for i, key := range keys {
				rows[i] = []string{key}
			}
			return printer.Print(ui.View{Value: keyList{t.path, keys}, Columns: []ui.Column{{Name: "KEY"}}, Rows: rows, Names: keys})
		},
	}
}

// entry is what get prints as an object.
type entry struct {
	File  string `json:"file"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

func newCmdGet(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "get FILE KEY",
		Short: "Print one value of a sealed file",
		Long: `Print one value of a sealed file, byte for byte; a terminal gets a line of its
own. Keys are written like data.password, hosts[0].name or data.tls\.key.`,
		Example: cmdutil.Example("plural secret get secrets/db.yaml stringData.password", "plural secret get secrets/app.env TOKEN -o json"),
		Args:    cmdutil.Exactly("FILE", "KEY"),
		RunE: func(_ *cobra.Command, args []string) error {
			printer, err := f.Printer("")
			if err != nil {
				return err
			}
			t, text, err := read(f, args[0])
			if err != nil {
				return err
			}
			value, err := values.Get(t.path, text, args[1])
			if err != nil {
				return err
			}
			return printer.Print(ui.View{
				Value: entry{t.path, args[1], string(value)}, Names: []string{args[1]},
				Screen: func(w io.Writer) error { return screen(w, string(value), f.IO.OutTTY) },
			})
		},
	}
}

// read is a file with its text.
func read(f *cmdutil.Factory, name string) (*target, []byte, error) {
	t, err := open(f, name)
	if err != nil {
		return nil, nil, err
	}
	text, err := t.text()
	return t, text, err
}

// screen prints a value as it is, but for a terminal, which it must not steer.
func screen(w io.Writer, value string, terminal bool) error {
	if !terminal {
		_, err := io.WriteString(w, value)
		return err
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(value, "\n"), "\n") {
		if _, err := fmt.Fprintln(w, ui.Clean(line)); err != nil {
			return err
		}
	}
	return nil
}
