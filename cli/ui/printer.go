package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/cli/go-gh/v2/pkg/jq"
	"github.com/cli/go-gh/v2/pkg/template"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// View is what a command has to show, in every form it can be asked for.
type View struct {
	// Value is what json, yaml, jq, jsonpath and templates see.
	Value any
	// Columns and Rows are the table.
	Columns []Column
	Rows    [][]string
	// Names is what -o name prints, one "noun/name" a line.
	Names []string
	// Screen, when set, is printed in the table's place.
	Screen func(w io.Writer) error
	// Markdown, of the few views that are posted as comments, is what -o markdown prints.
	Markdown func(w io.Writer) error
	// Note is for people, beside the view: that there is nothing, or more than is shown.
	Note string
	// Lacks says, a line each, why Value is not all that was asked for.
	Lacks []string
	// IDs tell the rows, or the items of Value, apart where Names do not. Past rows are what happened: that one is not there any
	// more is no news.
	IDs  []string
	Past bool
	// Still is Value without what only says how time goes on, by which changes are told; nil: Value itself.
	Still any
}

// ids tell the rows, or the items, apart.
func (v *View) ids() []string {
	switch {
	case v.IDs != nil:
		return v.IDs
	case len(v.Names) == len(v.Rows) || v.Rows == nil:
		return v.Names
	}
	names := make([]string, len(v.Rows))
	for i, row := range v.Rows {
		names[i] = row[0]
	}
	return names
}

// Printer writes views in one format.
type Printer struct {
	streams *Streams
	// kind is one of formats; text is what follows "jsonpath=" and the like.
	kind, text string
}

// formats are what -o accepts; those that end in "=" take a text.
func formats() []string {
	return []string{"table", "wide", "json", "yaml", "name", "jsonpath=", "template="}
}

// NewPrinter reads -o and --jq, which implies JSON. An empty output means the table.
func NewPrinter(s *Streams, output, query string) (*Printer, error) {
	kind, text, takes := strings.Cut(output, "=")
	if takes {
		kind += "="
	}
	switch {
	case query != "" && output != "" && output != "json":
		return nil, &Err{
			Msg: fmt.Sprintf("--jq does not go with -o %s", Clean(output)), Fix: "leave -o out: --jq reads JSON", Doc: DocFormat,
		}
	case query != "":
		return &Printer{streams: s, kind: "jq", text: query}, nil
	case output == "":
		return &Printer{streams: s, kind: "table"}, nil
	case output == "markdown": // not among formats: few views have it
		return &Printer{streams: s, kind: output}, nil
	case !slices.Contains(formats(), kind):
		return nil, &Err{
			Msg: fmt.Sprintf("unknown output format %q", output), Fix: "-o " + strings.Join(formats(), "|"), Doc: DocFormat,
		}
	}
	return &Printer{streams: s, kind: kind, text: text}, nil
}

// Human says whether people are to read the output, not programs.
func (p *Printer) Human() bool { return p.kind == "table" || p.kind == "wide" }

// Print writes v to the streams' Out, through the pager where there is one. The text arrives whole or not at all.
func (p *Printer) Print(v View) error {
	var b bytes.Buffer
	if err := p.write(&b, v); err != nil {
		return err
	}
	return p.streams.Paged(func(w io.Writer) error {
		_, err := w.Write(b.Bytes())
		return err
	})
}

// listed is a value as programs get it: a list is an object that has it as items, so that there is room for more beside them.
func listed(value any) any {
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice {
		return value
	}
	if list.IsNil() {
		value = []any{}
	}
	return map[string]any{"items": value}
}

func (p *Printer) write(b *bytes.Buffer, v View) error {
	v.Value = listed(v.Value)
	switch p.kind {
	case "json":
		return encodeJSON(b, v.Value)
	case "yaml":
		return p.yaml(b, v.Value)
	case "name":
		for _, name := range v.Names {
			fmt.Fprintln(b, Clean(name))
		}
		return nil
	case "jq":
		return p.jq(b, v.Value)
	case "jsonpath=":
		return p.jsonpath(b, v.Value)
	case "template=":
		return p.template(b, v.Value)
	case "markdown":
		if v.Markdown == nil {
			return &Err{Msg: "this command has no markdown", Fix: "-o " + strings.Join(formats(), "|"), Doc: DocFormat}
		}
		return v.Markdown(b)
	}
	if v.Screen != nil {
		return v.Screen(b)
	}
	columns, rows := visible(v.Columns, v.Rows, p.kind == "wide")
	return p.streams.Table(b, columns, rows)
}

