package simnode

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/kubelet/events"
	"k8s.io/kubernetes/pkg/kubelet/util/format"
)

// failureMark is what stands in an image's tag before the failure that its containers simulate, as in 6.7.0-sim.crash.
const failureMark = "-sim."

// The failures. What follows slow is how long the start takes, as in slow-30s.
const (
	pullError  = "pull-error"
	crash      = "crash"
	oom        = "oom"
	flap       = "flap"
	slowPrefix = "slow-"
)

// Times of failures. API objects keep whole seconds, so all are such.
const (
	firstBackOff = 10 * time.Second // of a kubelet, for pulls and for restarts
	lastBackOff  = 5 * time.Minute  // of a kubelet
	attempt      = time.Second      // how long a pull takes to fail, and a container to crash
	shown        = time.Second      // how long a crash is seen before its back-off
	flapInterval = 10 * time.Second // how long a flapping container is ready, and then is not
	maxSlow      = time.Hour
)

// moment is what a failing container is like at some time.
type moment struct {
	status corev1.ContainerStatus
	events []event       // that tell how it came to be so
	lasts  time.Duration // 0: for ever
}

// event is one that a kubelet writes for a pod.
type event struct{ kind, reason, message string }

// failureOf is the failure that an image's tag asks for, and empty for one that asks for none.
func failureOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	_, failure, _ := strings.Cut(tag, failureMark)
	return failure
}

// failing is what a container with a failure is like now. A failure that is not known is an image that is not there, and says
// which are.
func (r simulatedRun) failing(c corev1.Container, failure string) moment {
	age := max(0, r.now.Sub(r.started.Time))
	switch failure {
	case crash:
		return r.crashing(c, age, corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1})
	case oom:
		return r.crashing(c, age, corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137})
	case flap:
		round := age % (2 * flapInterval)
		if round < flapInterval {
			return moment{status: r.runningSince(c, r.started, true), lasts: flapInterval - round}
		}
		return moment{
			status: r.runningSince(c, r.started, false), lasts: 2*flapInterval - round,
			events: []event{unhealthy("HTTP probe failed with statuscode: 503")},
		}
	case pullError:
		return r.pulling(c, age, fmt.Sprintf("rpc error: code = NotFound desc = failed to pull and unpack image %q: "+
			"failed to resolve reference %[1]q: %[2]s: not found", c.Image, c.Image))
	}
	slow, err := time.ParseDuration(strings.TrimPrefix(failure, slowPrefix))
	switch {
	case err != nil || !strings.HasPrefix(failure, slowPrefix) || slow <= 0 || slow > maxSlow:
		return r.pulling(c, age, fmt.Sprintf("unknown simulated failure %q: write %s, %s, %s, %s or %s30s, of at most %s",
			failure, pullError, crash, oom, flap, slowPrefix, maxSlow))
	case age >= slow:
		return moment{status: r.runningSince(c, r.started, true)}
	default:
		return moment{
			status: r.runningSince(c, r.started, false), lasts: slow - age, events: []event{unhealthy("connection refused")},
		}
	}
}

func unhealthy(why string) event {
	return event{corev1.EventTypeWarning, events.ContainerUnhealthy, "Readiness probe failed: " + why}
}

// pulling fails, waits for the back-off, and tries again.
func (r simulatedRun) pulling(c corev1.Container, age time.Duration, cause string) moment {
	backOff := firstBackOff
	for age >= attempt+backOff {
		age -= attempt + backOff
		backOff = min(2*backOff, lastBackOff)
	}
	status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(false)}
	if age < attempt {
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: cause}
		return moment{status: status, lasts: attempt - age, events: []event{
			{corev1.EventTypeNormal, events.PullingImage, fmt.Sprintf("Pulling image %q", c.Image)},
			{corev1.EventTypeWarning, events.FailedToPullImage, fmt.Sprintf("Failed to pull image %q: %s", c.Image, cause)},
			{corev1.EventTypeWarning, events.FailedToCreateContainer, "Error: ErrImagePull"},
		}}
	}
	status.State.Waiting = &corev1.ContainerStateWaiting{
		Reason: "ImagePullBackOff", Message: fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", c.Image, cause),
	}
	return moment{status: status, lasts: attempt + backOff - age, events: []event{
		{corev1.EventTypeNormal, events.BackOffPullImage, fmt.Sprintf("Back-off pulling image %q", c.Image)},
		{corev1.EventTypeWarning, events.FailedToCreateContainer, "Error: ImagePullBackOff"},
	}}
}

// crashing runs, ends as said and is started again: the first time at once, then after a back-off. It is never ready.
func (r simulatedRun) crashing(c corev1.Container, age time.Duration, end corev1.ContainerStateTerminated) moment {
	began, restarts, backOff := r.started, int32(0), time.Duration(0)
	if r.pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		for age >= attempt+backOff {
			age -= attempt + backOff
			began = metav1.NewTime(began.Add(attempt + backOff))
			restarts++
			backOff = min(max(2*backOff, firstBackOff), lastBackOff)
		}
	}
	ended := func(began metav1.Time) corev1.ContainerState {
		terminated := end
		terminated.StartedAt, terminated.FinishedAt = began, metav1.NewTime(began.Add(attempt))
		terminated.ContainerID = r.identity(c).ContainerID
		return corev1.ContainerState{Terminated: &terminated}
	}
	status := r.runningSince(c, began, false)
	status.RestartCount = restarts
	if restarts > 0 {
		status.LastTerminationState = ended(metav1.NewTime(began.Add(-attempt - previous(restarts))))
	}
	switch {
	case age < attempt:
		return moment{status: status, lasts: attempt - age}
	case backOff == 0: // of a pod whose containers are not restarted
		status.Started, status.State = new(false), ended(began)
		return moment{status: status}
	case age < attempt+shown:
		status.Started, status.State = new(false), ended(began)
		return moment{status: status, lasts: attempt + shown - age}
	}
	status.Started, status.LastTerminationState = new(false), ended(began)
	status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason:  "CrashLoopBackOff",
		Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", backOff, c.Name, format.Pod(r.pod)),
	}}
	return moment{status: status, lasts: attempt + backOff - age, events: []event{{
		corev1.EventTypeWarning, events.BackOffStartContainer,
		fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, format.Pod(r.pod)),
	}}}
}

// previous is the back-off before a container's n-th restart.
func previous(n int32) time.Duration {
	if n == 1 {
		return 0
	}
	return min(firstBackOff<<min(n-2, 10), lastBackOff)
}
