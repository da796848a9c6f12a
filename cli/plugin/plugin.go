// Package plugin owns commands that other programs add.
//
// It refuses to know what such a program does.
//
// A word that is no command of ours is looked for in the folders of PATH, in their order; folders that are not absolute, the
// working directory above all, are left out, so that nobody's clone brings a command along. The program then takes this one's
// place: its input, its output, its signals and its exit code are those of plural NAME.
package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Prefix is how the files are called.
const Prefix = "plural-"

// Plugin is a program that was found.
type Plugin struct {
	// Name is the word after plural.
	Name string `json:"name"`
	// Path is the file, absolute.
	Path string `json:"path"`
	// Shadowed says why it never runs: a command of the same name, or a file that comes earlier on PATH. Empty: it does.
	Shadowed string `json:"shadowed,omitempty"`
}

// Find is the program for a name, in the folders of path, which is PATH's value.
func Find(path, name string) (Plugin, bool) {
	if !isName(name) {
		return Plugin{}, false
	}
	for _, dir := range folders(path) {
		if file := filepath.Join(dir, Prefix+name); runs(file) {
			return Plugin{Name: name, Path: file}, true
		}
	}
	return Plugin{}, false
}

// All are the programs in the folders of path, by name, the one that runs before those that it shadows. Taken says which names
// are commands of ours.
func All(path string, taken func(name string) bool) []Plugin {
	first := map[string]string{}
	all := []Plugin{}
	for _, dir := range folders(path) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // as a shell does
		}
		for _, entry := range entries {
			name, ok := strings.CutPrefix(entry.Name(), Prefix)
			file := filepath.Join(dir, entry.Name())
			if !ok || !isName(name) || !runs(file) {
				continue
			}
			p := Plugin{Name: name, Path: file, Shadowed: first[name]}
			if taken(name) {
				p.Shadowed = "plural " + name
			}
			if first[name] == "" {
				first[name] = file
			}
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b Plugin) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Exec puts the program in this one's place. It returns only when it could not.
func (p Plugin) Exec(args, environ []string) error {
	if err := syscall.Exec(p.Path, append([]string{p.Path}, args...), environ); err != nil {
		return fmt.Errorf("run plugin %s: %w", p.Path, err)
	}
	return nil
}

// isName says whether a word can be a part of a file's name, and is no flag.
func isName(name string) bool {
	return name != "" && !strings.HasPrefix(name, "-") && !strings.HasPrefix(name, ".") &&
		strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// folders are those of path that mean the same wherever one stands, each once.
func folders(path string) []string {
	var dirs []string
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) && !slices.Contains(dirs, filepath.Clean(dir)) {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	return dirs
}

func runs(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
