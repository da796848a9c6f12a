package render

import (
	"bytes"
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/pluralsh/plural/internal/kustomizeurl"
)

// kustomize can note in an annotation of each object which file it came from, when the kustomization asks for it. We ask in the
// author's place and take the notes off again, and do so only where the notes cannot show: where nothing that kustomize reads
// looks at annotations as a whole.

// tracing is the line that makes kustomize take notes.
const tracing = "\nbuildMetadata: [originAnnotations]\n"

// seesWhole tells a text that could tell an object with a note from one without: a patch or a replacement of annotations as
// such, a hash over a whole object, a wish for notes by the author.
func seesWhole(text []byte) bool {
	for _, word := range []string{"needs-hash", "annotationSelector", "buildMetadata", "config.kubernetes.io/origin"} {
		if bytes.Contains(text, []byte(word)) {
			return true
		}
	}
	return bytes.Contains(text, []byte("/metadata")) && pointsAtAnnotations.Match(text) ||
		bytes.Contains(text, []byte("ath")) && takesAnnotations.Match(text)
}

// pointsAtAnnotations is a JSON pointer of a patch to an object's annotations, or to all of its metadata.
var pointsAtAnnotations = regexp.MustCompile(`/metadata(?:/annotations|["'\s,}]|$)`)

// takesAnnotations is a path of a replacement or a patch to all annotations, all metadata or the whole object.
var takesAnnotations = regexp.MustCompile(`(?i)(?:path|from|paths)["']?:[ \t\r\n-]*["']?(?:metadata(?:\.annotations)?)?["']?[ \t]*(?:[\r\n,}\]]|$)`)

// traceable returns a root kustomization that makes kustomize take notes, or nil where they could show.
func traceable(t *tree, root string, data []byte) []byte {
	for name, text := range t.files {
		if name != root && !isManifest(name) && !isKustomization(name) && path.Ext(name) != templateSuffix {
			continue
		}
		if seesWhole(text) {
			return nil
		}
	}
	docs := split(data)
	if len(docs) != 1 {
		return nil
	}
	node, found := inspect(docs[0])
	if found != nil || node == nil {
		return nil
	}
	if top := node.Content[0]; top.Kind != yaml.MappingNode || top.Style&yaml.FlowStyle != 0 || top.Column != 1 {
		return nil
	}
	var asked types.Kustomization
	if asked.Unmarshal(data) != nil {
		return nil
	}
	if asked.FixKustomization(); asked.CheckEmpty() != nil { // kustomize refuses it, and would not with our line
		return nil
	}
	traced := append(bytes.Clone(data), tracing...)
	if _, found := inspect(document{line: 1, text: traced}); found != nil {
		return nil
	}
	return traced
}

// origins takes the notes off the objects.
func (j *job) origins(objects resmap.ResMap) ([]Origin, error) {
	all, read := make([]Origin, 0, objects.Size()), map[string][]heading{}
	for _, object := range objects.Resources() {
		note, err := object.GetOrigin()
		if err != nil {
			return nil, err
		}
		at := j.noted(note)
		if _, known := read[at.File]; !known {
			read[at.File] = headings(j.tree.files[at.File])
		}
		at.Line = lineOf(read[at.File], object.GetKind(), object.GetName())
		all = append(all, at)
	}
	return all, objects.RemoveOriginAnnotations()
}

// noted is a note as a path of the repository: kustomize counts from the folder that it builds.
func (j *job) noted(note *resource.Origin) Origin {
	if note == nil || note.Path == "" && note.ConfiguredIn == "" {
		return Origin{}
	}
	name := path.Join(j.Path, cmp.Or(note.Path, note.ConfiguredIn))
	if dir, _, printed := strings.Cut("./"+name, "/"+printsFolder+"/"); printed {
		name, _ = kustomizationAt(j.tree, path.Clean(dir)) // that names the chart
	} else if at := strings.LastIndex(name, "/"+kustomizeurl.Folder+"/"); at >= 0 {
		name = name[at+1:]
	}
	if j.tree.files[name] == nil && j.tree.isFile(name) {
		name += templateSuffix
	}
	return Origin{File: name}
}

// heading is what a document of YAML calls its object, and the line where it begins; empty where it is written in an unusual way.
type heading struct {
	line       int
	kind, name string
}

// headings reads no more than it needs: a parser would take as long as the render.
func headings(data []byte) []heading {
	var all []heading
	for _, doc := range split(data) {
		h := heading{}
		inside, indent := false, 0 // of metadata
		at := doc.line - 1
		for line := range strings.Lines(string(doc.text)) {
			at++
			text := strings.TrimSpace(line)
			if text == "" || text[0] == '#' {
				continue
			}
			if h.line == 0 {
				h.line = at
			}
			depth := len(line) - len(strings.TrimLeft(line, " "))
			key, value, _ := strings.Cut(text, ":")
			value, _, _ = strings.Cut(value, " #")
			value = strings.Trim(value, ` "'`)
			switch {
			case depth == 0 && key == "kind":
				h.kind = value
			case depth == 0 && key == "metadata" && value != "":
				if found := flowName.FindStringSubmatch(value); found != nil {
					h.name = found[1]
				}
			case depth == 0:
				inside, indent = key == "metadata", 0
			case inside && (indent == 0 || depth == indent):
				if indent = depth; key == "name" {
					h.name = value
				}
			}
		}
		all = append(all, h)
	}
	return all
}

// flowName is the name in metadata on one line.
var flowName = regexp.MustCompile(`[{,]\s*"?name"?:\s*["']?([^\s"',}]+)`)

// lineOf is where the document of an object begins, whose name a kustomization may have made longer; 0 where that is not certain.
func lineOf(all []heading, kind, name string) int {
	all = slices.DeleteFunc(slices.Clone(all), func(h heading) bool { return h.line == 0 })
	if len(all) == 1 && all[0].kind == kind {
		return all[0].line
	}
	var found []heading
	for _, h := range all {
		if h.kind == "" || strings.Contains(h.kind, "{{") || h.kind == kind && strings.Contains(h.name, "{{") { // it may be any
			return 0
		}
		if h.kind == kind && h.name != "" && strings.Contains(name, h.name) {
			found = append(found, h)
		}
	}
	slices.SortFunc(found, func(a, b heading) int { return len(b.name) - len(a.name) })
	if len(found) == 0 || len(found) > 1 && len(found[0].name) == len(found[1].name) {
		return 0
	}
	return found[0].line
}
