package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestASourceIsAskedForWhatItsReadersName(t *testing.T) {
	web := &Service{Spec: ServiceSpec{
		Source: SourceRef{Name: "up", Ref: "^1"},
		Helm:   &Helm{Chart: "web"},
		Mounts: []Mount{
			{Source: SourceRef{Name: "up", Ref: "17.x"}, Chart: "redis"},
			{Source: SourceRef{Name: "up", Ref: "^1"}, Chart: "web"},
			{Source: SourceRef{Name: "other"}},
		},
	}}
	plain := &Service{Spec: ServiceSpec{Source: SourceRef{Name: "up"}}}
	for name, test := range map[string]struct {
		spec       SourceSpec
		kind, url  string
		web, plain []string
	}{
		"git":  {SourceSpec{Git: &GitSource{URL: "u", Ref: "main"}}, "git", "u", []string{"^1", "17.x"}, []string{"main"}},
		"helm": {SourceSpec{Helm: &HelmSource{URL: "u"}}, "helm", "u", []string{"web@^1", "redis@17.x"}, []string{"@"}},
		"oci":  {SourceSpec{OCI: &OCISource{URL: "u", Ref: "1.x"}}, "oci", "u", []string{"^1", "17.x"}, []string{"1.x"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Source{Metadata: Metadata{Name: "up"}, Spec: test.spec}
			if s.Kind() != test.kind || s.URL() != test.url {
				t.Errorf("%s at %s", s.Kind(), s.URL())
			}
			if diff := cmp.Diff(test.web, web.Reads(s)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.plain, plain.Reads(s)); diff != "" {
				t.Error(diff)
			}
			other := &Source{Metadata: Metadata{Name: "unread"}, Spec: test.spec}
			if refs := web.Reads(other); len(refs) > 0 {
				t.Errorf("a source that nobody names is read at %v", refs)
			}
		})
	}
}
