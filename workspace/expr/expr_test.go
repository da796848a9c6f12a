package expr_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/workspace/expr"
)

func vars() map[string]any {
	return map[string]any{
		"answers": map[string]any{
			"domain": "example.org", "replicas": 3, "ratio": 0.5, "on": true, "none": nil, "password": "hunter2",
			"hosts": []string{"a", "b"}, "labels": map[string]string{"app": "web"}, "namespace": "prod",
		},
		"steps":     map[string]any{"my-step": map[string]any{"outputs": map[string]any{"port": int64(80)}}},
		"packages":  map[string]any{"dns": map[string]any{"outputs": map[string]any{}}},
		"workspace": map[string]any{"hubURL": "https://hub"},
		"self":      map[string]any{"version": "1.2.3"},
	}
}

func TestATextOfOneExpressionBecomesItsValue(t *testing.T) {
	for text, want := range map[string]any{
		`plain`:                                         "plain",
		`${answers.domain}`:                             "example.org",
		`${answers.replicas}`:                           int64(3),
		`${answers.replicas + 1}`:                       int64(4),
		`${answers.ratio * 2.0}`:                        1.0,
		`${answers.on}`:                                 true,
		`${answers.none}`:                               nil,
		`${answers.hosts}`:                              []any{"a", "b"},
		`${answers.labels}`:                             map[string]any{"app": "web"},
		`${answers.namespace}`:                          "prod",
		`${answers.hosts.map(h, h + ".x")}`:             []any{"a.x", "b.x"},
		`${{"a": [1, {"b": "}"}]}}`:                     map[string]any{"a": []any{int64(1), map[string]any{"b": "}"}}},
		`${steps["my-step"].outputs.port}`:              int64(80),
		`${has(packages.dns.outputs.host)}`:             false,
		`${packages.dns.outputs.?host.orValue("none")}`: "none",
		`https://${answers.domain}:${steps["my-step"].outputs.port}/`: "https://example.org:80/",
		`${answers.on}-${answers.ratio}`:                              "true-0.5",
		`$${answers.domain}`:                                          "${answers.domain}",
		`a $${ b } ${self.version}`:                                   "a ${ b } 1.2.3",
		`$ $$ $1 }`:                                                   "$ $$ $1 }",
		`${"}"}`:                                                      "}",
		`${'\'}'}`:                                                    "'}",
		`${r'\'}`:                                                     `\`,
		`${"""a"}b"""}`:                                               `a"}b`,
		"${1 // }\n + 1}":                                             int64(2),
		`${"${answers.domain}"}`:                                      "${answers.domain}",
	} {
		tree, err := expr.Compile(map[string]any{"k": []any{text}})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := tree.Eval(vars())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if d := cmp.Diff(map[string]any{"k": []any{want}}, got); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
}

func TestAValueNeverBecomesAnExpression(t *testing.T) {
	hostile := []string{"../x", "${self.version}", "${", "}", "a\nb: c", "-rf", "'", `"`, "\x00", "\u202e", "{{ .x }}", "%{ if }", strings.Repeat("ä", 10_000)}
	for _, value := range hostile {
		tree, err := expr.Compile(map[string]any{"whole": "${answers.x}", "part": "<${answers.x}>"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := tree.Eval(map[string]any{"answers": map[string]any{"x": value}})
		if d := cmp.Diff(map[string]any{"whole": value, "part": "<" + value + ">"}, got); d != "" || err != nil {
			t.Errorf("%q: %v %s", value, err, d)
		}
	}
}

func TestWhatAnExpressionReadsIsKnownWithoutItsValue(t *testing.T) {
	for text, want := range map[string][]string{
		`${answers.a.b}`:                          {"answers.a.b"},
		`${steps["my-step"].outputs["x"]}`:        {"steps.my-step.outputs.x"},
		`${steps.a.?outputs.?b.orValue(1)}`:       {"steps.a.outputs.b"},
		`${has(packages.dns.outputs.host)}`:       {"packages.dns.outputs.host"},
		`${answers.hosts[0].name}`:                {"answers.hosts.0.name"},
		`${answers[answers.which]}`:               {"answers", "answers.which"},
		`${answers.m[self.name].x.y}`:             {"answers.m", "self.name"},
		`${answers.hosts.all(h, h == answers.d)}`: {"answers.d", "answers.hosts"},
		`${answers.l.map(self, self.x)}`:          {"answers.l"},
		`${answers.on ? steps.a : steps.b}`:       {"answers.on", "steps.a", "steps.b"},
		`${[answers.a, {"k": answers.b}]}`:        {"answers.a", "answers.b"},
		`${(answers.on ? steps.a : steps.b).x}`:   {"answers.on", "steps.a", "steps.b"},
		`a${answers.a}b${answers.a + answers.c}`:  {"answers.a", "answers.c"},
		`${answers.a.startsWith(answers.b)}`:      {"answers.a", "answers.b"},
		`${"x"}`:                                  nil,
		`$${answers.a}`:                           nil,
	} {
		tree, err := expr.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, r := range tree.Refs() {
			got = append(got, r.String())
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
}

func TestAReferenceTouchesWhatItMayRead(t *testing.T) {
	secret := []string{"steps", "db", "outputs", "password"}
	for path, want := range map[string]bool{
		"steps.db.outputs.password": true, "steps.db.outputs.password.x": true, "steps.db": true, "steps": true,
		"steps.db.outputs.host": false, "answers.password": false,
	} {
		if got := (expr.Ref{Path: strings.Split(path, ".")}).Touches(secret...); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestLeavesSayWhereExpressionsStand(t *testing.T) {
	tree, err := expr.Compile(map[string]any{"b": []any{"x", "${answers.a}"}, "a": map[string]any{"0": "${self.name}"}, "c": 1})
	if err != nil {
		t.Fatal(err)
	}
	want := []expr.Leaf{
		{Path: []string{"a", "0"}, Refs: []expr.Ref{{Path: []string{"self", "name"}}}},
		{Path: []string{"b", "1"}, Refs: []expr.Ref{{Path: []string{"answers", "a"}}}},
	}
	if d := cmp.Diff(want, tree.Leaves()); d != "" {
		t.Error(d)
	}
}

func TestAMistakeIsToldWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		`${HOME}/bin`:            `a.b[0]: "HOME": undeclared reference to 'HOME'`,
		`${answers.a`:            `there is no } for its ${`,
		`${answers.}`:            `a.b[0]: "answers.": Syntax error`,
		`${}`:                    `Syntax error`,
		`${"a" + }`:              `Syntax error`,
		`${answers.nothing}`:     `a.b[0]: "answers.nothing": no such key: nothing`,
		`x ${answers.hosts}`:     `it gives a list, which has no place inside a text`,
		`x ${answers.none}`:      `it gives null, which has no place inside a text`,
		`${b"bytes"}`:            `make a text of it with string()`,
		`${{1: 2}}`:              `a map with keys that are not text`,
		`${int(answers.domain)}`: `type conversion error`,
		`${duration("1s")}`:      `make a text of it with string()`,
		"${" + strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200) + "}": `"((((`,
		"${" + strings.Repeat("1+", 5000) + "1}":                               `more than the 8192 of an expression`,
	} {
		tree, err := expr.Compile(map[string]any{"a": map[string]any{"b": []any{text}}})
		if err == nil {
			_, err = tree.Eval(vars())
		}
		var e *expr.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80s: %v, not %s", text, err, want)
		}
	}
}

func TestAnErrorTellsNoSecret(t *testing.T) {
	secret := func(r expr.Ref) bool { return r.Touches("answers", "password") }
	for _, text := range []string{
		`${int(answers.password)}`, `${steps[answers.password]}`, `${"a".matches(answers.password + "(")}`, `${timestamp(answers.password)}`,
		`${answers.labels[answers.password]}`,
	} {
		tree, err := expr.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tree.EvalHiding(vars(), secret); err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(fmt.Sprintf("%+v", err), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := expr.Bool(text, vars()); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
	tree, err := expr.Compile("${answers.nothing + answers.password}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.EvalHiding(vars(), secret); err == nil || !strings.Contains(err.Error(), "no such key: nothing") {
		t.Errorf("%v", err)
	}
}

func TestAConditionIsTrueOrFalse(t *testing.T) {
	for text, want := range map[string]bool{"": true, "${answers.on}": true, "${answers.replicas > 3}": false, "${!has(answers.x)}": true} {
		if got, err := expr.Bool(text, vars()); got != want || err != nil {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"true", "${answers.domain}", "${answers.on} ", "${"} {
		if _, err := expr.Bool(text, vars()); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func TestWhatAnExpressionCostsIsBounded(t *testing.T) {
	long := make([]any, 2000)
	for i := range long {
		long[i] = i
	}
	for name, tree := range map[string]any{
		"loops":   `${answers.l.all(a, answers.l.all(b, answers.l.all(c, a + b + c >= 0)))}`,
		"doubles": `${[1].map(a, [a,a,a,a,a,a,a,a]).map(a, [a,a,a,a,a,a,a,a]).map(a, [a,a,a,a,a,a,a,a]).map(a, [a,a,a,a,a,a,a,a]).map(a, [a,a,a,a,a,a,a,a]).map(a, [a,a,a,a,a,a,a,a])}`,
		"many":    slicesOf("${answers.l}", 1000),
		"texts":   slicesOf("${answers.t}", 1000),
	} {
		compiled, err := expr.Compile(tree)
		if err == nil {
			_, err = compiled.Eval(map[string]any{"answers": map[string]any{"l": long, "t": strings.Repeat("x", 1<<16)}})
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := expr.Compile(slicesOf("${1}", expr.MaxExpressions+1)); err == nil {
		t.Error("too many expressions were taken")
	}
	var deep any = "x"
	for range expr.MaxDepth + 2 {
		deep = []any{deep}
	}
	if _, err := expr.Compile(deep); err == nil {
		t.Error("a tree too deep was taken")
	}
}

func slicesOf(text string, n int) []any {
	l := make([]any, n)
	for i := range l {
		l[i] = text
	}
	return l
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"a", "${answers.a}", "$${", "${'}'}x${1}", "${[1,2].map(a, a)}", "${answers[self.name].?x}", "${\"\"\"", "${//"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := expr.Compile([]any{text})
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: error of several lines: %v", text, err)
			}
			return
		}
		first, err := tree.Eval(vars())
		again, errAgain := tree.Eval(vars())
		if (err == nil) != (errAgain == nil) || err == nil && !reflect.DeepEqual(first, again) {
			t.Errorf("%q is %v (%v), then %v (%v)", text, first, err, again, errAgain)
		}
		if !strings.Contains(text, "${") && !reflect.DeepEqual(first, []any{text}) {
			t.Errorf("%q became %v", text, first)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	tree := map[string]any{"a": "${answers.domain}", "b": []any{"https://${answers.domain}/x", "${answers.replicas > 3 ? 2 : 1}"}}
	for b.Loop() {
		if _, err := expr.Compile(tree); err != nil {
			b.Fatal(err)
		}
	}
}
