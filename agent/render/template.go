package render

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// templateSuffix marks a file that stands in for the one without it.
const templateSuffix = ".tmpl"

// read returns a file's content, rendering the template that stands in for it if need be. A file that exists under its own name
// wins over a template. The error is fs.ErrNotExist when there is neither.
func (j *job) read(name string) ([]byte, error) {
	j.working(name)
	if data, ok := j.tree.files[name]; ok {
		return data, notPointer(name, data)
	}
	text, ok := j.tree.files[name+templateSuffix]
	if !ok {
		return nil, fs.ErrNotExist
	}
	j.working(name + templateSuffix)
	if err := notPointer(name+templateSuffix, text); err != nil {
		return nil, err
	}
	return j.expand(name+templateSuffix, text)
}

func (j *job) expand(name string, text []byte) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(hermetic()).Parse(string(text))
	if err != nil {
		return nil, j.templateError(name, err)
	}
	out := boundedBuffer{most: j.limits.Output}
	if err := t.Execute(&out, map[string]any{
		"parameters": j.Parameters,
		"secrets":    map[string]map[string]string(j.Secrets),
		"service":    map[string]string{"name": j.Service},
		"namespace":  j.Namespace,
	}); errors.Is(err, errTooLong) {
		return nil, place{file: name}.limit("renders to more than %d MiB", j.limits.Output>>20)
	} else if err != nil {
		return nil, j.templateError(name, err)
	}
	return out.Bytes(), nil
}

// boundedBuffer is a buffer that a loop cannot fill for ever.
type boundedBuffer struct {
	bytes.Buffer
	most int64
}

var errTooLong = errors.New("prints too much")

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if int64(b.Len()+len(p)) > b.most {
		return 0, errTooLong
	}
	return b.Buffer.Write(p)
}

// hermetic are sprig's functions that answer the same on every call and every machine.
func hermetic() template.FuncMap {
	funcs := sprig.HermeticTxtFuncMap()
	for _, name := range fickle() {
		delete(funcs, name)
	}
	funcs["keys"], funcs["values"] = sortedKeys, sortedValues
	return funcs
}

// fickle are sprig's functions that draw on a clock or on chance.
func fickle() []string {
	return []string{
		"ago", "bcrypt", "date", "dateInZone", "dateModify", "date_in_zone", "date_modify", "encryptAES", "genCA", "genCAWithKey",
		"genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "htmlDate",
		"htmlDateInZone", "htpasswd", "mustDateModify", "must_date_modify", "now", "randAlpha", "randAlphaNum", "randAscii",
		"randBytes", "randInt", "randNumeric", "shuffle", "uuidv4",
	}
}

// sortedKeys and sortedValues replace functions of sprig that follow a map's random order.
func sortedKeys(dicts ...map[string]any) []string {
	var keys []string
	for _, dict := range dicts {
		keys = append(keys, slices.Sorted(maps.Keys(dict))...)
	}
	return keys
}

func sortedValues(dict map[string]any) []any {
	var values []any
	for _, key := range sortedKeys(dict) {
		values = append(values, dict[key])
	}
	return values
}

// templatePlace finds the place in an error of text/template, whose type does not carry it, and templateMissing what the template
// looks for in vain.
var (
	templatePlace   = regexp.MustCompile(`^template: .*?:(\d+)(?::\d+)?: `)
	templateMissing = regexp.MustCompile(`at <([^>]*)>: map has no entry for key "([^"]*)"`)
)

func (j *job) templateError(name string, err error) *Error {
	at, text := place{file: name}, err.Error()
	if found := templatePlace.FindStringSubmatch(text); found != nil {
		at.line, _ = strconv.Atoi(found[1])
		text = text[len(found[0]):]
	}
	e := at.invalid("template: %s", text)
	e.Fix = j.templateFix(text)
	return e
}

// templateFix is what mends a template that does not execute, or does not parse.
func (j *job) templateFix(text string) string {
	found := templateMissing.FindStringSubmatch(text)
	if found == nil {
		return "templates are Go's (pkg.go.dev/text/template), with those functions of sprig that need no clock and no chance"
	}
	read, key := strings.TrimPrefix(found[1], "$"), found[2]
	if name, is := strings.CutPrefix(read, ".parameters."); is && key != "parameters" {
		return "set " + name + " in spec.parameters of service " + j.Service + ", or take it out of the template"
	}
	return "templates have .parameters, .secrets, .service.name and .namespace; within range and with, write $ before them"
}
