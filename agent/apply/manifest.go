package apply

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/object"
)

const (
	// DefaultNamespace takes namespaced objects when neither they nor the request name one.
	DefaultNamespace = "default"
)

// check finds what makes an object impossible to send, before anything is sent.
func check(obj *unstructured.Unstructured) error {
	if obj.GetAPIVersion() == "" || obj.GetKind() == "" {
		return fmt.Errorf("apiVersion and kind are required")
	}
	if obj.GetName() == "" {
		return fmt.Errorf("metadata.name is required: with a generateName alone, every pass would create another object, unless it is a hook")
	}
	for _, segment := range []string{obj.GetName(), obj.GetNamespace()} {
		if problems := content.IsPathSegmentName(segment); len(problems) > 0 {
			return fmt.Errorf("name %q: %s", segment, strings.Join(problems, ", "))
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		if _, ok := texts(obj, field); !ok {
			return fmt.Errorf("metadata.%s: every value must be a string, quote numbers and booleans", field)
		}
	}
	return nil
}

// texts are an object's labels or annotations. A null among them is the empty text, as it is for API servers; a null in place of
// all of them is none.
func texts(obj *unstructured.Unstructured, field string) (values map[string]string, ok bool) {
	all, _, err := unstructured.NestedFieldNoCopy(obj.Object, "metadata", field)
	if err != nil || all == nil {
		return nil, err == nil
	}
	given, ok := all.(map[string]any)
	values = make(map[string]string, len(given)+1)
	for key, value := range given {
		text, isText := value.(string)
		values[key], ok = text, ok && (isText || value == nil)
	}
	return values, ok
}

// outgoing is the object as it is sent: labelled, in its namespace, without status and without what only the API
// server may write. The input is left alone.
func outgoing(obj *unstructured.Unstructured, id object.ID, service, run string) *unstructured.Unstructured {
	out := obj.DeepCopy()
	for _, field := range []string{
		"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "namespace", "generateName",
	} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(out.Object, "status")
	if aggregated(out, id) {
		unstructured.RemoveNestedField(out.Object, "rules")
	}
	out.SetName(id.Name)
	if id.Namespace != "" {
		out.SetNamespace(id.Namespace)
	}
	labels, _ := texts(obj, "labels")
	if labels == nil {
		labels = map[string]string{}
	}
	labels[object.ServiceLabel] = service
	out.SetLabels(labels)
	annotations, _ := texts(obj, "annotations")
	if run != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[object.RunAnnotation] = run
	}
	out.SetAnnotations(annotations)
	return out
}

// aggregated says whether the cluster fills in an object's rules, from other roles. What a manifest says there, which is []
// as a rule, would be taken from it at once, and given back by the next pass, for ever.
func aggregated(obj *unstructured.Unstructured, id object.ID) bool {
	_, found := obj.Object["aggregationRule"].(map[string]any)
	return found && id.Group == "rbac.authorization.k8s.io" && id.Kind == "ClusterRole"
}

// encode writes an object down for the API server.
func encode(obj *unstructured.Unstructured) ([]byte, error) {
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", object.Of(obj), err)
	}
	return body, nil
}

// digest names a manifest together with the policies that shape what becomes of it, and gives neither away.
func (e *Engine) digest(body []byte, id object.ID, p *Policies) string {
	sum := hmac.New(sha256.New, e.options.DigestKey)
	sum.Write(body)
	fmt.Fprintf(sum, "\x00%s\x00%s", p.Account, p.Conflicts)
	for _, rule := range p.Fields {
		if rule.fits(id) {
			fmt.Fprintf(sum, "\x00%s\x00%s", rule.Pointer, rule.Policy)
		}
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:16])
}
