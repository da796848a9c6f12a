package arch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// row is one line of a markdown table: a cell for each column, trimmed.
type row []string

// tableAfter returns the rows of the first table below the given heading, without header and rule.
func tableAfter(doc, heading string) ([]row, error) {
	_, section, ok := strings.Cut("\n"+doc, "\n"+heading+"\n")
	if !ok {
		return nil, fmt.Errorf("no heading %q", heading)
	}
	var rows []row
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if len(rows) > 0 || strings.HasPrefix(line, "#") {
				break
			}
			continue
		}
		rows = append(rows, cells(line))
	}
	if len(rows) < 3 {
		return nil, fmt.Errorf("no table below %q", heading)
	}
	return rows[2:], nil
}

func cells(line string) row {
	var r row
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		r = append(r, strings.TrimSpace(cell))
	}
	return r
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// codes returns what stands in code spans, which is how the tables write rooms and import paths.
func codes(cell string) []string {
	var names []string
	for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
		names = append(names, m[1])
	}
	return names
}

// arrows is what one room may import: in its program, and besides in its tests.
type arrows struct{ code, tests []string }

// roomTable reads rows of "room | may import | owns"; test-only arrows stand after "tests:" in the second cell.
func roomTable(doc string) (map[string]arrows, error) {
	rows, err := tableAfter(doc, "## Rooms")
	if err != nil {
		return nil, err
	}
	rooms := make(map[string]arrows)
	var last string
	for _, r := range rows {
		names := codes(r[0])
		if len(r) != 3 || len(names) != 1 || r[2] == "" {
			return nil, fmt.Errorf("row %q: want one room, what it may import, what it owns", r)
		}
		if names[0] <= last {
			return nil, fmt.Errorf("room %q stands after %q: sort the table", names[0], last)
		}
		last = names[0]
		code, tests, _ := strings.Cut(r[1], "tests:")
		rooms[last] = arrows{code: slices.Sorted(slices.Values(codes(code))), tests: slices.Sorted(slices.Values(codes(tests)))}
	}
	return rooms, nil
}

// law says that no room matching From may import a room matching To.
type law struct{ from, to []string }

func lawTable(doc string) ([]law, error) {
	rows, err := tableAfter(doc, "## Laws")
	if err != nil {
		return nil, err
	}
	var laws []law
	for _, r := range rows {
		if len(r) != 3 || len(codes(r[0])) == 0 || len(codes(r[1])) == 0 || r[2] == "" {
			return nil, fmt.Errorf("row %q: want rooms, what they never import, why", r)
		}
		laws = append(laws, law{from: codes(r[0]), to: codes(r[1])})
	}
	return laws, nil
}

// allowanceTable reads the arrows inside the hub that its law leaves: by room, which others it may import.
func allowanceTable(doc string) (map[string][]string, error) {
	rows, err := tableAfter(doc, "## Inside the hub")
	if err != nil {
		return nil, err
	}
	allowed := map[string][]string{}
	for _, r := range rows {
		if len(r) != 3 || len(codes(r[0])) != 1 || len(codes(r[1])) == 0 || r[2] == "" {
			return nil, fmt.Errorf("row %q: want one room, what it may import, what for", r)
		}
		allowed[codes(r[0])[0]] = codes(r[1])
	}
	return allowed, nil
}

// matches reports whether a room fits a pattern: a name, "a/..." for a and everything below, "a/*" for one level below.
func matches(pattern, room string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return room == tree || strings.HasPrefix(room, tree+"/")
	}
	if parent, ok := strings.CutSuffix(pattern, "/*"); ok {
		rest, below := strings.CutPrefix(room, parent+"/")
		return below && !strings.Contains(rest, "/")
	}
	return pattern == room
}

func matchesAny(patterns []string, room string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, room) })
}
