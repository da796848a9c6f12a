package render

import (
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	release "helm.sh/helm/v4/pkg/release/v1"
)

// atFunc is called at the start of each template, with its number.
const atFunc = "pluralAt"

// execute runs the chart's templates and returns what each printed, by its name in the chart.
//
// The engine cannot be stopped and does not say which template it is at, so each one says so itself, in front of its
// first line: when the process dies of one, its name is known.
func execute(j *job, c *chart.Chart, values common.Values) (map[string]string, error) {
	var names []string
	mark(c, &names)
	e := engine.Engine{CustomTemplateFuncs: noticed(j)}
	e.CustomTemplateFuncs[atFunc] = func(number int) string {
		if number >= 0 && number < len(names) {
			j.working(j.chartFile(names[number]))
		}
		return ""
	}
	e.CustomTemplateFuncs["lookup"] = j.lookup
	printed, err := e.RenderWithContext(context.Background(), c, values)
	if err != nil {
		return nil, chartError(j, err)
	}
	return printed, nil
}

// mark replaces the chart's templates rather than writing into them: their bytes belong to the record as well.
func mark(c *chart.Chart, names *[]string) {
	for i, file := range c.Templates {
		if !strings.HasPrefix(path.Base(file.Name), "_") {
			marked := *file
			marked.Data = append([]byte(fmt.Sprintf("{{%s %d}}", atFunc, len(*names))), file.Data...)
			c.Templates[i] = &marked
			*names = append(*names, path.Join(c.ChartFullPath(), file.Name))
		}
	}
	for _, dependency := range c.Dependencies() {
		mark(dependency, names)
	}
}

// unmarked is a chart that mark on the original leaves alone.
func unmarked(c *chart.Chart) *chart.Chart {
	same := *c
	same.Templates = slices.Clone(c.Templates)
	return &same
}

// noticed wraps the functions that draw on a clock or on chance: charts use them, so they work, with a warning.
func noticed(j *job) template.FuncMap {
	all, wrapped, warned := sprig.TxtFuncMap(), template.FuncMap{}, map[string]bool{}
	for _, name := range fickle() {
		function := reflect.ValueOf(all[name])
		wrapped[name] = reflect.MakeFunc(function.Type(), func(args []reflect.Value) []reflect.Value {
			if !warned[name] {
				warned[name] = true
				j.warn("%s: calls %s, so each render differs", j.at, name)
			}
			if function.Type().IsVariadic() {
				return function.CallSlice(args)
			}
			return function.Call(args)
		}).Interface()
	}
	return wrapped
}

// enginePlace finds the first template and line in an error of helm's engine, whose type does not carry it.
var enginePlace = regexp.MustCompile(`([^\s:()"]+/templates/[^\s:()"]+):(\d+)`)

func chartError(j *job, err error) *Error {
	at, text := place{file: j.at}, err.Error()
	if found := enginePlace.FindStringSubmatch(text); found != nil {
		at.file = j.chartFile(found[1])
		at.line, _ = strconv.Atoi(found[2])
	}
	return at.invalid("%s", text)
}

// printedManifests reads what a template printed, hooks of a rollback left out. Lines are of the print and not
// of the template, so they go into the message.
func printedManifests(j *job, name string, data []byte) ([]manifest, error) {
	j.working(name)
	docs, err := decode(name, data, j.limits)
	var flawed *Error
	if errors.As(err, &flawed) {
		flawed.Message = fmt.Sprintf("line %d of what it renders: %s", flawed.Line, flawed.Message)
		flawed.Line = 0
		return nil, flawed
	}
	if err != nil {
		return nil, err
	}
	var all []manifest
	for _, doc := range docs {
		doc.line = 0
		found, err := manifests(doc)
		if err != nil {
			return nil, err
		}
		all = append(all, slices.DeleteFunc(found, ofRollback)...)
	}
	return all, nil
}

// ofRollback is true for hooks that belong to a rollback alone.
func ofRollback(m manifest) bool {
	return m.hooksInto(func(event string) bool { return event == "pre-rollback" || event == "post-rollback" })
}

// aside is true for hooks that run beside the objects: when they are tested, or when they are gone.
func aside(m manifest) bool {
	return m.hooksInto(func(event string) bool {
		return event == "pre-delete" || event == "post-delete" || strings.HasPrefix(event, "test") || strings.HasSuffix(event, "-rollback")
	})
}

// hooksInto tells whether the object is a hook all of whose events are such.
func (m *manifest) hooksInto(such func(event string) bool) bool {
	events, ok := m.head.Metadata.Annotations[release.HookAnnotation]
	if !ok {
		return false
	}
	for event := range strings.SplitSeq(events, ",") {
		if !such(strings.TrimSpace(event)) {
			return false
		}
	}
	return true
}

// withoutShadows leaves out hooks that run aside and name an object that the chart holds otherwise: helm keeps two lists, and a
// service has one. Charts do this with the ServiceAccount that all their hooks share.
func withoutShadows(j *job, all []manifest) []manifest {
	first := map[identity]place{}
	for _, m := range all {
		if id := m.head.identity(j.Namespace); !aside(m) {
			first[id] = m.place
		}
	}
	return slices.DeleteFunc(all, func(m manifest) bool {
		if !aside(m) {
			return false
		}
		id := m.head.identity(j.Namespace)
		where, shadowed := first[id]
		if shadowed {
			j.warn("%s: the hook %s stands in this service already, in %s: left out", m.place, &m.head, where)
		}
		first[id] = m.place
		return shadowed
	})
}
