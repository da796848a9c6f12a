package yamledit

import (
	"strings"
	"testing"
)

func TestOnlyWhatProgramsWriteMayDiffer(t *testing.T) {
	const (
		spec    = "spec:\n  source: {path: web}\n  clusters: {}\n"
		cluster = header + "kind: Cluster\nmetadata: {name: a}\nspec:\n  tags: {env: test}\n"
		waiting = cluster + "  join: {hash: x}\n"
		joined  = cluster + "  agent: {auth: k, age: a}\n"
	)
	tests := map[string]struct {
		before, after string
		refused       bool
	}{
		"a Service of Kubernetes":     {"apiVersion: v1\nkind: Service\nspec: {suspend: false}\n", "apiVersion: v1\nkind: Service\nspec: {suspend: true}\n", true},
		"nothing":                     {web + spec, web + spec, false},
		"comments":                    {web + spec, "# hello\n" + web + spec, false},
		"suspended":                   {web + spec, web + spec + "  suspend: true\n", false},
		"resumed":                     {web + spec + "  suspend: true\n", web + spec, false},
		"agreed":                      {web + spec, web + spec + "  sync: {acknowledged: [a]}\n", false},
		"agreed beside others":        {web + spec + "  sync: {prune: false}\n", web + spec + "  sync: {prune: false, acknowledged: [a]}\n", false},
		"agreed to the workspace":     {workspace, strings.Replace(workspace, "{}", "{acknowledged: [a]}", 1), false},
		"one of two documents":        {api + "---\n" + web + spec, api + "---\n" + web + spec + "  suspend: true\n", false},
		"joined":                      {waiting, joined, false},
		"joined anew":                 {waiting + "  agent: {auth: old, age: old}\n", joined, false},
		"what a sync does":            {web + spec, web + spec + "  sync: {prune: false, acknowledged: [a]}\n", true},
		"where a service comes from":  {web + spec, strings.Replace(web+spec, "path: web", "path: evil", 1), true},
		"its name":                    {web + spec, strings.Replace(web+spec, "name: web", "name: evil", 1), true},
		"its kind":                    {web + spec, strings.Replace(web+spec, "kind: Service", "kind: Cluster", 1), true},
		"another document":            {web + spec, web + spec + "---\n" + api, true},
		"keys without a token":        {joined, strings.Replace(joined, "auth: k", "auth: evil", 1), true},
		"keys beside a token":         {waiting, waiting + "  agent: {auth: evil}\n", true},
		"tags of one that joins":      {waiting, strings.Replace(joined, "env: test", "env: prod", 1), true},
		"a token":                     {cluster, waiting, true},
		"other kinds":                 {header + "kind: Role\nspec: {suspend: false}\n", header + "kind: Role\nspec: {suspend: true}\n", true},
		"suspend, but deeper":         {web + spec, web + spec + "  helm: {values: {suspend: true}}\n", true},
		"twice":                       {web + spec, web + spec + "  suspend: true\n  suspend: false\n", true},
		"by an alias":                 {web + "spec: &s\n  source: {path: web}\n", web + "spec: &s\n  source: {path: web}\nother: *s\n", true},
		"no YAML":                     {web + spec, "\tsuspend", true},
		"no mapping":                  {web + spec, "- suspend", true},
		"more than a file may have":   {web + spec, web + spec + strings.Repeat("#", 1<<20), true},
		"a workspace's hub":           {workspace, strings.Replace(workspace, "{}", "{hub: {url: https://evil.example.com}}", 1), true},
		"a service that is a Cluster": {waiting, strings.Replace(joined, "kind: Cluster", "kind: Service", 1), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := Only("services/web.yaml", []byte(test.before), []byte(test.after))
			if refused := err != nil; refused != test.refused {
				t.Errorf("got %v", err)
			}
		})
	}
}
