package packages_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/workspace/packages"
)

const asking = head + `
  questions:
  - {name: domain, type: string, pattern: "[a-z.]+", max: 20}
  - {name: host, type: string, default: "app.${answers.domain}"}
  - {name: replicas, type: int, default: 2, min: 1, max: 9}
  - {name: ratio, type: number, default: 0.5}
  - {name: ha, type: bool, default: "${answers.replicas > 2}"}
  - {name: zones, type: list, when: "${answers.ha}", pattern: "[a-z]", min: 2}
  - {name: labels, type: map, default: {}}
  - {name: size, type: enum, options: [small, large], default: small}
  - {name: note, type: string, optional: true}
  - {name: password, type: secret, min: 8, generate: {length: 12}}
  - {name: hub, type: string, default: "${workspace.hubURL}"}
  steps: []
`

func questions(t *testing.T) *packages.Package {
	t.Helper()
	p, err := packages.Load(folder(asking))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func facts() map[string]any {
	return map[string]any{"workspace": map[string]any{"hubURL": "https://hub"}}
}

func TestAnswersAreFilledInFromDefaults(t *testing.T) {
	a, err := questions(t).Answers(map[string]any{"domain": "x.org", "password": "hunter222"}, facts())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"domain": "x.org", "host": "app.x.org", "replicas": int64(2), "ratio": 0.5, "ha": false, "zones": nil, "labels": map[string]any{},
		"size": "small", "note": nil, "password": "hunter222", "hub": "https://hub",
	}
	if d := cmp.Diff(want, a.Values); d != "" {
		t.Error(d)
	}
	if len(a.Missing) > 0 || !a.Secret["password"] || len(a.Secret) != 1 {
		t.Errorf("missing %v, secret %v", a.Missing, a.Secret)
	}
}

func TestAnOptionNeedsNoQuotesInAFileOfAnswers(t *testing.T) {
	text := strings.Replace(asking, "options: [small, large], default: small", `options: [auto, "true", "3"]`, 1)
	p, err := packages.Load(folder(text))
	if err != nil {
		t.Fatal(err)
	}
	for want, given := range map[string]any{"auto": "auto", "true": true, "3": 3} {
		a, err := p.Answers(map[string]any{"domain": "x.org", "password": "hunter222", "size": given}, facts())
		if err != nil || a.Values["size"] != want {
			t.Errorf("%v: %v", given, err)
		}
	}
	if _, err := p.Answers(map[string]any{"domain": "x.org", "password": "hunter222", "size": false}, facts()); err == nil {
		t.Error("false is taken, and no option")
	}
}

func TestWhatIsMissingIsListedAtOnce(t *testing.T) {
	a, err := questions(t).Answers(map[string]any{"domain": "x.org", "replicas": 3}, facts())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, q := range a.Missing {
		names = append(names, q.Name)
	}
	if d := cmp.Diff([]string{"zones", "password"}, names); d != "" {
		t.Error(d)
	}
}

