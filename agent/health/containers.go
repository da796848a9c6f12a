package health

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Containers says of the containers of a Pod that do not get on what keeps each: what it waits for, and how it ended last. It is
// empty where all do, and of other kinds. A back-off alone is no cause: a container that had too little memory ended as OOMKilled.
func Containers(pod *unstructured.Unstructured) string {
	if pod.GetKind() != "Pod" || pod.GroupVersionKind().Group != "" {
		return ""
	}
	var said []string
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		list, _, _ := unstructured.NestedFieldNoCopy(pod.Object, "status", field)
		all, _ := list.([]any)
		for _, one := range all {
			status, _ := one.(map[string]any)
			if trouble := trouble(status); trouble != "" {
				said = append(said, "container "+text(status, "name")+": "+trouble)
			}
		}
	}
	return clip(strings.Join(said, "; "))
}

// trouble is what keeps one container, or empty.
func trouble(status map[string]any) string {
	within := func(fields ...string) map[string]any {
		m, _, _ := unstructured.NestedFieldNoCopy(status, fields...)
		found, _ := m.(map[string]any)
		return found
	}
	if ready, _ := status["ready"].(bool); ready {
		return ""
	}
	last := ending(within("lastState", "terminated"))
	if waiting := within("state", "waiting"); waiting != nil {
		reason := text(waiting, "reason")
		switch {
		case slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, reason):
			reason = ""
		case last == "" && text(waiting, "message") != "":
			return reason + ": " + text(waiting, "message")
		}
		return joined(reason, last)
	}
	if ended := within("state", "terminated"); ended != nil {
		return ending(ended)
	}
	return joined("", last)
}

// joined is what a container waits for and how it ended last, as far as either is known.
func joined(reason, last string) string {
	switch {
	case last == "":
		return reason
	case reason == "":
		return "its last run ended: " + last
	}
	return reason + ": its last run ended: " + last
}

// ending is how a container ended: the word for that and its exit code, or empty where it did what it was to do.
func ending(terminated map[string]any) string {
	var code int64
	switch n := terminated["exitCode"].(type) {
	case int64:
		code = n
	case float64:
		code = int64(n)
	}
	reason := text(terminated, "reason")
	switch {
	case terminated == nil, code == 0 && (reason == "" || reason == "Completed"):
		return ""
	case reason == "":
		return fmt.Sprintf("exit code %d", code)
	}
	return fmt.Sprintf("%s, exit code %d", reason, code)
}
