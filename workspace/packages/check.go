package packages

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/expr"
	"github.com/pluralsh/plural/workspace/versions"
)

// How much one package may say. The bounds are far above what packages need.
const (
	maxName         = 63
	maxVersion      = 64
	maxLine         = 200
	maxDependencies = 100
	maxQuestions    = 200
	maxSteps        = 200
	maxPattern      = 512
	maxTimeout      = 24 * time.Hour
)

var (
	// label is a DNS label of any length.
	label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	// identifier is a name that expressions write after a dot.
	identifier = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]*$`)
)

// celWords are the identifiers that CEL keeps for itself, also after a dot.
func celWords() []string { return []string{"false", "in", "null", "true"} }

// checker checks one package.
type checker struct {
	*yamlstrict.Document
	pkg  *Package
	refs stepRefs
}

func (p *Package) check(c *checker) {
	s := &p.Spec
	c.name("metadata.name", p.Metadata.Name)
	c.version("spec.version", s.Version)
	c.line("spec.description", s.Description)
	if s.Home != "" {
		c.address("spec.home", s.Home)
	}
	c.provided()
	c.dependencies()
	for i, b := range s.Breaking {
		c.version(at("spec.breaking", i, "since"), b.Since)
	}
	c.questions()
	c.steps()
	c.oidc()
	c.outputs()
}

func at(list string, i int, field string) string { return fmt.Sprintf("%s[%d].%s", list, i, field) }

// name checks a name that becomes a folder, a tag and part of the names of objects.
func (c *checker) name(field, name string) {
	switch {
	case name == "":
		// missing, and reported as such
	case len(name) > maxName:
		c.Fault(field, fmt.Sprintf("use at most %d characters", maxName), "name %s is too long", yamlstrict.Quote(name))
	case !label.MatchString(name):
		c.Fault(field, "use lower-case letters, digits and dashes, with a letter or digit at both ends", "name %s is no DNS label", yamlstrict.Quote(name))
	}
}

// variable checks a name that expressions write after a dot.
func (c *checker) variable(field, name string) {
	switch {
	case name == "":
	case len(name) > maxName:
		c.Fault(field, fmt.Sprintf("use at most %d characters", maxName), "name %s is too long", yamlstrict.Quote(name))
	case !identifier.MatchString(name):
		c.Fault(field, "use a letter, then letters, digits and _", "name %s cannot be written in an expression", yamlstrict.Quote(name))
	case slices.Contains(celWords(), name):
		c.Fault(field, "use another name", "%s is a word of the expressions themselves", yamlstrict.Quote(name))
	}
}

func (c *checker) version(field, text string) {
	if text == "" {
		return
	}
	v, err := semver.StrictNewVersion(text)
	switch {
	case err != nil || len(text) > maxVersion:
		c.Fault(field, "write one like 1.4.2 or 2.0.0-rc.1", "version %s is not semantic", yamlstrict.Quote(text))
	case v.Metadata() != "":
		c.Fault(field, "leave out what stands behind the +", "version %s has build metadata, which orders nothing and fits into no tag", yamlstrict.Quote(text))
	}
}

func (c *checker) rangeOf(field, text string) {
	if _, err := versions.ParseRange(text); err != nil {
		c.Fault(field, "", "%v", err)
	}
}

func (c *checker) line(field, text string) {
	if strings.ContainsAny(text, "\r\n") || len(text) > maxLine {
		c.Fault(field, fmt.Sprintf("write one line of at most %d characters", maxLine), "text is too long")
	}
}

func (c *checker) address(field, text string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		c.Fault(field, "write one like https://example.org/path", "%s is no web address", yamlstrict.Quote(text))
	}
}

// atMost says whether a list is within its bound.
func (c *checker) atMost(field string, n, most int) bool {
	if n > most {
		c.Fault(field, "", "%d are more than %d", n, most)
	}
	return n <= most
}

// once reports the second of two equal names.
func (c *checker) once(seen map[string]bool, field, what, name string) {
	if name != "" && seen[name] {
		c.Fault(field, "keep one of them", "a second %s %s", what, yamlstrict.Quote(name))
	}
	seen[name] = true
}

func (c *checker) provided() {
	seen := map[string]bool{}
	for i, p := range c.pkg.Spec.Provides {
		field := at("spec.provides", i, "name")
		c.name(field, p.Name)
		c.once(seen, field, "provided name", p.Name)
		if p.Name != "" && p.Name == c.pkg.Metadata.Name {
			c.Fault(field, "remove it", "a package provides its own name anyway")
		}
		c.version(at("spec.provides", i, "version"), p.Version)
	}
}

func (c *checker) dependencies() {
	list := c.pkg.Spec.Dependencies
	if !c.atMost("spec.dependencies", len(list), maxDependencies) {
		return
	}
	seen := map[string]bool{}
	for i := range list {
		d, field := &list[i], fmt.Sprintf("spec.dependencies[%d]", i)
		c.name(field+".name", d.Name)
		c.once(seen, field, "dependency", d.Key())
		switch {
		case d.Package == "" && len(d.AnyOf) == 0:
			c.Fault(field, "name the package, or several with anyOf", "a dependency on nothing")
		case d.Package != "" && len(d.AnyOf) > 0:
			c.Fault(field+".anyOf", "keep one of them", "both package and anyOf")
		case len(d.AnyOf) > 0 && d.Version != "":
			c.Fault(field+".version", "give each of anyOf its own", "a version beside anyOf")
		case len(d.AnyOf) > 0 && d.Name == "":
			c.Fault(field, "add name: what expressions call it", "anyOf without a name")
		}
		c.dependsOn(field+".package", field+".version", d.Package, d.Version)
		for n, a := range d.AnyOf {
			c.dependsOn(at(field+".anyOf", n, "package"), at(field+".anyOf", n, "version"), a.Package, a.Version)
		}
	}
}

func (c *checker) dependsOn(nameField, rangeField, name, text string) {
	c.name(nameField, name)
	c.rangeOf(rangeField, text)
	if name != "" && name == c.pkg.Metadata.Name {
		c.Fault(nameField, "remove it", "the package depends on itself")
	}
}

// oidc checks the Application that the package makes. What it reads is known before anything is done: nobody logs in to what is not there.
func (c *checker) oidc() {
	o := c.pkg.Spec.OIDC
	if o == nil {
		return
	}
	c.condition("spec.oidc.when", o.When, scope{})
	c.expressions("spec.oidc.spec", o.Spec, scope{})
	if _, written := o.Spec["secretHash"]; written {
		c.Fault("spec.oidc.spec.secretHash", "write secret: ${answers.NAME}", "a package has a secret of its own in each fleet")
	}
	if o.Secret == "" {
		return
	}
	tree := c.expressions("spec.oidc.secret", o.Secret, scope{})
	secret := func(r expr.Ref) bool { return len(r.Path) == 2 && r.Path[0] == "answers" && c.isSecret(r.Path[1]) }
	if tree != nil && (!expr.Whole(o.Secret) || len(tree.Refs()) != 1 || !secret(tree.Refs()[0])) {
		c.Fault("spec.oidc.secret", "write ${answers.NAME}, of a question of type secret", "the client secret is one answer, and nothing else")
	}
}

func (c *checker) outputs() {
	for _, name := range slices.Sorted(maps.Keys(c.pkg.Spec.Outputs)) {
		field := "spec.outputs." + name
		c.variable(field, name)
		c.line(field+".description", c.pkg.Spec.Outputs[name].Description)
		c.expressions(field+".value", c.pkg.Spec.Outputs[name].Value, scope{steps: true})
	}
}
