// Package settings owns a person's settings of the program.
//
// It refuses to know what the program does with it.
//
// The settings are one strict YAML file, config.yaml in the person's configuration folder. Load reads it as a whole: a key that is
// not known, or a value that cannot be, is a mistake with its line. Set and Unset give the text that the file then has, with the
// comments that stand in it, and Save puts that in its place.
package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/pluralsh/plural/internal/replace"
	"github.com/pluralsh/plural/internal/yamlstrict"
)

const (
	fileName = "config.yaml"
	// MaxFile bounds the file, in bytes.
	MaxFile = 64 << 10
)

// Key names a setting.
type Key string

// The settings there are.
const (
	Hub              Key = "hub"
	Output           Key = "output"
	Color            Key = "color"
	Pager            Key = "pager"
	Editor           Key = "editor"
	ASCII            Key = "ascii"
	NoUpdateNotifier Key = "noUpdateNotifier"
	NoMouse          Key = "noMouse"
	Skin             Key = "skin"
)

// Setting is what a key stands for.
type Setting struct {
	Key Key
	// Env is the environment variable that wins over the file.
	Env string
	// About says what it does, on one line; Default is how it is without it.
	About, Default string
	// Words are all values that there can be; none: any text.
	Words []string
}

// All are the settings there are.
func All() []Setting {
	return []Setting{
		{Hub, "PLURAL_HUB", "the hub's URL, where no installation repo says one", "", nil},
		{Output, "PLURAL_OUTPUT", "how results are printed where -o does not say", "table", []string{"table", "wide", "json", "yaml"}},
		{Color, "PLURAL_COLOR", "when to use colors", "auto", []string{"auto", "always", "never"}},
		{Pager, "PLURAL_PAGER", "the program that shows long output", "$PAGER, or less -FRX", nil},
		{Editor, "PLURAL_EDITOR", "the program that texts are edited with", "$VISUAL, $EDITOR, or vi", nil},
		{ASCII, "PLURAL_ASCII", "whether to draw with ASCII alone", "false", []string{"true", "false"}},
		{NoUpdateNotifier, "PLURAL_NO_UPDATE_NOTIFIER", "whether never to look for a newer release", "false", []string{"true", "false"}},
		{NoMouse, "PLURAL_NO_MOUSE", "whether the console leaves the mouse to the terminal", "false", []string{"true", "false"}},
		{Skin, "PLURAL_SKIN", "the console's colors: auto, dark, light, high-contrast, none, or a file in skins/", "auto", nil},
	}
}

// Find is the setting of a key.
func Find(key Key) (Setting, bool) {
	for _, s := range All() {
		if s.Key == key {
			return s, true
		}
	}
	return Setting{}, false
}

// Check says what is wrong with a value.
func (s Setting) Check(value string) error {
	switch {
	case value == "":
		return fmt.Errorf("%s has no value", s.Key)
	case s.Words != nil && !slices.Contains(s.Words, value):
		return fmt.Errorf("%s is never %q", s.Key, value)
	case s.Key == Hub:
		return checkHub(value)
	}
	return nil
}

func checkHub(value string) error {
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("hub is not an address: write it as https://HOST")
	case u.User != nil:
		return fmt.Errorf("hub %s carries a credential: a token belongs in PLURAL_TOKEN, or to plural auth login", u.Host)
	}
	return nil
}

// Settings are values by key. What is not set is not there.
type Settings map[Key]string

// document is config.yaml.
type document struct {
	Hub              string `yaml:"hub,omitempty"`
	Output           string `yaml:"output,omitempty"`
	Color            string `yaml:"color,omitempty"`
	Pager            string `yaml:"pager,omitempty"`
	Editor           string `yaml:"editor,omitempty"`
	ASCII            bool   `yaml:"ascii,omitempty"`
	NoUpdateNotifier bool   `yaml:"noUpdateNotifier,omitempty"`
	NoMouse          bool   `yaml:"noMouse,omitempty"`
	Skin             string `yaml:"skin,omitempty"`
	// Aliases are command lines by the name that stands for them.
	Aliases map[string]string `yaml:"aliases,omitempty"`
}

func (d *document) settings() Settings {
	set := Settings{
		Hub: d.Hub, Output: d.Output, Color: d.Color, Pager: d.Pager, Editor: d.Editor, Skin: d.Skin,
	}
	for key, value := range map[Key]bool{ASCII: d.ASCII, NoUpdateNotifier: d.NoUpdateNotifier, NoMouse: d.NoMouse} {
		if value {
			set[key] = strconv.FormatBool(value)
		}
	}
	for name, line := range d.Aliases {
		set[alias(name)] = line
	}
	for key, value := range set {
		if value == "" {
			delete(set, key)
		}
	}
	return set
}

// Path is where the settings lie in a configuration folder.
func Path(dir string) string { return filepath.Join(dir, fileName) }

// Load reads the settings in a configuration folder. Without a file there are none. Mistakes are yamlstrict.Errors.
func Load(dir string) (Settings, error) {
	text, err := Text(dir)
	if err != nil {
		return nil, err
	}
	return Parse(Path(dir), text)
}

// Text is the file as it stands; nothing where there is none.
func Text(dir string) ([]byte, error) {
	file, err := os.Open(Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err == nil && len(text) > MaxFile {
		err = fmt.Errorf("%s is larger than %d bytes", Path(dir), MaxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return text, nil
}

// Parse reads the settings from a text, of which file is the name. Mistakes are yamlstrict.Errors.
func Parse(file string, text []byte) (Settings, error) {
	faults := &yamlstrict.Faults{}
	set, documents := Settings{}, 0
	yamlstrict.Read(file, text, faults, func(d *yamlstrict.Document) bool {
		documents++
		switch {
		case d.Root == nil:
			return true
		case documents > 1:
			d.Faults.Add(d.Position(), "write all settings into the first", "there is a second document")
			return false
		}
		var doc document
		d.Decode(&doc)
		set = doc.settings()
		for _, s := range All() {
			value, written := set[s.Key]
			if err := s.Check(value); written && err != nil {
				d.Fault(string(s.Key), fix(s), "%v", err)
			}
		}
		return true
	})
	return set, faults.Err()
}

// fix says which values there are.
func fix(s Setting) string {
	if s.Words == nil {
		return ""
	}
	text := "it is one of"
	for i, word := range s.Words {
		if i > 0 {
			text += ","
		}
		text += " " + word
	}
	return text
}

// Save makes text the settings. They must be without mistakes.
func Save(dir string, text []byte) error {
	if _, err := Parse(Path(dir), text); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	defer root.Close()
	if err := replace.File(root, fileName, text, 0o600); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}
