// Package usercommands owns commands.yaml, with which a person adds commands to the console.
//
// It refuses to know what is done with a command and who else has keys: it is told which keys are taken.
//
// The file lies in the person's own configuration folder and nowhere else. An installation repo has none: whoever may commit there
// would run programs on the machines of all who look at the fleet. Load reads it strictly; with one mistake in it there are no
// commands, so that nobody presses a key that does something else than they think.
package usercommands

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
)

const (
	// File is where the commands are, in a person's configuration folder.
	File = "commands.yaml"
	// Kind is what that document says of itself.
	Kind = "Commands"

	maxFile     = 64 << 10
	maxCommands = 100
	maxName     = 64
)

// document is commands.yaml.
type document struct {
	fleet.TypeMeta `yaml:",inline"`
	Spec           spec `yaml:"spec"`
}

type spec struct {
	Commands []Command `yaml:"commands"`
}

// Command is one that a person added.
type Command struct {
	// Key runs it: a character, ctrl+x, alt+x, or f1 to f12.
	Key string `yaml:"key" scalar:"number"`
	// Name says what it does, as a verb.
	Name string `yaml:"name"`
	// Scope are the kinds of what the cursor is to be on.
	Scope []string `yaml:"scope"`
	// Run is a script for sh.
	Run string `yaml:"run"`
	// Terminal says that it talks to the person. Others are run beside the console, and what they say is in the log.
	Terminal bool `yaml:"terminal,omitempty"`
}

// Scopes are the kinds of what a command can be about.
func Scopes() []string {
	var words []string
	for _, kind := range []pane.Kind{
		pane.KindCluster, pane.KindService, pane.KindDeployment, pane.KindObject, pane.KindSource, pane.KindPackage, pane.KindCommit,
	} {
		words = append(words, string(kind))
	}
	return words
}

// Load reads the commands in a person's configuration folder; there are none without the file. taken says what keys do already.
// Mistakes are yamlstrict.Errors.
func Load(dir string, taken map[string]string) ([]Command, error) {
	name := filepath.Join(dir, File)
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open your commands: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read your commands: %w", err)
	}
	return Parse(name, text, taken)
}

// Parse is Load for the text of a file.
func Parse(file string, text []byte, taken map[string]string) ([]Command, error) {
	faults := &yamlstrict.Faults{}
	var list []Command
	documents := 0
	yamlstrict.Read(file, text, faults, func(d *yamlstrict.Document) bool {
		if d.Root == nil {
			return true
		}
		if documents++; documents > 1 {
			faults.Add(d.Position(), "write all commands into the first", "there is a second document")
			return false
		}
		var doc document
		d.Decode(&doc)
		check(d, &doc, taken)
		list = doc.Spec.Commands
		return true
	})
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return list, nil
}

func check(d *yamlstrict.Document, doc *document, taken map[string]string) {
	if doc.APIVersion != "" && doc.APIVersion != fleet.APIVersion {
		d.Fault("apiVersion", "write "+fleet.APIVersion, "unknown apiVersion %s", yamlstrict.Quote(doc.APIVersion))
	}
	if doc.Kind != "" && doc.Kind != Kind {
		d.Fault("kind", "write "+Kind, "%s does not belong here", yamlstrict.Quote(doc.Kind))
	}
	if len(doc.Spec.Commands) > maxCommands {
		d.Fault("spec.commands", "keep those that you use", "there are more than %d commands", maxCommands)
	}
	mine := map[string]string{}
	for i := range doc.Spec.Commands {
		c, at := &doc.Spec.Commands[i], "spec.commands["+strconv.Itoa(i)+"]"
		checkKey(d, at+".key", c, taken, mine)
		if len(c.Name) > maxName {
			d.Fault(at+".name", "say it in fewer words", "name is longer than %d bytes", maxName)
		}
		if _, written := d.Fields[at+".scope"]; written && len(c.Scope) == 0 {
			d.Fault(at+".scope", "name some of "+strings.Join(Scopes(), ", "), "it is for nothing")
		}
		for n, word := range c.Scope {
			if !slices.Contains(Scopes(), word) {
				d.Fault(at+".scope["+strconv.Itoa(n)+"]", yamlstrict.DidYouMean(word, Scopes(), "scopes"), "there is no scope %s", yamlstrict.Quote(word))
			}
		}
	}
}

// named is how keys are written that a terminal tells from all others.
var named = regexp.MustCompile(`^([!-~]|ctrl\+[a-z]|alt\+[a-z0-9]|f[1-9]|f1[0-2])$`)

// terminals says what keys are to a terminal, whatever the console makes of them.
func terminals() map[string]string {
	return map[string]string{
		"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+j": "enter", "ctrl+h": "backspace", "ctrl+q": "the terminal's own", "ctrl+s": "the terminal's own",
	}
}

func checkKey(d *yamlstrict.Document, at string, c *Command, taken, mine map[string]string) {
	const other = "choose another, such as ctrl+o, alt+1 or f2"
	switch {
	case c.Key == "": // missing, and told as such
	case !named.MatchString(c.Key):
		d.Fault(at, "write a character, ctrl+x, alt+x, or f1 to f12", "%s is no key", yamlstrict.Quote(c.Key))
	case taken[c.Key] != "":
		d.Fault(at, other, "the key %s is taken: %s", yamlstrict.Quote(c.Key), taken[c.Key])
	case terminals()[c.Key] != "":
		d.Fault(at, other, "the key %s is %s to terminals", yamlstrict.Quote(c.Key), terminals()[c.Key])
	case mine[c.Key] != "":
		d.Fault(at, other, "the key %s is taken: %s", yamlstrict.Quote(c.Key), mine[c.Key])
	default:
		mine[c.Key] = c.Name
	}
}
