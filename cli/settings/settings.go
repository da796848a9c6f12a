// Package settings owns what a person has set for the program, for all fleets.
//
// It refuses to know what the program does with it.
//
// The settings are one strict YAML file, config.yaml in the person's configuration folder. Load reads it as a whole; a key that is
// not known, or a value that cannot be, is a mistake with its line. Change replaces the file, and keeps the comments in it.
package settings

import "errors"

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
)

// Settings are values by key. What is not set is not there.
type Settings map[Key]string

// Load reads the settings in a configuration folder. Without a file there are none.
func Load(dir string) (Settings, error) {
	return nil, errors.New("not there yet")
}
