package kubeschema

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Form is what objects of one kind look like.
type Form struct {
	// compile gives the schema; nil: any object will do.
	compile func() *jsonschema.Schema
	// builtin says that null means that a field is left out.
	builtin bool
	// status says that people write it.
	status bool
}

// Fault is one thing that is wrong with an object. Bounds of numbers are told with the number, and no other value is.
type Fault struct {
	// Path is the field, as people write it: spec.containers[0].image.
	Path []string
	// Message says what is wrong with it.
	Message string
	// Fix is what helps, if that is known.
	Fix string
}

// Field is the path as people write it: spec.containers[0].image.
func (f Fault) Field() string { return field(f.Path) }

// Check says what is wrong with an object, sorted by field.
func (f *Form) Check(object map[string]any) []Fault {
	schema := f.compile()
	if schema == nil {
		return nil
	}
	if _, reported := object["status"]; reported && !f.status {
		object = without(object, "status")
	}
	var value any = object
	if f.builtin {
		value = withoutNulls(object)
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(schema.Validate(value), &invalid) {
		return nil
	}
	var list []Fault
	f.collect(invalid, &list)
	for i := range list {
		if fault := &list[i]; fault.Fix == unquote && !bare(object, fault.Path) {
			fault.Fix = ""
		}
	}
	slices.SortStableFunc(list, func(a, b Fault) int { return slices.Compare(a.Path, b.Path) })
	return list
}

func without(object map[string]any, name string) map[string]any {
	out := make(map[string]any, len(object))
	for key, value := range object {
		if key != name {
			out[key] = value
		}
	}
	return out
}

func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, inner := range value {
			if inner != nil {
				out[key] = withoutNulls(inner)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, inner := range value {
			out[i] = withoutNulls(inner)
		}
		return out
	}
	return value
}

// unquote is what mends a number, or true or false, that is written as a text.
const unquote = "write it without quotes"

// bare says whether the text at a path is a number, or true or false, in quotes.
func bare(value any, path []string) bool {
	for _, step := range path {
		switch at := value.(type) {
		case map[string]any:
			value = at[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(at) {
				return false
			}
			value = at[n]
		}
	}
	text, is := value.(string)
	_, number := strconv.ParseFloat(text, 64)
	return is && (number == nil || text == "true" || text == "false")
}

// collect adds the faults that a verdict is about. Of several forms that a value may have, each is told in one sentence.
func (f *Form) collect(e *jsonschema.ValidationError, list *[]Fault) {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		*list = append(*list, Fault{
			Path:    e.InstanceLocation,
			Message: "has none of the forms, or more than one, that its definition allows" + f.branches(e),
		})
		return
	}
	if len(e.Causes) == 0 {
		*list = append(*list, f.faults(e)...)
		return
	}
	for _, cause := range e.Causes {
		f.collect(cause, list)
	}
}

// branches says what each of several forms misses.
func (f *Form) branches(e *jsonschema.ValidationError) string {
	const most = 4
	var parts []string
	for _, cause := range e.Causes {
		var faults []Fault
		f.collect(cause, &faults)
		if len(faults) > 0 && len(parts) < most {
			parts = append(parts, faults[0].Field()+" "+faults[0].Message)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", or ")
}

// faults puts one verdict into words.
func (f *Form) faults(e *jsonschema.ValidationError) []Fault {
	at := func(name string) []string { return append(slices.Clip(e.InstanceLocation), name) }
	one := func(fix, format string, args ...any) []Fault {
		return []Fault{{Path: e.InstanceLocation, Message: fmt.Sprintf(format, args...), Fix: fix}}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		known := f.fields(e.InstanceLocation)
		var list []Fault
		for _, name := range k.Properties {
			list = append(list, Fault{Path: at(name), Message: "unknown field", Fix: meant(name, known)})
		}
		return list
	case *kind.Required:
		var list []Fault
		for _, name := range k.Missing {
			list = append(list, Fault{Path: at(name), Message: "is missing", Fix: "add it"})
		}
		return list
	case *kind.Type:
		want := slices.DeleteFunc(slices.Clone(k.Want), func(name string) bool { return name == "null" })
		fix := ""
		if slices.Contains(want, "string") && slices.Contains([]string{"number", "integer", "boolean"}, k.Got) {
			fix = "write it in quotes"
		} else if k.Got == "string" && (slices.Contains(want, "integer") || slices.Contains(want, "number") || slices.Contains(want, "boolean")) {
			fix = unquote
		}
		return one(fix, "is %s, and has to be %s", named([]string{k.Got}), named(want))
	case *kind.Format:
		if k.Want != "byte" {
			return one("", "%s", k.Err)
		}
		return one("encode it; plain text of a Secret goes into stringData", "is no base64")
	case *kind.Pattern:
		return one("", "does not match the pattern %s", k.Want)
	case *kind.Enum:
		fix := ""
		if got, is := k.Got.(string); is {
			fix = meant(got, texts(k.Want))
		}
		return one(fix, "has to be one of %s", listed(k.Want))
	}
	return one("", "%s", e.DetailedOutput().Error.String())
}

// named are types with their articles.
func named(types []string) string {
	out := make([]string, len(types))
	for i, name := range types {
		switch name {
		case "object":
			out[i] = "a map"
		case "array":
			out[i] = "a list"
		case "integer":
			out[i] = "an integer"
		case "boolean":
			out[i] = "true or false"
		case "null":
			out[i] = "null"
		default:
			out[i] = "a " + name
		}
	}
	return strings.Join(out, " or ")
}

func listed(values []any) string {
	const most = 12
	out := texts(values)
	if more := len(out) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(out[:most], ", "), more)
	}
	return strings.Join(out, ", ")
}

// texts are values as people write them; an empty one is the same as none.
func texts(values []any) []string {
	var out []string
	for _, value := range values {
		if value != nil && value != "" {
			out = append(out, fmt.Sprint(value))
		}
	}
	return out
}

// fields are the names that an object may have there.
func (f *Form) fields(location []string) []string {
	at := deref(f.compile())
	for _, step := range location {
		next := at.Properties[step]
		if next == nil {
			next, _ = at.Items.(*jsonschema.Schema)
		}
		if next == nil {
			next, _ = at.AdditionalProperties.(*jsonschema.Schema)
		}
		if next == nil {
			return nil
		}
		at = deref(next)
	}
	var names []string
	for name := range at.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func deref(s *jsonschema.Schema) *jsonschema.Schema {
	for s.Ref != nil {
		s = s.Ref
	}
	return s
}

// meant is the advice to write a known name in the place of one that is near to it.
func meant(name string, known []string) string {
	best, least := "", len(name)+1
	for _, other := range known {
		if d := levenshtein.Distance(strings.ToLower(name), strings.ToLower(other), nil); d < least && near(name, other) {
			best, least = other, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// near says whether one name may be a slip of the other.
func near(name, other string) bool {
	name, other = strings.ToLower(name), strings.ToLower(other)
	const longest = 64
	return len(name) <= longest && levenshtein.Distance(name, other, nil) <= max(1, len(name)/3)
}

// simple are names that need no quotes in a path.
var simple = regexp.MustCompile(`^[A-Za-z_$][\w-]*$`)

func field(path []string) string {
	var out strings.Builder
	for _, step := range path {
		_, err := strconv.Atoi(step)
		switch {
		case err == nil:
			out.WriteString("[" + step + "]")
		case !simple.MatchString(step):
			out.WriteString("[" + strconv.Quote(step) + "]")
		default:
			if out.Len() > 0 {
				out.WriteByte('.')
			}
			out.WriteString(step)
		}
	}
	return out.String()
}
