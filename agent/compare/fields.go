package compare

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// walker goes through two values side by side.
type walker struct {
	// hide masks a value of side 0 (before) or 1 (after).
	hide func(side int, path []string, value any) any
	// name masks a key, or what tells an item from others; nil masks nothing.
	name  func(text string) string
	found []Field
}

// compare tells of all that differs at a path. Path elements are keys; those of lists are in brackets. A null is as good as
// nothing, as it is to the API server.
func (w *walker) compare(path []string, before, after any) {
	switch {
	case equal(before, after):
		return
	case before == nil:
		w.tell(path, Added, nil, after)
		return
	case after == nil:
		w.tell(path, Deleted, before, nil)
		return
	}
	switch old := before.(type) {
	case map[string]any:
		if now, ok := after.(map[string]any); ok {
			w.maps(path, old, now)
			return
		}
	case []any:
		if now, ok := after.([]any); ok {
			w.lists(path, old, now)
			return
		}
	}
	w.tell(path, Changed, before, after)
}

func (w *walker) maps(path []string, before, after map[string]any) {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		w.compare(append(slices.Clip(path), element(key)), before[key], after[key])
	}
}

// element makes a path element of a key, which must not look like a position.
func element(key string) string {
	if strings.HasPrefix(key, "[") {
		return bracket(key)
	}
	return key
}

func (w *walker) tell(path []string, action Action, before, after any) {
	f := Field{Path: pathText(w.shown(path)), Action: action}
	if before != nil {
		f.Before = w.hide(0, path, before)
	}
	if after != nil {
		f.After = w.hide(1, path, after)
	}
	w.found = append(w.found, f)
}

// shown is a path as people may see it. The first element is the API's own, and where an item stands is no name.
func (w *walker) shown(path []string) []string {
	if w.name == nil || len(path) < 2 {
		return path
	}
	shown := slices.Clone(path)
	for i := 1; i < len(path); i++ {
		item, is := strings.CutPrefix(path[i], "[")
		if item = strings.TrimSuffix(item, "]"); !is {
			shown[i] = w.name(path[i])
		} else if _, err := strconv.Atoi(item); err != nil {
			shown[i] = "[" + w.name(item) + "]"
		}
	}
	return shown
}

// plainKey is a key that needs no quotes in a path.
var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func pathText(path []string) string {
	var b strings.Builder
	for _, element := range path {
		switch {
		case strings.HasPrefix(element, "["):
			b.WriteString(element)
		case !plainKey.MatchString(element):
			b.WriteString("[" + strconv.Quote(element) + "]")
		case b.Len() > 0:
			b.WriteString("." + element)
		default:
			b.WriteString(element)
		}
	}
	return b.String()
}

// equal compares as the API server would: nulls are nothing, and a number is the same however it was read.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && equalMaps(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return x == y
		}
	}
	return reflect.DeepEqual(a, b)
}

func equalMaps(a, b map[string]any) bool {
	for key, value := range a {
		if !equal(value, b[key]) {
			return false
		}
	}
	for key, value := range b {
		if _, ok := a[key]; !ok && value != nil {
			return false
		}
	}
	return true
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), int64(float64(v)) == v
	case float64:
		return v, true
	}
	return 0, false
}

// itemKeys are the fields by which items of a list are told apart, the first that fits wins: all items have it, and no two
// have the same.
func itemKeys() [][]string {
	return [][]string{
		{"name"},
		{"mountPath"},
		{"containerPort", "protocol"},
		{"containerPort"},
		{"port", "protocol"},
		{"port"},
		{"key"},
		{"ip"},
		{"topologyKey"},
		{"type"},
		{"host"},
		{"path"},
		{"id"},
	}
}

// lists compares by what names the items, and where nothing does by what stays in order.
func (w *walker) lists(path []string, before, after []any) {
	for _, fields := range itemKeys() {
		old, ok := keyed(before, fields)
		if !ok {
			continue
		}
		if now, ok := keyed(after, fields); ok {
			w.keyed(path, items{old, before}, items{now, after})
			return
		}
	}
	w.ordered(path, before, after)
}