func TestWhatDependsOnAMissingAnswerWaitsForIt(t *testing.T) {
	p, err := packages.Load(folder(head + `
  questions:
  - {name: a, type: string}
  - {name: b, type: string, default: "x${answers.a}"}
  - {name: c, type: string, when: "${answers.b == 'x'}"}
  - {name: d, type: string}
  - {name: e, type: int, default: "${size(answers.b)}"}
`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.Answers(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Missing) != 2 || a.Missing[0].Name != "a" || a.Missing[1].Name != "d" {
		t.Errorf("missing are %v", a.Missing)
	}
}

func TestAnAnswerThatWillNotDoNamesItsRule(t *testing.T) {
	for name, c := range map[string]struct {
		given map[string]any
		want  string
	}{
		"pattern":      {map[string]any{"domain": "UP"}, `"domain": the answer must match [a-z.]+: answer it anew: --set domain=`},
		"part":         {map[string]any{"domain": "a b"}, "must match"},
		"second line":  {map[string]any{"domain": "a\nb"}, "must match"},
		"long":         {map[string]any{"domain": strings.Repeat("a", 10_000)}, "must be at most 20 characters"},
		"least":        {map[string]any{"replicas": 0}, "must be at least 1"},
		"most":         {map[string]any{"replicas": 10.0}, "must be at most 9"},
		"fraction":     {map[string]any{"replicas": 1.5}, "must be a whole number"},
		"text for int": {map[string]any{"replicas": "3"}, "must be a whole number"},
		"text":         {map[string]any{"ha": "yes"}, "must be true or false"},
		"enum":         {map[string]any{"size": "huge"}, "must be one of small, large"},
		"list":         {map[string]any{"domain": "a", "ha": true, "zones": "a"}, "must be a list of texts"},
		"entry":        {map[string]any{"ha": true, "zones": []any{"a", "B"}}, "each must match [a-z]"},
		"entries":      {map[string]any{"ha": true, "zones": []any{"a"}}, "must be at least 2 entries"},
		"map":          {map[string]any{"labels": []any{"a"}}, "must be a map of texts"},
		"map's value":  {map[string]any{"labels": map[string]any{"a": 1}}, "must be a map of texts"},
		"number":       {map[string]any{"ratio": "x"}, "must be a number"},
		"unknown":      {map[string]any{"domian": "x"}, `"domian": the package does not ask it: did you mean "domain"?`},
		"secret":       {map[string]any{"password": "hunter"}, "must be at least 8 characters: answer it anew: write it into a file for --answers"},
	} {
		given := map[string]any{"domain": "x.org"}
		for k, v := range c.given {
			given[k] = v
		}
		a, err := questions(t).Answers(given, facts())
		var fault *packages.AnswerError
		if !errors.As(err, &fault) || a != nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v, not %s", name, err, c.want)
		}
	}
}

func TestHostileAnswersStayWhatTheyAre(t *testing.T) {
	p, err := packages.Load(folder(head + "  questions: [{name: x, type: string}, {name: y, type: list, default: [\"${answers.x}\"]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{
		"../x", "${self.version}", "$${", "a\nb: c", "-rf", "--set", "'", `"`, "{{ .x }}", "%{ if }", "\x00", "\u202e", "", " ", strings.Repeat("\u00e4", 10_000),
	} {
		a, err := p.Answers(map[string]any{"x": value}, nil)
		if err != nil {
			t.Errorf("%q: %v", value, err)
			continue
		}
		if d := cmp.Diff(map[string]any{"x": value, "y": []any{value}}, a.Values); d != "" {
			t.Errorf("%q: %s", value, d)
		}
	}
}

func TestAnswersAreReadFromFlags(t *testing.T) {
	p := questions(t)
	for text, want := range map[string]any{
		"domain=a.b": "a.b", "replicas=3": int64(3), "ratio=1": 1.0, "ha=true": true, "zones=a, b": []any{"a", "b"}, "labels=a=1,b=x=y": map[string]any{"a": "1", "b": "x=y"},
		"labels=": map[string]any{}, "size=large": "large",
	} {
		name, value, _ := strings.Cut(text, "=")
		q, _ := p.Question(name)
		got, err := q.Parse(value)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", text, err, d)
		}
	}
	for _, text := range []string{"replicas=x", "ratio=", "ha=maybe", "labels=a", "labels==b", "size=", "domain=A"} {
		name, value, _ := strings.Cut(text, "=")
		q, _ := p.Question(name)
		if got, err := q.Parse(value); err == nil {
			t.Errorf("%s gives %v", text, got)
		}
	}
}

func TestASecretThatIsMadeUpIsLongAndNew(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		secret, err := (&packages.Generate{Length: 12}).Make()
		if err != nil || len(secret) != 12 || seen[secret] {
			t.Fatalf("%q %v", secret, err)
		}
		seen[secret] = true
	}
	if secret, err := (&packages.Generate{}).Make(); len(secret) != 32 || err != nil {
		t.Errorf("%q %v", secret, err)
	}
}

func FuzzAnswers(f *testing.F) {
	p, err := packages.Load(folder(asking))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a.b", "3", "a,b", "a=b")
	f.Fuzz(func(t *testing.T, domain, replicas, zones, labels string) {
		given := map[string]any{}
		for name, text := range map[string]string{"domain": domain, "replicas": replicas, "zones": zones, "labels": labels} {
			q, _ := p.Question(name)
			if value, err := q.Parse(text); err == nil {
				given[name] = value
			}
		}
		a, err := p.Answers(given, facts())
		if err != nil {
			t.Fatalf("what was parsed is refused: %v", err)
		}
		again, err := p.Answers(a.Values, facts())
		if err != nil {
			t.Fatalf("answers are refused: %v", err)
		}
		if d := cmp.Diff(a.Values, again.Values); d != "" {
			t.Error(d)
		}
	})
}
