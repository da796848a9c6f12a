package paint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The skins that are built in. Auto is dark or light, as the terminal's background is.
const (
	Auto         = "auto"
	Dark         = "dark"
	Light        = "light"
	HighContrast = "high-contrast"
	NoColors     = "none"
)

// Skins are the names of those that are built in.
func Skins() []string { return []string{Auto, Dark, Light, HighContrast, NoColors} }

// Skin is what colours a person wants: those of one that is built in, but for some roles.
type Skin struct {
	// Base is the one that is built in.
	Base  string
	codes [styles]string
}

// roles are the styles by the names that a person gives them.
func roles() []string {
	return []string{
		"plain", "faint", "bold", "good", "busy", "bad", "old", "title", "head", "crumb", "rule", "key", "hint", "mark", "found", "added",
		"removed", "changed", "hunk", "name", "value", "note", "cursor",
	}
}

// RoleError says that there is no such role.
type RoleError struct{ Role string }

// Error names the roles.
func (e *RoleError) Error() string {
	return fmt.Sprintf("there is no role %q: the roles are %s", e.Role, strings.Join(roles(), ", "))
}

// Set has a role look as some words say: "bold green", "#ff8800", "black on 214", "underline".
func (s *Skin) Set(role, words string) error {
	at := slices.Index(roles(), role)
	if at < 0 {
		return &RoleError{role}
	}
	var codes []string
	behind := false
	for _, word := range strings.Fields(strings.ToLower(words)) {
		if word == "on" {
			behind = true
			continue
		}
		code, err := codeOf(word, behind)
		if err != nil {
			return err
		}
		codes, behind = append(codes, code), false
	}
	if len(codes) == 0 || behind {
		return fmt.Errorf("%q says no colour: write it as green, bold #ff8800, or black on 214", words)
	}
	s.codes[at] = strings.Join(codes, ";")
	return nil
}

// codeOf is a word as terminals know it; behind says that it is the background's.
func codeOf(word string, behind bool) (string, error) {
	attributes := map[string]string{"bold": "1", "faint": "2", "italic": "3", "underline": "4", "reverse": "7"}
	if code, ok := attributes[word]; ok && !behind {
		return code, nil
	}
	shift := 0
	if behind {
		shift = 10
	}
	name, bright := strings.CutPrefix(word, "bright-")
	if at := slices.Index([]string{"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}, name); at >= 0 {
		if bright {
			shift += 60
		}
		return strconv.Itoa(30 + shift + at), nil
	}
	if n, err := strconv.ParseUint(word, 10, 8); err == nil {
		return fmt.Sprintf("%d;5;%d", 38+shift, n), nil
	}
	if rgb, ok := strings.CutPrefix(word, "#"); ok && len(rgb) == 6 {
		if n, err := strconv.ParseUint(rgb, 16, 32); err == nil {
			return fmt.Sprintf("%d;2;%d;%d;%d", 38+shift, n>>16, n>>8&0xff, n&0xff), nil
		}
	}
	return "", fmt.Errorf("%q is no colour: name one of the sixteen (red, bright-red), 0 to 255, or #rrggbb", word)
}

// wear puts a skin over a look.
func (l *Look) wear(s *Skin) {
	if s == nil || !l.options.Color {
		return
	}
	for at, code := range s.codes {
		if code != "" {
			l.sgr[at] = "\x1b[0;" + code + "m"
			l.under[at] = strings.TrimSuffix(l.under[at], "m") + ";" + code + "m"
		}
	}
}

// contrasting has nothing be faint, and everything that has a colour bold.
func (l *Look) contrasting() {
	for at, code := range l.sgr {
		switch {
		case strings.HasSuffix(code, ";2m"):
			l.sgr[at] = strings.TrimSuffix(code, ";2m") + "m"
		case code != "" && !strings.Contains(code, ";1;") && !strings.HasSuffix(code, ";1m"):
			l.sgr[at] = "\x1b[0;1;" + strings.TrimPrefix(code, "\x1b[0;")
		}
	}
}