// keyed names each item of a list.
func keyed(list []any, fields []string) ([]string, bool) {
	names := make([]string, len(list))
	seen := make(map[string]bool, len(list))
	for i, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, false
		}
		var parts []string
		for _, field := range fields {
			switch value := object[field].(type) {
			case string, int64, float64, bool:
				parts = append(parts, fmt.Sprint(value))
			default:
				return nil, false
			}
		}
		names[i] = strings.Join(parts, "/")
		if seen[names[i]] {
			return nil, false
		}
		seen[names[i]] = true
	}
	return names, true
}

// items are a list with a name for each.
type items struct {
	names []string
	list  []any
}

func (i items) get(name string) any {
	if at := slices.Index(i.names, name); at >= 0 {
		return i.list[at]
	}
	return nil
}

func (w *walker) keyed(path []string, before, after items) {
	gone := func(name string) bool { return !slices.Contains(after.names, name) }
	fresh := func(name string) bool { return !slices.Contains(before.names, name) }
	stayed, still := slices.DeleteFunc(slices.Clone(before.names), gone), slices.DeleteFunc(slices.Clone(after.names), fresh)
	if !slices.Equal(stayed, still) {
		w.tell(path, Reordered, texts(stayed), texts(still))
	}
	for _, name := range before.names {
		w.compare(append(slices.Clip(path), bracket(name)), before.get(name), after.get(name))
	}
	for i, name := range after.names {
		if fresh(name) {
			w.compare(append(slices.Clip(path), bracket(name)), nil, after.list[i])
		}
	}
}

func texts(names []string) []any {
	list := make([]any, len(names))
	for i, name := range names {
		list[i] = name
	}
	return list
}

// bracket makes a path element of an item's name.
func bracket(name string) string {
	if plainKey.MatchString(name) {
		return "[" + name + "]"
	}
	return "[" + strconv.Quote(name) + "]"
}

// ordered compares what lies between the items that both lists have in the same order.
func (w *walker) ordered(path []string, before, after []any) {
	i, j := 0, 0
	for _, match := range append(common(before, after), [2]int{len(before), len(after)}) {
		w.gap(path, before[i:match[0]], after[j:match[1]], i, j)
		i, j = match[0]+1, match[1]+1
	}
}

// gap takes the items one for one, and the rest as added or deleted.
func (w *walker) gap(path []string, before, after []any, i, j int) {
	for n := range max(len(before), len(after)) {
		switch {
		case n >= len(after):
			w.compare(append(slices.Clip(path), position(i+n)), before[n], nil)
		case n >= len(before):
			w.compare(append(slices.Clip(path), position(j+n)), nil, after[n])
		default:
			w.compare(append(slices.Clip(path), position(j+n)), before[n], after[n])
		}
	}
}

func position(i int) string { return "[" + strconv.Itoa(i) + "]" }

// maxAligned bounds the table that common fills; longer lists are taken item for item.
const maxAligned = 1 << 20

// common is a longest common subsequence, as pairs of positions.
func common(a, b []any) [][2]int {
	var pairs [][2]int
	head := 0
	for head < min(len(a), len(b)) && equal(a[head], b[head]) {
		pairs = append(pairs, [2]int{head, head})
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && equal(a[len(a)-1-tail], b[len(b)-1-tail]) {
		tail++
	}
	for _, p := range aligned(a[head:len(a)-tail], b[head:len(b)-tail]) {
		pairs = append(pairs, [2]int{head + p[0], head + p[1]})
	}
	for n := tail; n > 0; n-- {
		pairs = append(pairs, [2]int{len(a) - n, len(b) - n})
	}
	return pairs
}

func aligned(a, b []any) [][2]int {
	if len(a) == 0 || len(b) == 0 || len(a)*len(b) > maxAligned {
		return nil
	}
	width := len(b) + 1
	longest := make([]int32, (len(a)+1)*width) // of what follows each pair of positions
	same := make([]bool, len(a)*len(b))
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if same[i*len(b)+j] = equal(a[i], b[j]); same[i*len(b)+j] {
				longest[i*width+j] = longest[(i+1)*width+j+1] + 1
				continue
			}
			longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
		}
	}
	var pairs [][2]int
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case same[i*len(b)+j]:
			pairs = append(pairs, [2]int{i, j})
			i, j = i+1, j+1
		case longest[(i+1)*width+j] >= longest[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}

// Values compares any two values of JSON below a path, with nothing masked.
func Values(path string, before, after any) []Field {
	w := walker{hide: func(_ int, _ []string, value any) any { return value }}
	w.compare([]string{path}, before, after)
	return w.found
}
