package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/selector"
)

func TestNewWritesWhatLoadReads(t *testing.T) {
	groups := []Group{{Name: "prod", Clusters: &Selector{MatchLabels: map[string]string{"env": "prod"}}}}
	paths := []Pattern{{Pattern: "secrets/**", Groups: []string{"fleet"}}, {Pattern: "**/*.secret.yaml", Groups: []string{"fleet", "prod"}}}
	text, err := New(groups, paths)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	other, err := New(nil, nil)
	if err != nil || strings.Contains(string(other), p.Repository) {
		t.Errorf("two repositories have one id: %v", err)
	}
	want := header + `apiVersion: plural.sh/v1alpha1
kind: Seal
metadata: {name: seal}
spec:
  repository: ` + yamlScalar(p.Repository) + `
  groups:
  - name: prod
    clusters:
      matchLabels: {env: prod}
  paths:
  - pattern: secrets/**
    groups: [fleet]
  - pattern: '**/*.secret.yaml'
    groups: [fleet, prod]
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}

// yamlScalar is in quotes when it would be a number.
func yamlScalar(s string) string {
	n := quoted(s)
	text, err := encode(n, true)
	if err != nil {
		return s
	}
	return strings.TrimSpace(string(text))
}

func TestEditsKeepCommentsAndOrder(t *testing.T) {
	before := `# ours
apiVersion: plural.sh/v1alpha1
kind: Seal
spec:
  # never change this
  repository: ` + id + `
  paths:
    # databases
    - pattern: secrets/** # all of them
      groups: [fleet]
    - pattern: keys/*
      groups: [ops]
`
	after := `# ours
apiVersion: plural.sh/v1alpha1
kind: Seal
spec:
  # never change this
  repository: ` + id + `
  groups:
    - name: prod
      clusters:
        all: true
  paths:
    # databases
    - pattern: secrets/** # all of them
      groups: [fleet, prod]
    - pattern: '*.pem'
      groups: [ops]
`
	text, err := WithPattern([]byte(before), "secrets/**", []string{"fleet", "prod"})
	if err == nil {
		text, err = WithPattern(text, "*.pem", []string{"ops"})
	}
	if err == nil {
		text, err = WithPattern(text, "keys/*", nil)
	}
	if err == nil {
		text, err = WithGroup(text, Group{Name: "prod", Clusters: &Selector{All: true}})
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(after, string(text)); diff != "" {
		t.Error(diff)
	}
	text, err = WithGroup(text, Group{Name: "prod"})
	if err != nil || strings.Contains(string(text), "all: true") {
		t.Errorf("the selector is still there: %v\n%s", err, text)
	}
}

func TestEditsKeepTheIndentationOfLists(t *testing.T) {
	before := sealYAML("groups:", "- name: prod # ours", "paths:", "- pattern: a", "  groups: [g]")
	text, err := WithPattern([]byte(before), "b", []string{"g"})
	if err == nil {
		text, err = WithGroup(text, Group{Name: "prod", Clusters: &Selector{Names: []string{"x"}, MatchExpressions: []Requirement{{Key: "env", Operator: selector.In, Values: []string{"1"}}, {Key: "a", Operator: selector.Exists}}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	want := sealYAML("groups:", "- name: prod # ours", "  clusters:", "    names: [x]", "    matchExpressions:",
		`    - {key: env, operator: In, values: ["1"]}`, "    - {key: a, operator: Exists}", "paths:", "- pattern: a", "  groups: [g]", "- pattern: b", "  groups: [g]")
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}

func TestOneEditKeepsTheIndentationOfLists(t *testing.T) {
	for _, before := range []string{
		sealYAML("paths:", "- pattern: a", "  groups: [g]"),
		sealYAML("paths:", "  - pattern: a", "    groups: [g]"),
		sealYAML("groups: []", "paths:", "  - pattern: a", "    groups: [g]"), // an empty list has no indentation
	} {
		text, err := WithPattern([]byte(before), "a", []string{"h"})
		if diff := cmp.Diff(strings.Replace(before, "[g]", "[h]", 1), string(text)); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
}

func TestNewRefusesWhatLoadWouldRefuse(t *testing.T) {
	if text, err := New([]Group{{Name: "../g", Clusters: &Selector{All: true}}}, nil); text != nil || err == nil {
		t.Errorf("a bad group: %q, %v", text, err)
	}
	if text, err := New(nil, []Pattern{{Pattern: "a/", Groups: []string{"g"}}}); text != nil || err == nil {
		t.Errorf("a bad pattern: %q, %v", text, err)
	}
}

func TestEditsRefuseWhatLoadWouldRefuse(t *testing.T) {
	good := []byte(sealYAML("paths: []"))
	if _, err := WithPattern(good, "a/", []string{"g"}); err == nil {
		t.Error("a pattern that ends in a slash was taken")
	}
	if _, err := WithPattern(good, "a", []string{"../g"}); err == nil {
		t.Error("a bad group was taken")
	}
	if _, err := WithGroup(good, Group{Name: "../g"}); err == nil {
		t.Error("a bad name of a group was taken away")
	}
	if _, err := WithGroup(good, Group{Name: "g", Clusters: &Selector{}}); err == nil {
		t.Error("an empty selector was taken")
	}
	if _, err := WithPattern([]byte("kind: Seal\n"), "a", []string{"g"}); err == nil {
		t.Error("a file that does not load was edited")
	}
}
