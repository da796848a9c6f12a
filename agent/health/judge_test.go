package health_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/health"
)

// certificate is a rule as people write them.
var certificate = health.Rule{
	Group: "cert-manager.io", Kind: "Certificate",
	Healthy:     `self.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`,
	Degraded:    `has(self.status.failedIssuanceAttempts) && self.status.failedIssuanceAttempts >= 3`,
	Progressing: `self.status.conditions.exists(c, c.type == "Issuing")`,
	Message:     `self.status.conditions.map(c, c.type + " is " + c.status).join(", ")`,
}

func TestARuleJudgesItsKind(t *testing.T) {
	judge := newJudge(t, nil, certificate, health.Rule{Group: "cert-manager.io", Kind: "Certificate", Healthy: "true"})
	const name = `{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: a}, `
	for _, tt := range []struct {
		name, object string
		want         health.Status
	}{
		{"healthy", name + `status: {conditions: [{type: Ready, status: "True"}]}}`, health.Status{Phase: health.Healthy, Message: "Ready is True"}},
		{
			"degraded comes before healthy", name + `status: {failedIssuanceAttempts: 3, conditions: [{type: Ready, status: "True"}]}}`,
			health.Status{Phase: health.Degraded, Message: "Ready is True"},
		},
		{"none is true", name + `status: {conditions: []}}`, health.Status{Phase: health.Progressing}},
		{"no status yet, and no has() for it", name + `spec: {}}`, health.Status{Phase: health.Progressing, Message: "degraded: no such key: status"}},
		{"a status of another shape", name + `status: {conditions: oops}}`, health.Status{Phase: health.Unknown}},
		{
			"under deletion", `{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: a, deletionTimestamp: "2026-01-01T00:00:00Z"}, status: {conditions: [{type: Ready, status: "True"}]}}`,
			health.Status{Phase: health.Progressing, Message: "Resource scheduled for deletion"},
		},
		{
			"another version", strings.Replace(name, "/v1,", "/v1alpha2,", 1) + `status: {conditions: [{type: Ready, status: "True"}]}}`,
			health.Status{Phase: health.Healthy, Message: "Ready is True"},
		},
		{
			"another kind", `{apiVersion: example.com/v1, kind: Issuer, metadata: {name: a}, status: {conditions: [{type: Stalled, status: "True", message: stuck}]}}`,
			health.Status{Phase: health.Degraded, Message: "stuck"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := judge.Of(parse(t, tt.object))
			if tt.want.Phase == health.Unknown && strings.Contains(got.Message, "healthy:") {
				got.Message = ""
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
	if !judge.Rules(schema.GroupKind{Group: "cert-manager.io", Kind: "Certificate"}) || judge.Rules(schema.GroupKind{Kind: "Certificate"}) {
		t.Error("the kinds with rules are others")
	}
}

func TestNoJudgeIsTheBuiltInRules(t *testing.T) {
	var none *health.Judge
	obj := parse(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, status: {startTime: x, active: 1}}`)
	if got := none.Of(obj); got != health.Of(obj) || none.Rules(schema.GroupKind{Group: "batch", Kind: "Job"}) {
		t.Errorf("status %v", got)
	}
}

func TestARuleThatCannotBeUsedNamesItsField(t *testing.T) {
	for _, tt := range []struct {
		name        string
		rule        health.Rule
		field, want string
	}{
		{"does not parse", health.Rule{Kind: "A", Healthy: "self."}, "healthy", "1:6"},
		{"another variable", health.Rule{Kind: "A", Degraded: "obj.status"}, "degraded", "undeclared reference to 'obj'"},
		{"a number", health.Rule{Kind: "A", Healthy: "1 + 1"}, "healthy", "it gives int, not bool"},
		{"a message that is no text", health.Rule{Kind: "A", Healthy: "true", Message: "[1]"}, "message", "it gives list(int), not string"},
		{"too long", health.Rule{Kind: "A", Progressing: strings.Repeat(" ", health.MaxText) + "true"}, "progressing", "more than the 8192"},
		{"nothing to say", health.Rule{Kind: "A", Message: "'x'"}, "healthy", "empty"},
		{"no kind", health.Rule{Healthy: "true"}, "kind", "empty"},
		{"a Secret", health.Rule{Kind: "Secret", Healthy: "true"}, "kind", "Secret"},
		{"both languages", health.Rule{Kind: "A", Healthy: "true", Lua: "return {}"}, "lua", "expressions too"},
		{"a script with nobody to run it", health.Rule{Kind: "A", Lua: "return {}"}, "lua", "nothing here runs Lua"},
		{"a script too long", health.Rule{Kind: "A", Lua: strings.Repeat("-", health.MaxText+1)}, "lua", "more than the 8192"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := health.NewJudge([]health.Rule{certificate, tt.rule}, nil)
			var wrong *health.RuleError
			if !errors.As(err, &wrong) || wrong.Field != tt.field || wrong.Kind.Kind != tt.rule.Kind || wrong.Fix == "" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// interpreter answers as a script would.
type interpreter struct {
	status health.Status
	err    error
	script string
}

func (i *interpreter) Health(_ context.Context, script string, _ *unstructured.Unstructured) (health.Status, error) {
	i.script = script
	return i.status, i.err
}

func TestAScriptIsRunByWhoeverRunsScripts(t *testing.T) {
	obj := parse(t, `{apiVersion: x.io/v1, kind: Thing, metadata: {name: a}}`)
	runs := &interpreter{status: health.Status{Phase: health.Degraded, Message: strings.Repeat("é", 1000)}}
	judge := newJudge(t, runs, health.Rule{Group: "x.io", Kind: "Thing", Lua: "return hs"})
	if got := judge.Of(obj); got.Phase != health.Degraded || runs.script != "return hs" || len(got.Message) > 1100 {
		t.Errorf("status %v of script %q", got, runs.script)
	}
	runs.err = errors.New("line 3: no")
	want := health.Status{Phase: health.Unknown, Message: "health script: line 3: no"}
	if got := judge.Of(obj); got != want {
		t.Errorf("status %v, want %v", got, want)
	}
}

func TestAMessageThatCannotBeMadeLeavesTheVerdict(t *testing.T) {
	obj := parse(t, `{apiVersion: x.io/v1, kind: Thing, metadata: {name: a}, status: {count: 1}}`)
	for message, want := range map[string]string{
		"self.status.text":                "",
		"self.status.count":               "message: it gives a value of type int, not text",
		"string(self.status.count) + '%'": "1%",
	} {
		judge := newJudge(t, nil, health.Rule{Group: "x.io", Kind: "Thing", Healthy: "true", Message: message})
		if got := judge.Of(obj); got != (health.Status{Phase: health.Healthy, Message: want}) {
			t.Errorf("%s: %v, want %q", message, got, want)
		}
	}
}

func newJudge(t *testing.T, scripts health.Scripts, rules ...health.Rule) *health.Judge {
	t.Helper()
	judge, err := health.NewJudge(rules, scripts)
	if err != nil {
		t.Fatal(err)
	}
	return judge
}
