package resolve

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/fleet"
)

// tests fills in the texts of a service's tests, and says which variant of them the result is: empty when the texts hold
// no template, so that every cluster has the same.
func (t templates) tests(list []fleet.Test) ([]fleet.Test, string, *Problem) {
	text, err := json.Marshal(list)
	if err != nil {
		return nil, "", t.problem("spec.tests", err.Error(), "")
	}
	if !strings.Contains(string(text), "{{") {
		return list, "", nil
	}
	out := slices.Clone(list)
	for i := range out {
		if problem := t.test(&out[i], fmt.Sprintf("spec.tests[%d]", i)); problem != nil {
			return nil, "", problem
		}
	}
	if text, err = json.Marshal(out); err != nil {
		return nil, "", t.problem("spec.tests", err.Error(), "")
	}
	sum := sha256.Sum256(text)
	return out, hex.EncodeToString(sum[:8]), nil
}

// test fills in one test, whose parts are the fleet's: they are replaced, not changed.
func (t templates) test(test *fleet.Test, at string) *Problem {
	if test.HTTP != nil {
		filled := *test.HTTP
		test.HTTP = &filled
		return t.http(&filled, at+".http")
	}
	if test.Job != nil {
		job, problem := t.value(test.Job, at+".job")
		if problem == nil {
			test.Job, _ = job.(map[string]any) // value keeps the type
		}
		return problem
	}
	test.CEL = slices.Clone(test.CEL)
	for i := range test.CEL {
		a, at := &test.CEL[i], fmt.Sprintf("%s.cel[%d]", at, i)
		problem := t.texts(map[string]*string{
			at + ".namespace": &a.Namespace, at + ".name": &a.Name, at + ".selector": &a.Selector,
			at + ".expression": &a.Expression, at + ".message": &a.Message,
		})
		if problem != nil {
			return problem
		}
	}
	return nil
}

func (t templates) http(test *fleet.HTTPTest, at string) *Problem {
	headers := make(map[string]string, len(test.Headers))
	for _, name := range slices.Sorted(maps.Keys(test.Headers)) {
		var problem *Problem
		if headers[name], problem = t.text(test.Headers[name], at+".headers."+name); problem != nil {
			return problem
		}
	}
	test.Headers = headers
	return t.texts(map[string]*string{at + ".path": &test.Path, at + ".body": &test.Body, at + ".contains": &test.Contains})
}

// texts fills in texts in place, by field. Of several problems it is always the same that is told.
func (t templates) texts(fields map[string]*string) *Problem {
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		out, problem := t.text(*fields[field], field)
		if problem != nil {
			return problem
		}
		*fields[field] = out
	}
	return nil
}
