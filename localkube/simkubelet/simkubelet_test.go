package simkubelet

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/localkube/simcontainer"
)

func TestFilesOfThePodsLookedIntoLastAreKept(t *testing.T) {
	var files podFiles
	pod := func(i int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: types.UID(fmt.Sprint(i))}}
	}
	first, second := files.of(pod(0)), files.of(pod(1))
	for i := range maxPodFiles - 2 {
		files.of(pod(2 + i))
	}
	if files.of(pod(0)) != first {
		t.Error("files changed while there was room")
	}
	files.of(pod(maxPodFiles))
	if files.of(pod(0)) != first {
		t.Error("the files used last are forgotten")
	}
	if files.of(pod(1)) == second {
		t.Error("files of more pods than the bound are kept")
	}
	if len(files.known) > maxPodFiles {
		t.Errorf("files of %d pods are kept", len(files.known))
	}
}

func TestLogLinesAreBounded(t *testing.T) {
	for said, want := range map[string]int{"": 0, "x": 0, "-3": 0, "12": 12, "99999999999": simcontainer.MaxLines, "999999999999999999999": 0} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationLogLines: said}}}
		if got := logLines(pod); got != want {
			t.Errorf("%q gives %d lines, want %d", said, got, want)
		}
	}
}

func TestAContainerThatNeverStartedHasNoLog(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	crashed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "web", State: waiting}, {Name: "again", State: waiting, LastTerminationState: crashed}, {Name: "side"},
	}}}
	const want = `container "web" in pod "web-0" is waiting to start: trying and failing to pull image`
	if err := unstarted(pod, "web"); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"again", "side"} {
		if err := unstarted(pod, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
