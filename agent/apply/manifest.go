package apply

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
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
		return fmt.Errorf("metadata.name is required: generateName would create another object on every pass")
	}
	for _, segment := range []string{obj.GetName(), obj.GetNamespace()} {
		if problems := content.IsPathSegmentName(segment); len(problems) > 0 {
			return fmt.Errorf("name %q: %s", segment, strings.Join(problems, ", "))
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(obj.Object, "metadata", field); err != nil {
			return fmt.Errorf("metadata.%s: every value must be a string, quote numbers and booleans", field)
		}
	}
	return nil
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
	labels := out.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[object.ServiceLabel] = service
	out.SetLabels(labels)
	if run != "" {
		annotations := out.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[object.RunAnnotation] = run
		out.SetAnnotations(annotations)
	}
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

// generated is the name of a hook that leaves its end to the API server: the same for each try of one revision, and another
// for the next. The number tells it from others that begin alike.
func generated(obj *unstructured.Unstructured, run string, number int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", run, number))
	base, suffix := obj.GetGenerateName(), hex.EncodeToString(sum[:5])
	return base[:min(len(base), longestName-len(suffix))] + suffix
}

// longestName is how long a name may be that ends up in a label, as that of a Job does; the API server cuts generated ones to it.
const longestName = 63
