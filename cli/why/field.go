package why

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fieldNamed is a field as API servers name it: spec.replicas, .spec.containers[name="web"].image, spec.containers[0].image.
var fieldNamed = regexp.MustCompile(`(?:^|[ :])\.?((?:data|metadata|spec)(?:\.[A-Za-z][\w-]*|\[[^\]]*\])+):`)

// containerNamed is a container as agents name one that does not get on.
var containerNamed = regexp.MustCompile(`(?:^|[ ;:])container ([a-z0-9-]+): `)

// imageOf is the field of the image of a container, in an object that has Pods, or is one; nothing where there is none.
func imageOf(container string, object map[string]any) []string {
	for _, pod := range [][]string{{"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}, {"spec"}} {
		for _, kind := range []string{"containers", "initContainers"} {
			field, _, _ := unstructured.NestedFieldNoCopy(object, slices.Concat(pod, []string{kind})...)
			list, _ := field.([]any)
			n := slices.IndexFunc(list, func(one any) bool { c, _ := one.(map[string]any); return c["name"] == container })
			if n >= 0 {
				return slices.Concat(pod, []string{kind, strconv.Itoa(n), "image"})
			}
		}
	}
	return nil
}

// fieldIn is the field of an object that the first reason names, as far as the object has it; nothing where it names none. Of a
// container that does not get on, which is said of no field, that is its image.
func fieldIn(reasons []string, object any) []string {
	reason := slices.Concat(reasons, []string{""})[0]
	found := fieldNamed.FindStringSubmatch(reason)
	if found == nil {
		found = containerNamed.FindStringSubmatch(reason)
		of, _ := object.(map[string]any)
		if found == nil {
			return nil
		}
		return imageOf(found[1], of)
	}
	var field []string
	for _, step := range strings.FieldsFunc(found[1], func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		if list, is := object.([]any); is {
			n, err := strconv.Atoi(step)
			key, value, named := strings.Cut(step, "=")
			if named {
				n = slices.IndexFunc(list, func(item any) bool {
					of, _ := item.(map[string]any)
					return fmt.Sprint(of[key]) == strings.Trim(value, `"`)
				})
			}
			if !named && err != nil || n < 0 || n >= len(list) {
				return field
			}
			step, object = strconv.Itoa(n), list[n]
		} else {
			of, _ := object.(map[string]any)
			object = of[step]
		}
		field = append(field, step)
	}
	return field
}
