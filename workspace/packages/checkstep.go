package packages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"

	"github.com/pluralsh/plural/internal/boundcel"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
)

func itoa(i int) string { return strconv.Itoa(i) }

func (c *checker) steps() {
	list := c.pkg.Spec.Steps
	if !c.atMost("spec.steps", len(list), maxSteps) {
		return
	}
	seen := map[string]bool{}
	for i := range list {
		s, field := &list[i], fmt.Sprintf("spec.steps[%d]", i)
		c.name(field+".name", s.Name)
		c.once(seen, field+".name", "step", s.Name)
		c.oneKind(field, s)
		c.condition(field+".when", s.When, scope{steps: true, step: s.Name})
		c.step(field, s)
	}
	for i := range list {
		c.needs(fmt.Sprintf("spec.steps[%d]", i), &list[i])
	}
	c.cycles()
}

func (c *checker) oneKind(field string, s *Step) {
	var has []string
	for _, k := range []struct {
		name  string
		there bool
	}{
		{StepTerraform, s.Terraform != nil},
		{StepHelm, s.Helm != nil},
		{StepManifests, s.Manifests != nil},
		{StepService, s.Service != nil},
		{StepWait, s.Wait != nil},
	} {
		if k.there {
			has = append(has, k.name)
		}
	}
	switch {
	case len(has) == 0:
		c.Fault(field, "add one of terraform, helm, manifests, service and wait", "a step that does nothing")
	case len(has) > 1:
		c.Fault(field+"."+has[1], "make two steps of them", "a step that is both %s", strings.Join(has, " and "))
	}
}

// step checks the one thing that a step does, its expressions included.
func (c *checker) step(field string, s *Step) {
	inside := scope{steps: true, step: s.Name}
	switch {
	case s.Terraform != nil:
		c.terraform(field+".terraform", s.Terraform)
		c.expressions(field+".terraform", tree(s.Terraform), inside)
	case s.Helm != nil:
		c.helm(field+".helm", s.Helm)
		c.expressions(field+".helm", tree(s.Helm), inside)
	case s.Manifests != nil:
		c.serviceName(field+".manifests.name", s.Manifests.Name)
		for name, value := range s.Manifests.Parameters {
			switch value.(type) {
			case nil, map[string]any, []any:
				c.Fault(field+".manifests.parameters."+name, "write a text, a number, true or false", "a parameter is one value")
			}
		}
		c.expressions(field+".manifests", tree(s.Manifests), inside)
	case s.Service != nil:
		c.serviceName(field+".service.name", s.Service.Name)
		c.expressions(field+".service", tree(s.Service), inside)
	case s.Wait != nil:
		c.wait(field+".wait", s.Wait)
		c.expressions(field+".wait", tree(s.Wait), inside)
	}
}

// tree is a step's part as a decoded tree.
func tree(part any) any {
	data, err := json.Marshal(part)
	if err != nil {
		return nil // what was decoded from YAML is JSON
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return nil
	}
	return v
}

func (c *checker) serviceName(field, name string) {
	if !strings.Contains(name, "${") {
		c.name(field, name)
	}
}

func (c *checker) terraform(field string, t *Terraform) {
	c.rangeOf(field+".version", t.Version)
	for _, name := range slices.Sorted(maps.Keys(t.Inputs)) {
		if !isHCLName(name) {
			c.Fault(field+".inputs."+name, "use a letter, then letters, digits, _ and -", "%s can be no variable of a module", yamlstrict.Quote(name))
		}
	}
}