func encodeJSON(b *bytes.Buffer, value any) error { return encode(b, value, "  ") }

// encodeLine is encodeJSON on one line.
func encodeLine(b *bytes.Buffer, value any) error { return encode(b, value, "") }

func encode(b *bytes.Buffer, value any, indent string) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		return err
	}
	b.WriteString(EscapeJSON(text.String()))
	return nil
}

// EscapeJSON is the same JSON with escapes in place of what does not show and might steer a terminal: encoding/json leaves DEL and
// the controls from U+0080 on as they are.
func EscapeJSON(text string) string {
	if !strings.ContainsFunc(text, silent) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if !silent(r) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// silent is what stands in JSON only inside of strings, and takes one escape; what would take two steers nothing.
func silent(r rune) bool { return r != '\n' && r <= '\uffff' && unprintable(r) }

func (p *Printer) yaml(b *bytes.Buffer, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	text, err := yaml.JSONToYAML([]byte(EscapeJSON(string(raw)))) // yaml.Marshal refuses some controls that JSON does not escape
	b.WriteString(p.shown(string(text)))
	return err
}

func (p *Printer) jq(b *bytes.Buffer, value any) error {
	var in, out bytes.Buffer
	if err := encodeJSON(&in, value); err != nil {
		return err
	}
	err := jq.Evaluate(&in, &out, p.text)
	b.WriteString(p.shown(out.String()))
	if err != nil {
		return &Err{Msg: fmt.Sprintf("query with --jq %q", p.text), Cause: err.Error(), Fix: "see what there is to pick from: -o json", Doc: DocFormat, Err: err}
	}
	return nil
}

func (p *Printer) jsonpath(b *bytes.Buffer, value any) error {
	plain, err := generic(value)
	if err != nil {
		return err
	}
	path := jsonpath.New("output")
	if err := path.Parse(p.text); err != nil {
		return &Err{
			Msg: fmt.Sprintf("read jsonpath %q", p.text), Cause: err.Error(), Fix: "-o 'jsonpath={.items[*].name}'", Doc: DocFormat, Err: err,
		}
	}
	var out bytes.Buffer
	err = path.Execute(&out, plain)
	b.WriteString(p.shown(out.String()))
	if err != nil {
		return &Err{Msg: fmt.Sprintf("print jsonpath %q", p.text), Cause: err.Error(), Fix: "see what there is to pick from: -o json", Doc: DocFormat, Err: err}
	}
	b.WriteByte('\n')
	return nil
}

// shown is a text as it goes to the output. Whoever wrote what is printed, a cluster's status, may be a stranger: a terminal gets no
// escape sequence of theirs, while a program gets all as it is.
func (p *Printer) shown(text string) string {
	if !p.streams.OutTTY {
		return text
	}
	return CleanText(text)
}

// shownWithin is value with each of its texts as shown says.
func (p *Printer) shownWithin(value any) any {
	switch v := value.(type) {
	case string:
		return p.shown(v)
	case []any:
		for i := range v {
			v[i] = p.shownWithin(v[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for key := range v {
			clean[p.shown(key)] = p.shownWithin(v[key])
		}
		return clean
	}
	return value
}

// template cleans what it reads and not what it writes, since a template may color.
func (p *Printer) template(b *bytes.Buffer, value any) error {
	plain, err := generic(value)
	if err != nil {
		return err
	}
	var in bytes.Buffer
	if err := encodeJSON(&in, p.shownWithin(plain)); err != nil {
		return err
	}
	t := template.New(b, p.streams.Width, p.streams.Color)
	err = t.Parse(p.text)
	if err == nil {
		err = t.Execute(&in)
	}
	if err == nil {
		err = t.Flush()
	}
	if err != nil {
		return &Err{Msg: fmt.Sprintf("print template %q", p.text), Cause: err.Error(), Fix: "see what there is to pick from: -o json", Doc: DocFormat, Err: err}
	}
	return nil
}

// generic is value as encoding/json would read it back.
func generic(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var plain any
	err = json.Unmarshal(text, &plain)
	return plain, err
}
