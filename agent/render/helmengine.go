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
	printed, err := e.RenderWithContext(context.Background(), c, values)
	if err != nil {
		return nil, chartError(j, err)
	}
	return printed, nil
}

func mark(c *chart.Chart, names *[]string) {
	for _, file := range c.Templates {
		if !strings.HasPrefix(path.Base(file.Name), "_") {
			file.Data = append([]byte(fmt.Sprintf("{{%s %d}}", atFunc, len(*names))), file.Data...)
			*names = append(*names, path.Join(c.ChartFullPath(), file.Name))
		}
	}
	for _, dependency := range c.Dependencies() {
		mark(dependency, names)
	}
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

// printedManifests reads what a template printed, hooks that must not be applied left out. Lines are of the print and not
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
		all = append(all, slices.DeleteFunc(found, isOtherHook)...)
	}
	return all, nil
}

// isOtherHook is true for hooks that belong to moments other than install and upgrade.
func isOtherHook(m manifest) bool {
	events, ok := m.head.Metadata.Annotations["helm.sh/hook"]
	if !ok {
		return false
	}
	for event := range strings.SplitSeq(events, ",") {
		switch strings.TrimSpace(event) {
		case "pre-install", "post-install", "pre-upgrade", "post-upgrade", "crd-install":
			return false
		}
	}
	return true
}