func isHCLName(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

func (c *checker) helm(field string, h *Helm) {
	c.serviceName(field+".name", h.Name)
	switch {
	case h.Path == "" && h.Source == nil:
		c.Fault(field, "give the path of a chart in the package, or a source", "a chart that is nowhere")
	case h.Path != "" && h.Source != nil:
		c.Fault(field+".source", "keep one of them", "both path and source")
	case h.Path != "" && (h.Chart != "" || h.Version != ""):
		c.Fault(field, "remove chart and version: a chart in the package has its own", "a chart or version beside path")
	case h.Source != nil && h.Version == "":
		c.Fault(field, "add version: the chart's, exactly", "a chart of a source without a version")
	}
	if h.Source != nil {
		c.name(field+".source.name", h.Source.Name)
	}
	if h.Version != "" {
		c.version(field+".version", strings.TrimPrefix(h.Version, "v"))
	}
}

// conditions is the language of what a wait step looks at. It is made once: it takes longer than the expressions do.
//
//nolint:gochecknoglobals // it never changes
var conditions = sync.OnceValues(func() (*cel.Env, error) { return boundcel.Environment("object") })

func (c *checker) wait(field string, w *Wait) {
	if w.HTTP == nil && w.Object == nil && len(w.Services) == 0 {
		c.Fault(field, "add http, object or services", "nothing to wait for")
	}
	if w.Timeout != "" && !strings.Contains(w.Timeout, "${") {
		if d, err := time.ParseDuration(w.Timeout); err != nil || d <= 0 || d > maxTimeout {
			c.Fault(field+".timeout", `write one like "90s" or "5m", of a day at most`, "%s is no duration", yamlstrict.Quote(w.Timeout))
		}
	}
	if w.HTTP != nil {
		if !strings.Contains(w.HTTP.URL, "${") {
			c.address(field+".http.url", w.HTTP.URL)
		}
		if s := w.HTTP.Status; s != 0 && (s < 100 || s > 599) {
			c.Fault(field+".http.status", "use 100 to 599", "%d is no status of HTTP", s)
		}
	}
	if w.Object != nil {
		c.object(field+".object", w.Object)
	}
	for i, name := range w.Services {
		step, ok := c.pkg.Step(name)
		if !ok || !step.IsService() {
			c.Fault(fmt.Sprintf("%s.services[%d]", field, i), "name a helm, manifests or service step", "%s is no step that becomes a Service", yamlstrict.Quote(name))
		}
	}
}

func (c *checker) object(field string, o *WaitObject) {
	env, err := conditions()
	if err != nil {
		c.Fault(field, "", "%v", err)
		return
	}
	check := func(field, text string, wanted *cel.Type) {
		if strings.Contains(text, "${") {
			return // known when it has a value
		}
		if _, err := boundcel.Compile(env, text, wanted); err != nil {
			c.Fault(field, "write CEL over the variable object, without ${}", "not an expression: %s", boundcel.Brief(err))
		}
	}
	if o.Condition != "" {
		check(field+".condition", o.Condition, cel.BoolType)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Outputs)) {
		c.variable(field+".outputs."+name, name)
		check(field+".outputs."+name, o.Outputs[name], nil)
	}
	for i, name := range o.SecretOutputs {
		if _, ok := o.Outputs[name]; !ok {
			known := slices.Sorted(maps.Keys(o.Outputs))
			c.Fault(fmt.Sprintf("%s.secretOutputs[%d]", field, i), yamlstrict.DidYouMean(name, known, "outputs"), "%s is no output", yamlstrict.Quote(name))
		}
	}
}

func (c *checker) needs(field string, s *Step) {
	var known []string
	for i := range c.pkg.Spec.Steps {
		known = append(known, c.pkg.Spec.Steps[i].Name)
	}
	for i, name := range s.Needs {
		if !slices.Contains(known, name) {
			c.Fault(fmt.Sprintf("%s.needs[%d]", field, i), yamlstrict.DidYouMean(name, known, "steps"), "step %s does not exist", yamlstrict.Quote(name))
		}
	}
}

// Needs are the steps that must be done before a step: those that it names, whose outputs it reads, and whose Services it
// waits for; in the order in which the package has them.
func (p *Package) Needs(step string) []string {
	s, ok := p.Step(step)
	if !ok {
		return nil
	}
	read := &checker{&yamlstrict.Document{Faults: &yamlstrict.Faults{}, Fields: map[string]fleet.Position{}}, p, stepRefs{}}
	read.condition("", s.When, scope{steps: true, step: step})
	read.readBy(s)
	return p.needed(s, read.refs)
}

// readBy collects what a step reads from other steps.
func (c *checker) readBy(s *Step) {
	for _, part := range []any{s.Terraform, s.Helm, s.Manifests, s.Service, s.Wait} {
		c.expressions("", tree(part), scope{steps: true, step: s.Name})
	}
}

