package simkubelet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/localkube/simcontainer"
)

// maxPodFiles is of how many pods the files are remembered: those that were looked into last.
const maxPodFiles = 16

// pod reads a pod that a simulated node runs or has run.
func (s *Server) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod, err := s.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pod.Status.StartTime == nil {
		return nil, missing{fmt.Sprintf("pod %q does not exist", name)}
	}
	if err != nil {
		return nil, fmt.Errorf("read pod: %w", err)
	}
	return pod, nil
}

func started(pod *corev1.Pod) time.Time { return pod.Status.StartTime.Time }

// logLines is what the pod's annotation says, as far as that is a number that is possible.
func logLines(pod *corev1.Pod) int {
	lines, err := strconv.Atoi(pod.Annotations[AnnotationLogLines])
	if err != nil {
		return 0
	}
	return min(max(lines, 0), simcontainer.MaxLines)
}

// unstarted is why a container has no log yet, in a kubelet's words: it waits, and never ran before. Else it is nil.
func unstarted(pod *corev1.Pod, name string) error {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := status.State.Waiting
		if status.Name != name || waiting == nil || status.LastTerminationState.Terminated != nil {
			continue
		}
		reason := waiting.Reason
		switch reason {
		case "ErrImagePull":
			reason = "image can't be pulled"
		case "ImagePullBackOff":
			reason = "trying and failing to pull image"
		}
		return fmt.Errorf("container %q in pod %q is waiting to start: %s", name, pod.Name, reason)
	}
	return nil
}

// namedContainer is what all kinds of containers have.
type namedContainer struct {
	Name string
	Env  []corev1.EnvVar
}

func containers(pod *corev1.Pod) []namedContainer {
	var all []namedContainer
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		all = append(all, namedContainer{c.Name, c.Env})
	}
	for _, c := range pod.Spec.EphemeralContainers {
		all = append(all, namedContainer{c.Name, c.Env})
	}
	return all
}

// podFiles remembers the files of pods. The zero value is ready.
type podFiles struct {
	mu    sync.Mutex
	known []rememberedFiles // guarded by mu; last used last
}

type rememberedFiles struct {
	uid   types.UID
	files *simcontainer.Files
}

// of returns the files of a pod, new ones when they were never asked for or are forgotten.
func (p *podFiles) of(pod *corev1.Pod) *simcontainer.Files {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.known, func(r rememberedFiles) bool { return r.uid == pod.UID })
	found := rememberedFiles{uid: pod.UID}
	if at >= 0 {
		found = p.known[at]
		p.known = slices.Delete(p.known, at, at+1)
	} else {
		found.files = simcontainer.NewFiles(pod.Name)
	}
	p.known = append(p.known, found)
	if len(p.known) > maxPodFiles {
		p.known = slices.Delete(p.known, 0, 1)
	}
	return found.files
}
