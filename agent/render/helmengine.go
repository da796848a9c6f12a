package render

import (
	"bytes"
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
	"helm.sh/helm/v4/pkg/release/v1/util"
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
	e := at.invalid("%s", text)
	e.Fix = j.chartFix(at, text)
	return e
}

// chartMissing finds the value that a template reads in vain, in an error of helm's engine.
var chartMissing = regexp.MustCompile(`at <[^>]*\.Values\.([\w.]+)[^>]*>:\s*(?:nil pointer|map has no entry)`)

// chartFix is what mends a chart's template that does not execute: a value that it lacks, or the template. Values of a chart within
// the chart have other names, and those of a chart that kustomize inflates are not the service's.
func (j *job) chartFix(at place, text string) string {
	correct := "correct " + at.String()
	if j.Service == "" || j.Renderer != HelmChart || strings.HasPrefix(text, "parse error") || strings.Contains(text, "/charts/") {
		return correct + ", or the values that it reads"
	}
	name := "NAME"
	if found := chartMissing.FindStringSubmatch(text); found != nil {
		name = found[1]
	}
	return "plural service set " + j.Service + " --value " + name + "=VALUE, where it lacks a value; or " + correct
}

// printedManifests reads what a template printed, as helm cuts it into documents, without the hooks of a rollback and those that
// helm does not know. Lines are of the print and not of the template, so they go into messages.
func printedManifests(j *job, name, printed string) ([]manifest, error) {
	docs := util.SplitManifests(printed)
	if len(docs) > j.limits.Objects {
		return nil, place{file: name}.limit("renders more than %d documents", j.limits.Objects)
	}
	var all []manifest
	rest, line := printed, 0 // what is printed from the document on, and how many lines stand before that
	for i := range len(docs) {
		text := docs[fmt.Sprintf("manifest-%d", i)]
		skipped, _, _ := strings.Cut(rest, text)
		line += strings.Count(skipped, "\n")
		found, err := readPrinted(j, name, []byte(text+"\n"), line)
		if err != nil {
			return nil, err
		}
		rest, line = rest[len(skipped)+len(text):], line+strings.Count(text, "\n")
		for _, m := range found {
			events, hook := m.head.Metadata.Annotations[release.HookAnnotation]
			switch {
			case m.hooksInto(isRollback):
			case hook && !m.hooksInto(isKnownHook):
				j.warn("%s: %s is a hook of %s, which helm does not know: left out", name, &m.head, events)
			default:
				all = append(all, m)
			}
		}
	}
	return all, nil
}

// readPrinted reads what a chart brings: the print of a template, or a file of CRDs. Before is how many lines stand before it.
func readPrinted(j *job, name string, data []byte, before int) ([]manifest, error) {
	j.working(name)
	docs, err := decode(name, data, j.limits, func(found *flaw) {
		j.warn("%s: line %d of what it renders: %s", name, before+found.line, found.message)
	})
	var flawed *Error
	if errors.As(err, &flawed) {
		flawed.Message = fmt.Sprintf("line %d of what it renders: %s", before+flawed.Line, flawed.Message)
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
		all = append(all, found...)
	}
	return all, nil
}

func isRollback(event string) bool { return event == "pre-rollback" || event == "post-rollback" }

// isKnownHook is false for crd-install, which Helm 2 had.
func isKnownHook(event string) bool {
	return slices.Contains([]string{
		"pre-install", "post-install", "pre-upgrade", "post-upgrade", "pre-delete", "post-delete", "pre-rollback", "post-rollback",
		"test", "test-success",
	}, event)
}

// aside is true for hooks that run beside the objects: when they are tested, or when they are gone.
func aside(m manifest) bool {
	return m.hooksInto(func(event string) bool {
		return event == "pre-delete" || event == "post-delete" || strings.HasPrefix(event, "test") || strings.HasSuffix(event, "-rollback")
	})
}

// hooksInto tells whether the object is a hook all of whose events are such.
func (m *manifest) hooksInto(such func(event string) bool) bool {
	events := m.head.events()
	return len(events) > 0 && !slices.ContainsFunc(events, func(event string) bool { return !such(event) })
}

// events are when a hook of helm's runs. What is no such hook has none.
func (h *objectHead) events() []string {
	var events []string
	if said, ok := h.Metadata.Annotations[release.HookAnnotation]; ok {
		for event := range strings.SplitSeq(said, ",") {
			events = append(events, strings.ToLower(strings.TrimSpace(event)))
		}
	}
	return events
}

// apart says that two objects of one name never meet: both are hooks of helm's, each of other events. Tests run at any time.
func (m *manifest) apart(from manifest) bool {
	theirs := from.head.events()
	return len(theirs) > 0 && m.hooksInto(func(event string) bool {
		return !strings.HasPrefix(event, "test") && !slices.Contains(theirs, event)
	})
}

// withoutCopies leaves out what the chart holds before with the same content, and all but the first of a CRD: helm makes the one
// and skips the others.
func withoutCopies(j *job, all []manifest) []manifest {
	first := make(map[identity]manifest, len(all))
	return slices.DeleteFunc(all, func(m manifest) bool {
		id := m.head.identity(j.Namespace)
		earlier, copied := first[id]
		switch {
		case !copied || id.name == "":
			first[id] = m
			return false
		case bytes.Equal(earlier.json, m.json):
			return true
		case id.group == "apiextensions.k8s.io" && id.kind == "CustomResourceDefinition":
			j.warn("%s: %s stands in this chart already, otherwise, in %s: left out", m.place, &m.head, earlier.place)
			return true
		}
		return false
	})
}

// withoutShadows leaves out hooks that run aside and name an object that the chart holds otherwise: helm keeps two lists, and a
// service has one. Charts do this with the ServiceAccount that all their hooks share.
func withoutShadows(j *job, all []manifest) []manifest {
	known := map[identity][]manifest{}
	for _, m := range all {
		if id := m.head.identity(j.Namespace); !aside(m) {
			known[id] = append(known[id], m)
		}
	}
	return slices.DeleteFunc(all, func(m manifest) bool {
		if !aside(m) {
			return false
		}
		id := m.head.identity(j.Namespace)
		i := slices.IndexFunc(known[id], func(other manifest) bool { return !m.apart(other) })
		if i < 0 || id.name == "" {
			known[id] = append(known[id], m)
			return false
		}
		j.warn("%s: the hook %s stands in this service already, in %s: left out", m.place, &m.head, known[id][i].place)
		return true
	})
}