func (p *Package) needed(s *Step, refs stepRefs) []string {
	wanted := slices.Concat(s.Needs, refs[s.Name])
	if s.Wait != nil {
		wanted = append(wanted, s.Wait.Services...)
	}
	var all []string
	for i := range p.Spec.Steps {
		if name := p.Spec.Steps[i].Name; slices.Contains(wanted, name) {
			all = append(all, name)
		}
	}
	return all
}

// cycles reports steps that wait for each other.
func (c *checker) cycles() {
	const open, done = 1, 2
	state := map[string]int{}
	var way []string
	var visit func(step *Step)
	visit = func(step *Step) {
		switch state[step.Name] {
		case done:
			return
		case open:
			c.reportCycle(append(slices.Clone(way[slices.Index(way, step.Name):]), step.Name))
			return
		}
		state[step.Name] = open
		way = append(way, step.Name)
		for _, name := range c.pkg.needed(step, c.refs) {
			if next, ok := c.pkg.Step(name); ok {
				visit(next)
			}
		}
		way = way[:len(way)-1]
		state[step.Name] = done
	}
	for i := range c.pkg.Spec.Steps {
		visit(&c.pkg.Spec.Steps[i])
	}
}

func (c *checker) reportCycle(way []string) {
	field := "spec.steps"
	for i := range c.pkg.Spec.Steps {
		if c.pkg.Spec.Steps[i].Name == way[0] {
			field = fmt.Sprintf("spec.steps[%d]", i)
		}
	}
	c.Fault(field, "take one of the needs away, or one of the outputs that are read", "steps wait for each other: %s", strings.Join(way, " -> "))
}

// checkFiles checks that what the steps name is in the folder.
func (p *Package) checkFiles(files fs.FS, faults *yamlstrict.Faults) error {
	for i := range p.Spec.Steps {
		s, field := &p.Spec.Steps[i], fmt.Sprintf("spec.steps[%d]", i)
		var name, want string
		switch {
		case s.Terraform != nil:
			field, name, want = field+".terraform.path", s.Terraform.Path, ".tf"
		case s.Helm != nil && s.Helm.Path != "":
			field, name, want = field+".helm.path", s.Helm.Path, "Chart.yaml"
		case s.Manifests != nil:
			field, name = field+".manifests.path", s.Manifests.Path
		case s.Service != nil:
			field, name = field+".service.spec.source.path", s.Service.path()
		}
		if name == "" {
			continue
		}
		message, err := folderFault(files, name, want)
		if err != nil {
			return err
		}
		if message != "" {
			faults.Add(p.Place(field), "give a folder of the package, from its root", "%s %s", yamlstrict.Quote(name), message)
		}
	}
	return nil
}

// path is the folder that the Service renders, if it is one of the package and written out.
func (s *Service) path() string {
	source, _ := s.Spec["source"].(map[string]any)
	name, _ := source["path"].(string)
	if _, elsewhere := source["name"]; elsewhere || strings.Contains(name, "${") {
		return ""
	}
	return name
}

// folderFault says what is wrong with a folder that must hold a file with a name that ends so. The error is one of reading.
func folderFault(files fs.FS, name, want string) (string, error) {
	if !fs.ValidPath(name) || name == "." || strings.Contains(name, `\`) {
		return "is no path inside of the package", nil
	}
	if strings.Contains(name, "${") {
		return "must not have expressions: what a package holds does not depend on answers", nil
	}
	entries, err := fs.ReadDir(files, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist", nil
	case err != nil:
		if info, statErr := fs.Stat(files, name); statErr == nil && !info.IsDir() {
			return "is no folder", nil
		}
		return "", fmt.Errorf("list %q: %w", name, err)
	case len(entries) == 0:
		return "is empty", nil
	case want == "":
		return "", nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), want) || want == ".tf" && strings.HasSuffix(e.Name(), ".tf.json") {
			return "", nil
		}
	}
	if want == ".tf" {
		want = "file of terraform (.tf)"
	}
	return "has no " + want, nil
}
