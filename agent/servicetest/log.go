package servicetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// logLines and logBytes bound what a container's log is asked for.
	logLines = 100
	logBytes = 1 << 20
	// maxPods is how many Pods of a Job are looked at, and maxContainers how many containers of the Pod.
	maxPods       = 20
	maxContainers = 8
	// headline is room for the line above a container's part of a log.
	headline = 80
)

// report is what the Pod of a Job, or a Pod, printed at its end, with what its containers have to say for themselves. A log
// that cannot be read is no failure of the test: the log then says why.
func (a attempt) report(ctx context.Context, obj *unstructured.Unstructured) (log, why string) {
	ctx, cancel := context.WithTimeout(ctx, cleanPatience)
	defer cancel()
	pod, err := a.podOf(ctx, obj)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err), ""
	}
	containers := mapsIn(pod, "spec", "containers")
	containers = containers[:min(len(containers), maxContainers)]
	var text strings.Builder
	for _, container := range containers {
		name, _ := container["name"].(string)
		if len(containers) > 1 {
			fmt.Fprintf(&text, "==> %s <==\n", name)
		}
		printed, cut, err := a.log(ctx, pod, name)
		if err != nil {
			printed = fmt.Sprintf("(no log: %v)\n", err)
		}
		text.WriteString(a.target.excerpt(printed, cut, maxLog/len(containers)-headline))
	}
	return text.String(), strings.Join(complaints(pod), ", ")
}

// podOf is the Pod that says most about how an object ran: of a Job, the newest that failed, or else the newest.
func (a attempt) podOf(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	pods := a.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(obj.GetNamespace())
	if obj.GetKind() == "Pod" {
		return pods.Get(ctx, obj.GetName(), metav1.GetOptions{})
	}
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "controller-uid=" + string(obj.GetUID()), Limit: maxPods})
	if err != nil {
		return nil, fmt.Errorf("list Pods: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("it has no Pod")
	}
	newest := slices.MaxFunc(list.Items, func(x, y unstructured.Unstructured) int {
		return cmp.Or(
			cmp.Compare(min(len(failed(&x)), 1), min(len(failed(&y)), 1)),
			x.GetCreationTimestamp().Compare(y.GetCreationTimestamp().Time),
		)
	})
	return &newest, nil
}

// log is what a container printed, and whether it was cut where it was read.
func (a attempt) log(ctx context.Context, pod *unstructured.Unstructured, container string) (log string, cut bool, err error) {
	query := url.Values{"container": {container}, "tailLines": {fmt.Sprint(logLines)}, "limitBytes": {fmt.Sprint(logBytes)}}
	address := a.api + "/api/v1/namespaces/" + pod.GetNamespace() + "/pods/" + pod.GetName() + "/log?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", false, err
	}
	answer, err := a.client.http.Do(request)
	if err != nil {
		return "", false, err
	}
	defer answer.Body.Close()
	printed, err := io.ReadAll(io.LimitReader(answer.Body, logBytes))
	if err != nil {
		return "", false, err
	}
	if answer.StatusCode != http.StatusOK {
		return "", false, errors.New(answer.Status)
	}
	return string(printed), len(printed) == logBytes, nil
}

// complaints are what containers wait for, or how they failed.
func complaints(pod *unstructured.Unstructured) []string {
	var found []string
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, status := range mapsIn(pod, "status", field) {
			state, _ := status["state"].(map[string]any)
			waiting, _ := state["waiting"].(map[string]any)
			ended, _ := state["terminated"].(map[string]any)
			if reason, ok := waiting["reason"].(string); ok {
				found = append(found, fmt.Sprintf("container %v: %s", status["name"], reason))
			}
			if code, ok := ended["exitCode"].(int64); ok && code != 0 {
				found = append(found, fmt.Sprintf("container %v: exit code %d", status["name"], code))
			}
		}
	}
	return found
}
