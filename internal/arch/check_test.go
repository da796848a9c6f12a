package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// differences compares the arrows that are drawn with those that are there, and both with the laws, which leave what is allowed.
func differences(drawn map[string]arrows, laws []law, allowed map[string][]string, code []*pkg) []string {
	there := make(map[string]arrows)
	for _, p := range code {
		a := there[room(p.dir)]
		a.code = append(a.code, p.code...)
		a.tests = append(a.tests, p.tests...)
		there[room(p.dir)] = a
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if _, ok := drawn[name]; !ok {
			out = append(out, fmt.Sprintf("%s: no row in the table: add | `%s` | %s | what it owns |", name, name, cell(there[name])))
			continue
		}
		out = append(out, roomDifferences(name, drawn[name], there[name])...)
		out = append(out, broken(name, laws, allowed[name], there[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(drawn)) {
		if _, ok := there[name]; !ok {
			out = append(out, name+": the table has a room that the code does not have")
		}
	}
	return out
}

func roomDifferences(name string, drawn, there arrows) []string {
	var out []string
	for _, r := range missing(there.code, drawn.code) {
		out = append(out, fmt.Sprintf("%s -> %s: imported, not in the table", name, r))
	}
	for _, r := range missing(drawn.code, there.code) {
		out = append(out, fmt.Sprintf("%s -> %s: in the table, imported by nobody", name, r))
	}
	for _, r := range missing(there.tests, slices.Concat(drawn.code, drawn.tests)) {
		out = append(out, fmt.Sprintf("%s -> %s: imported by a test, not in the table after \"tests:\"", name, r))
	}
	for _, r := range missing(drawn.tests, there.tests) {
		out = append(out, fmt.Sprintf("%s -> %s: in the table after \"tests:\", imported by no test", name, r))
	}
	return out
}

// broken returns the arrows that a law forbids. A test may use the real thing next door, so laws hold for programs.
func broken(name string, laws []law, allowed []string, there arrows) []string {
	var out []string
	for _, l := range laws {
		if !matchesAny(l.from, name) {
			continue
		}
		for _, r := range missing(there.code, allowed) {
			if matchesAny(l.to, r) {
				out = append(out, fmt.Sprintf("%s -> %s: against the law that %s never import %s",
					name, r, strings.Join(l.from, ", "), strings.Join(l.to, ", ")))
			}
		}
	}
	return out
}

// missing returns what is in have and not in want, once each, in order.
func missing(have, want []string) []string {
	out := slices.DeleteFunc(slices.Clone(have), func(r string) bool { return slices.Contains(want, r) })
	slices.Sort(out)
	return slices.Compact(out)
}

// cell writes arrows the way the table does, for pasting.
func cell(a arrows) string {
	code := quoted(missing(a.code, nil))
	tests := quoted(missing(a.tests, a.code))
	switch {
	case code == "" && tests == "":
		return "nothing of ours"
	case tests == "":
		return code
	case code == "":
		return "tests: " + tests
	default:
		return code + "; tests: " + tests
	}
}

func quoted(rooms []string) string {
	var out []string
	for _, r := range rooms {
		out = append(out, "`"+r+"`")
	}
	return strings.Join(out, ", ")
}

// commentFault says what is wrong with a package's comment, or nothing.
func commentFault(p *pkg) string {
	if p.name == "" { // test files only: an external test package, documented by its tests
		return ""
	}
	if len(p.docs) != 1 {
		return fmt.Sprintf("%s: %d package comments, want one", p.dir, len(p.docs))
	}
	want := "Package " + p.name + " "
	if p.name == "main" {
		want = "Command " + commandName(p.dir) + " "
	}
	first, _, _ := strings.Cut(strings.ReplaceAll(p.docs[0], "\n", " "), ". ")
	if !strings.HasPrefix(first, want) {
		return fmt.Sprintf("%s: package comment starts %.40q, want %q and what it owns", p.dir, first, want)
	}
	return ""
}

func commandName(dir string) string { return dir[strings.LastIndex(dir, "/")+1:] }
