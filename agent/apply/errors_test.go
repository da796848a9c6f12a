package apply

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pluralsh/plural/agent/object"
)

func TestDescribeNamesTheState(t *testing.T) {
	var (
		configmaps = schema.GroupResource{Resource: "configmaps"}
		kind       = schema.GroupKind{Kind: "ConfigMap"}
		spec       = field.NewPath("spec", "selector")
	)
	tests := []struct {
		name string
		err  error
		want Reason
	}{
		{"connection refused", &url.Error{Op: "Patch", URL: "https://x", Err: syscall.ECONNREFUSED}, Unavailable},
		{"context ended", context.Canceled, Unavailable},
		{"slow down", apierrors.NewTooManyRequests("slow down", 1), TooManyRequests},
		{"bad value", apierrors.NewInvalid(kind, "a", field.ErrorList{field.Invalid(spec, 1, "must be a map")}), Invalid},
		{"immutable value", apierrors.NewInvalid(kind, "a", field.ErrorList{field.Invalid(spec, 1, "field is immutable")}), Immutable},
		{"unknown shape", apierrors.NewInternalError(errors.New("failed to create typed patch object (a): .x: expected map")), Invalid},
		{"no permission", apierrors.NewForbidden(configmaps, "a", errors.New(`User "x" cannot patch resource "configmaps"`)), Forbidden},
		{"denied by a webhook", apierrors.NewForbidden(configmaps, "a", errors.New(`admission webhook "x" denied the request: no`)), Denied},
		{"over the quota", apierrors.NewForbidden(configmaps, "a", errors.New("exceeded quota: q")), Denied},
		{"no namespace", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "a"), MissingNamespace},
		{"no such resource", apierrors.NewGenericServerResponse(404, "patch", configmaps, "a", "", 0, true), MissingKind},
		{"changed meanwhile", apierrors.NewConflict(configmaps, "a", errors.New("changed")), Busy},
		{"webhook does not answer", apierrors.NewInternalError(errors.New("failed calling webhook")), Unavailable},
		{"server shuts down", apierrors.NewServiceUnavailable("bye"), Unavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := describe(object.ID{Kind: "ConfigMap", Namespace: "web", Name: "a"}, tt.err)
			if got.Reason != tt.want {
				t.Errorf("reason %s, want %s: %v", got.Reason, tt.want, got)
			}
			if !errors.Is(got, tt.err) {
				t.Error("the cause is lost")
			}
		})
	}
}

func TestDescribeSaysWhichFieldsAreUnknownAndNotTheObjectTwice(t *testing.T) {
	answer := apierrors.NewInternalError(errors.New(`failed to create typed patch object (web/web; apps/v1, Kind=Deployment): ` +
		"errors:\n  .spec.replicsa: field not declared in schema\n  .spec.template.spec.containers[name=\"web\"].imagee: field not declared in schema"))
	got := describe(object.ID{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "web"}, answer)
	if want := `.spec.replicsa: unknown field .spec.template.spec.containers[name="web"].imagee: unknown field`; got.Message != want {
		t.Errorf("it says %q, want %q", got.Message, want)
	}
	if want := "kubectl explain deployment"; !strings.Contains(got.Fix, want) {
		t.Errorf("fix %q, want %s", got.Fix, want)
	}
}

func TestDescribeTellsAValueThatDoesNotFitAsJSON(t *testing.T) {
	const of = "failed to create typed patch object (web/web; apps/v1, Kind=Deployment): "
	for name, tt := range map[string]struct{ said, want string }{
		"a number for a text": {
			`.spec.template.spec.containers[name="web"].image: expected string, got &value.valueUnstructured{Value:7}`,
			`.spec.template.spec.containers[name="web"].image: expected string, got 7`,
		},
		"a tree for a text": {
			`.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"b":[]interface {}{"x\"}", true, interface {}(nil)}}}`,
			`.a: expected string, got {"b":["x\"}", true, null]}`,
		},
		"several": {
			"errors:\n  .a: expected string, got &value.valueUnstructured{Value:7}\n  .b: expected boolean, got &{yes}\n" +
				"  .c: expected list, got &{map[d:1]}",
			`.a: expected string, got 7 .b: expected boolean, got "yes" .c: expected list, got a map`,
		},
		"a long one": {
			`.a: expected string, got &value.valueUnstructured{Value:[]interface {}{"` + strings.Repeat("x", 200) + `"}}`,
			`.a: expected string, got ["` + strings.Repeat("x", maxValue-2) + "...",
		},
		"what nobody can read": {
			`.a: expected string, got &value.valueUnstructured{Value:struct{ X int }{X:1}}`, `.a: expected string, got another`,
		},
	} {
		answer := apierrors.NewInternalError(errors.New(of + tt.said))
		got := describe(object.ID{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "web"}, answer)
		if got.Message != tt.want || got.Reason != Invalid {
			t.Errorf("%s: it says %q, want %q", name, got.Message, tt.want)
		}
	}
}

func TestDescribeSaysWhichFieldOfASecretDoesNotFit(t *testing.T) {
	answer := apierrors.NewInternalError(errors.New("failed to create typed patch object (web/db; /v1, Kind=Secret): errors:\n" +
		"  .stringData.pin: expected string, got &value.valueUnstructured{Value:4711}\n" +
		"  .stringData.x: expected string, got &value.valueUnstructured{Value:4712}"))
	got := describe(object.ID{Kind: "Secret", Namespace: "web", Name: "db"}, answer)
	if want := ".stringData.pin: expected string, got a value that is not repeated"; got.Message != want {
		t.Errorf("it says %q, want %q", got.Message, want)
	}
}

func TestDescribeNeverQuotesASecret(t *testing.T) {
	id := object.ID{Kind: "Secret", Namespace: "web", Name: "db"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "db",
		field.ErrorList{field.Invalid(field.NewPath("data").Key("password"), "hunter2", "no")})
	malformed := apierrors.NewInternalError(errors.New("failed to create typed patch object: .stringData.pin: expected string, got hunter2"))
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "db", errors.New(`admission webhook "x" denied the request: "hunter2" is weak`))
	for _, err := range []error{invalid, malformed, denied} {
		got := describe(id, err)
		if strings.Contains(got.Error(), "hunter2") || got.Unwrap() != nil {
			t.Errorf("the error quotes the secret: %v", got)
		}
	}
	if got := describe(id, invalid).Error(); !strings.Contains(got, "data[password]") {
		t.Errorf("error %q does not name the field", got)
	}
}
