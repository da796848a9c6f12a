package render

import (
	"bufio"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// WriteYAML writes objects as kubectl kustomize does: keys sorted, a line of --- between two.
func WriteYAML(w io.Writer, objs []*unstructured.Unstructured) error {
	out := bufio.NewWriter(w)
	for i, obj := range objs {
		if i > 0 {
			_, _ = out.WriteString("---\n") // bufio keeps the error for Flush
		}
		json, err := obj.MarshalJSON()
		if err != nil {
			return fmt.Errorf("encode %s %q: %w", obj.GetKind(), obj.GetName(), err)
		}
		text, err := yaml.JSONToYAML(json)
		if err != nil {
			return fmt.Errorf("encode %s %q: %w", obj.GetKind(), obj.GetName(), err)
		}
		_, _ = out.Write(text)
	}
	return out.Flush()
}
