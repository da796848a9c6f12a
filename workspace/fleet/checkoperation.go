package fleet

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/internal/yamlstrict"
)

// Bounds of what a service or the workspace says about how things are applied, judged and tried. They are far above what
// is useful: whatever is within them travels to every cluster with every change.
const (
	maxExpression   = 8 << 10 // bytes of one expression or script
	maxHealthRules  = 50
	maxTests        = 20
	maxAssertions   = 50
	maxFieldRules   = 100
	maxRecreate     = 50
	maxTokens       = 10_000 // one for each service, or for each cluster, of a large fleet
	maxNamespaces   = 100
	maxDependencies = 100
	maxPlugins      = 50
	maxHooks        = 50
	maxHeaders      = 20
	maxJob          = 64 << 10 // bytes of a manifest as JSON
	maxBody         = 16 << 10 // bytes
	maxText         = 2 << 10  // bytes of any other text
	maxRetries      = 20
	minTimeout      = time.Second
	maxTimeout      = time.Hour
)

var (
	// kindGroup is KIND or KIND.GROUP.
	kindGroup = lazily(`^[A-Z][A-Za-z0-9]{0,62}(\.[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?)?$`)
	// subdomain is a DNS subdomain (RFC 1123): the name of most objects.
	subdomain = lazily(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	// apiVersion is the version of an API, without its group.
	apiVersion = lazily(`^v[0-9]{1,4}((alpha|beta)[0-9]{1,4})?$`)
	// pointer is a JSON pointer (RFC 6901) that names something in a document.
	pointer = lazily(`^(/([^~/]|~[01])*)+$`)
	// header is a header's name.
	header = lazily("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
	// port is a number or a name.
	port = lazily(`^([1-9][0-9]{0,4}|[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?)$`)
)

const kindFix = `write KIND, or KIND.GROUP such as "Certificate.cert-manager.io"`

func (d *document) checkKind(path, kind string) {
	if kind != "" && !kindGroup().MatchString(kind) {
		d.Fault(path, kindFix, "bad kind %s", yamlstrict.Quote(kind))
	}
}

// checkCount bounds a list.
func (d *document) checkCount(path, what string, n, most int) {
	if n > most {
		d.Fault(index(path, most), "take some out", "more than %d %s", most, what)
	}
}

// checkText bounds a text, and keeps what a terminal or a header would act on out of it.
func (d *document) checkText(path, text string, most int) {
	switch {
	case len(text) > most:
		d.Fault(path, "shorten it", "%s is longer than %d bytes", path, most)
	case strings.ContainsRune(text, 0):
		d.Fault(path, "remove it", "%s holds a zero byte", path)
	}
}

func (d *document) checkObjectName(path, name string) {
	if name != "" && !subdomain().MatchString(name) {
		d.Fault(path, "use lower-case letters, digits, dashes and dots", "bad name %s in %s", yamlstrict.Quote(name), path)
	}
}

func (d *document) checkTokens(path string, tokens []string) {
	d.checkCount(path, "tokens", len(tokens), maxTokens)
	for i, token := range tokens {
		at := index(path, i)
		if !budget.IsToken(token) && !d.Faults.Has(yamlstrict.Place(d.Fields, at, d.Position())) {
			d.Fault(at, `write 12 hex digits, or TOKEN@CLUSTER, in quotes, or let "plural service ack" write them`, "bad token %s",
				yamlstrict.Quote(token))
		}
	}
}

// checkAccount wants NAME or NAMESPACE/NAME.
func (d *document) checkAccount(path, account string) {
	if account == "" {
		return
	}
	namespace, name, both := strings.Cut(account, "/")
	if !both {
		namespace, name = "default", account
	}
	if len(namespace) > 63 || !isLabel(namespace) || !subdomain().MatchString(name) {
		d.Fault(path, "write NAME, or NAMESPACE/NAME", "bad service account %s", yamlstrict.Quote(account))
	}
}

// checkNamespaces wants the service's own namespace among those that it may touch.
func (d *document) checkNamespaces(s ServiceSpec) {
	const at = "spec.allowedNamespaces"
	d.checkCount(at, "namespaces", len(s.AllowedNamespaces), maxNamespaces)
	own, listed := s.Namespace, len(s.AllowedNamespaces) == 0
	if own == "" {
		own = "default"
	}
	for i, namespace := range s.AllowedNamespaces {
		d.checkName(index(at, i), namespace)
		listed = listed || namespace == own
	}
	if !listed {
		d.Fault(at, "add it, or set spec.namespace to one of them", "the service's own namespace, %s, is not among the allowed ones", yamlstrict.Quote(own))
	}
}

func (d *document) checkDependsOn(list []Dependency) {
	d.checkCount("spec.dependsOn", "dependencies", len(list), maxDependencies)
	for i, dep := range list {
		at := index("spec.dependsOn", i)
		if dep.Version != "" && !isRange(dep.Version) {
			d.Fault(at+".version", `write a range of versions such as ">=1.14 <2"`, "bad version range %s", yamlstrict.Quote(dep.Version))
		}
	}
}

func (d *document) checkSync(path string, s Sync) {
	d.checkBudget(path+".deletionBudget", s.DeletionBudget)
	d.checkCount(path+".fields", "policies of fields", len(s.Fields), maxFieldRules)
	for i, f := range s.Fields {
		d.checkField(index(path+".fields", i), f)
	}
	d.checkCount(path+".recreate", "kinds", len(s.Recreate), maxRecreate)
	for i, kind := range s.Recreate {
		d.checkRecreate(index(path+".recreate", i), kind)
	}
	d.checkTokens(path+".acknowledged", s.Acknowledged)
}

func (d *document) checkField(at string, f FieldRule) {
	d.checkKind(at+".kind", f.Kind)
	d.checkName(at+".namespace", f.Namespace)
	d.checkText(at+".name", f.Name, maxText)
	switch {
	case f.Pointer == "": // missing, and reported as such
	case len(f.Pointer) > maxText || !pointer().MatchString(f.Pointer):
		d.Fault(at+".pointer", `write a JSON pointer such as "/spec/replicas", with ~1 for a slash in a name`, "bad pointer %s", yamlstrict.Quote(f.Pointer))
	case identifying(f.Pointer):
		d.Fault(at+".pointer", "remove the rule", "%s tells which object it is, and cannot be left to others", yamlstrict.Quote(f.Pointer))
	}
}

// identifying says whether a pointer names what tells one object from another.
func identifying(pointer string) bool {
	switch pointer {
	case "/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace":
		return true
	}
	return false
}

// checkRecreate refuses kinds whose deletion takes along what nobody wrote into a manifest.
func (d *document) checkRecreate(at, kind string) {
	d.checkKind(at, kind)
	switch kind {
	case "":
		d.Fault(at, kindFix, "empty kind")
	case "Namespace", "CustomResourceDefinition.apiextensions.k8s.io", "PersistentVolume", "PersistentVolumeClaim":
		d.Fault(at, "remove it, and make such an object anew by hand", "%s cannot be recreated by rule: deleting one deletes what is kept in it", kind)
	}
}

// checkHealth wants rules that somebody can keep, and one for each kind.
func (d *document) checkHealth(path string, rules []HealthRule) {
	d.checkCount(path, "rules", len(rules), maxHealthRules)
	first := map[string]int{}
	for i, r := range rules {
		at := index(path, i)
		d.checkKind(at+".kind", r.Kind)
		if n, taken := first[r.Kind]; taken && r.Kind != "" {
			d.Fault(at+".kind", "make one rule of them", "a second rule for %s; the other is %s[%d]", yamlstrict.Quote(r.Kind), path, n)
		} else {
			first[r.Kind] = i
		}
		cel := r.Healthy + r.Degraded + r.Progressing
		switch {
		case cel+r.Lua == "":
			d.Fault(at, "add healthy: EXPRESSION, or lua: SCRIPT", "rule without an expression")
		case cel+r.Message != "" && r.Lua != "":
			d.Fault(at+".lua", "keep one of them", "rule with both a script and expressions")
		}
		for field, text := range map[string]string{"healthy": r.Healthy, "degraded": r.Degraded, "progressing": r.Progressing, "message": r.Message, "lua": r.Lua} {
			d.checkText(at+"."+field, text, maxExpression)
		}
	}
}

func (d *document) checkTests(tests []Test) {
	d.checkCount("spec.tests", "tests", len(tests), maxTests)
	first := map[string]int{}
	for i := range tests {
		t, at := &tests[i], index("spec.tests", i)
		d.checkName(at+".name", t.Name)
		if n, taken := first[t.Name]; taken && t.Name != "" {
			d.Fault(at+".name", "rename one of them", "a second test named %s; the other is spec.tests[%d]", yamlstrict.Quote(t.Name), n)
		} else {
			first[t.Name] = i
		}
		if t.Timeout != "" {
			if limit, err := time.ParseDuration(t.Timeout); err != nil || limit < minTimeout || limit > maxTimeout {
				d.Fault(at+".timeout", `write a time between 1s and 1h, such as "30s"`, "bad timeout %s", yamlstrict.Quote(t.Timeout))
			}
		}
		if t.Retries > maxRetries {
			d.Fault(at+".retries", "lower it", "more than %d retries", maxRetries)
		}
		d.checkTest(at, t)
	}
}

// checkTest wants exactly one way to test.
func (d *document) checkTest(at string, t *Test) {
	var ways []string
	if t.HTTP != nil {
		ways = append(ways, "http")
		d.checkHTTP(at+".http", t.HTTP)
	}
	if t.Job != nil {
		ways = append(ways, "job")
		d.checkJob(at+".job", t.Job)
	}
	if t.CEL != nil {
		ways = append(ways, "cel")
		d.checkAssertions(at+".cel", t.CEL)
	}
	if t.Helm != nil {
		ways = append(ways, "helm")
		d.checkCount(at+".helm.hooks", "hooks", len(t.Helm.Hooks), maxHooks)
		for i, name := range t.Helm.Hooks {
			d.checkObjectName(index(at+".helm.hooks", i), name)
		}
	}
	switch {
	case len(ways) == 0:
		d.Fault(at, "add http: {...}, job: {...}, cel: [...] or helm: {}", "test that tries nothing")
	case len(ways) > 1:
		d.Fault(at+"."+ways[1], "make two tests of it", "test with more than one way: %s", strings.Join(ways, ", "))
	}
}

func (d *document) checkHTTP(at string, t *HTTPTest) {
	d.checkObjectName(at+".service", t.Service)
	d.checkName(at+".namespace", t.Namespace)
	if t.Port != "" && !port().MatchString(t.Port) {
		d.Fault(at+".port", "write a port's number or name", "bad port %s", yamlstrict.Quote(t.Port))
	}
	d.checkText(at+".path", t.Path, maxText)
	if t.Path != "" && !strings.HasPrefix(t.Path, "/") {
		d.Fault(at+".path", "begin it with a slash", "bad path %s", yamlstrict.Quote(t.Path))
	}
	if len(t.Headers) > maxHeaders {
		d.Fault(at+".headers", "take some out", "more than %d headers", maxHeaders)
	}
	for name, value := range t.Headers {
		d.checkText(at+".headers."+name, value, maxText)
		if !header().MatchString(name) || strings.ContainsAny(value, "\r\n") {
			d.Fault(at+".headers."+name, "write one line of NAME: VALUE", "bad header %s", yamlstrict.Quote(name))
		}
	}
	d.checkText(at+".body", t.Body, maxBody)
	d.checkText(at+".contains", t.Contains, maxText)
	if t.Status != 0 && (t.Status < 200 || t.Status > 599) {
		d.Fault(at+".status", "write a status from 200 to 599", "bad status %d", t.Status)
	}
}

// checkJob takes a Job, or what would be its spec.
func (d *document) checkJob(at string, job map[string]any) {
	data, err := json.Marshal(job)
	if err != nil || len(data) > maxJob {
		d.Fault(at, "shorten it", "%s is longer than %d bytes", at, maxJob)
	}
	for field, want := range map[string]string{"apiVersion": "batch/v1", "kind": "Job"} {
		if is, written := job[field]; written && is != want {
			d.Fault(at+"."+field, "write "+field+": "+want, "%s is no Job", at)
		}
	}
	spec, field := job, at
	if inner, whole := job["spec"]; whole {
		spec, _ = inner.(map[string]any)
		field += ".spec"
	}
	if _, ok := spec["template"].(map[string]any); !ok {
		d.Fault(field, "write a Job's manifest, or its spec with template: {spec: {containers: [...]}}", "job without a template of its pod")
	}
}

func (d *document) checkAssertions(at string, list []CELAssertion) {
	d.checkCount(at, "assertions", len(list), maxAssertions)
	if len(list) == 0 {
		d.Fault(at, "add {kind: ..., name: ..., expression: ...}", "test without an assertion")
	}
	for i, a := range list {
		at := index(at, i)
		d.checkKind(at+".kind", a.Kind)
		d.checkName(at+".namespace", a.Namespace)
		d.checkText(at+".name", a.Name, maxText)
		d.checkText(at+".selector", a.Selector, maxText)
		d.checkText(at+".expression", a.Expression, maxExpression)
		d.checkText(at+".message", a.Message, maxText)
		if a.Version != "" && !apiVersion().MatchString(a.Version) {
			d.Fault(at+".version", `write the API's version without its group, such as "v1"`, "bad version %s", yamlstrict.Quote(a.Version))
		}
		if a.Name != "" && a.Selector != "" {
			d.Fault(at+".selector", "keep one of them", "assertion with both a name and a selector")
		}
	}
}

// checkPlugins wants names that nothing else has.
func (d *document) checkPlugins(plugins []Plugin) {
	d.checkCount("spec.plugins", "plugins", len(plugins), maxPlugins)
	first := map[string]int{}
	for i, p := range plugins {
		at := index("spec.plugins", i) + ".name"
		d.checkName(at, p.Name)
		n, taken := first[p.Name]
		switch {
		case p.Name == "":
		case builtin(p.Name):
			d.Fault(at, "rename it", "%s is the name of a built-in renderer", yamlstrict.Quote(p.Name))
		case taken:
			d.Fault(at, "remove one of them", "a second plugin named %s; the other is spec.plugins[%d]", yamlstrict.Quote(p.Name), n)
		default:
			first[p.Name] = i
		}
	}
}
