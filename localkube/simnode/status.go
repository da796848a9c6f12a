package simnode

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobDuration is how long a pod of a Job runs before it succeeds: half a second to one and a half, as the API keeps whole seconds of its start.
const jobDuration = 1500 * time.Millisecond

// addresses of a pod; both are made up.
type addresses struct{ host, pod netip.Addr }

// desire is the status a pod should have now.
type desire struct {
	status corev1.PodStatus
	events []event       // of containers whose status changes
	again  time.Duration // after how long to ask again (0: only when the pod changes)
}

// desiredStatus is what a pod bound to a simulated node should be now. Fields that belong to
// others, such as the QoS class or their conditions, are left out.
func desiredStatus(pod *corev1.Pod, at addresses, now metav1.Time) desire {
	started := now
	if pod.Status.StartTime != nil {
		started = *pod.Status.StartTime
	}
	run := simulatedRun{pod: pod, started: started, now: now}
	var wanted desire
	if ofJob(pod) {
		wanted.again = max(0, jobDuration-now.Sub(started.Time))
		run.succeeded = wanted.again == 0
	}
	run.containers(&wanted)
	wanted.status = corev1.PodStatus{
		ObservedGeneration:    pod.Generation,
		Phase:                 run.phase(wanted.status.ContainerStatuses),
		Message:               Explanation,
		StartTime:             &started,
		HostIP:                at.host.String(),
		HostIPs:               []corev1.HostIP{{IP: at.host.String()}},
		PodIP:                 at.pod.String(),
		PodIPs:                []corev1.PodIP{{IP: at.pod.String()}},
		InitContainerStatuses: run.initContainers(),
		ContainerStatuses:     wanted.status.ContainerStatuses,
	}
	wanted.status.Conditions = run.conditions(wanted.status)
	return wanted
}

func ofJob(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "Job" && owner.APIVersion == "batch/v1"
}

// simulatedRun is what became of the containers of one pod.
type simulatedRun struct {
	pod       *corev1.Pod
	started   metav1.Time
	now       metav1.Time
	succeeded bool // as containers of a Job do that do not fail
}

// initContainers have all completed, apart from sidecars, which live as long as the pod.
func (r simulatedRun) initContainers() []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, c := range r.pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			statuses = append(statuses, r.container(c))
			continue
		}
		status := r.completed(c, r.started)
		status.Ready = true
		statuses = append(statuses, status)
	}
	return statuses
}

// containers adds the containers of the pod, with what is told of those that fail.
func (r simulatedRun) containers(wanted *desire) {
	for _, c := range r.pod.Spec.Containers {
		failure := failureOf(c.Image)
		if failure == "" || r.succeeded && (failure == flap || strings.HasPrefix(failure, slowPrefix)) {
			wanted.status.ContainerStatuses = append(wanted.status.ContainerStatuses, r.container(c))
			continue
		}
		now := r.failing(c, failure)
		wanted.status.ContainerStatuses = append(wanted.status.ContainerStatuses, now.status)
		if now.lasts > 0 && (wanted.again == 0 || now.lasts < wanted.again) {
			wanted.again = now.lasts
		}
		same := func(present corev1.ContainerStatus) bool { return equality.Semantic.DeepEqual(present, now.status) }
		if !slices.ContainsFunc(r.pod.Status.ContainerStatuses, same) {
			wanted.events = append(wanted.events, now.events...)
		}
	}
}

// phase is what the containers make of the pod, as a kubelet has it.
func (r simulatedRun) phase(statuses []corev1.ContainerStatus) corev1.PodPhase {
	ended, failed := 0, false
	for i := range statuses {
		switch s := &statuses[i]; {
		case s.State.Waiting != nil && s.LastTerminationState.Terminated == nil:
			return corev1.PodPending
		case s.State.Terminated != nil:
			ended++
			failed = failed || s.State.Terminated.ExitCode != 0
		}
	}
	switch {
	case ended < len(statuses), failed && r.pod.Spec.RestartPolicy != corev1.RestartPolicyNever:
		return corev1.PodRunning
	case failed:
		return corev1.PodFailed
	default:
		return corev1.PodSucceeded
	}
}

func (r simulatedRun) container(c corev1.Container) corev1.ContainerStatus {
	if r.succeeded {
		return r.completed(c, metav1.NewTime(r.started.Add(jobDuration).Truncate(time.Second)))
	}
	return r.runningSince(c, r.started, true)
}

func (r simulatedRun) runningSince(c corev1.Container, began metav1.Time, ready bool) corev1.ContainerStatus {
	status := r.identity(c)
	status.Ready, status.Started = ready, new(true)
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: began}
	return status
}

func (r simulatedRun) completed(c corev1.Container, finished metav1.Time) corev1.ContainerStatus {
	status := r.identity(c)
	status.Started = new(false)
	status.State.Terminated = &corev1.ContainerStateTerminated{
		Reason:      "Completed",
		StartedAt:   r.started,
		FinishedAt:  finished,
		ContainerID: status.ContainerID,
	}
	return status
}

func (r simulatedRun) identity(c corev1.Container) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name:        c.Name,
		Image:       c.Image,
		ImageID:     "simulated://" + c.Image,
		ContainerID: "simulated://" + string(r.pod.UID) + "/" + c.Name,
	}
}

// conditions keep the time of their last change from what the pod already has.
func (r simulatedRun) conditions(status corev1.PodStatus) []corev1.PodCondition {
	wanted := []corev1.PodCondition{
		{Type: conditionSimulated, Status: corev1.ConditionTrue, Reason: "NoContainersRun", Message: Explanation},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}
	containersReady, ready := &wanted[2], &wanted[3]
	unready := func(reason, message string) {
		for _, c := range []*corev1.PodCondition{containersReady, ready} {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
		}
	}
	var names []string
	for i := range status.ContainerStatuses {
		if c := &status.ContainerStatuses[i]; !c.Ready {
			names = append(names, c.Name)
		}
	}
	switch {
	case status.Phase == corev1.PodSucceeded:
		unready("PodCompleted", "")
	case status.Phase == corev1.PodFailed:
		unready("PodFailed", "")
	case len(names) > 0:
		unready("ContainersNotReady", fmt.Sprintf("containers with unready status: %v", names))
	case !r.gatesOpen():
		ready.Status, ready.Reason = corev1.ConditionFalse, "ReadinessGatesNotReady"
	}
	for i := range wanted {
		wanted[i].ObservedGeneration = r.pod.Generation
		wanted[i].LastTransitionTime = r.changedAt(wanted[i])
	}
	return wanted
}

// gatesOpen tells whether what others decide about readiness is decided.
func (r simulatedRun) gatesOpen() bool {
	for _, gate := range r.pod.Spec.ReadinessGates {
		if c := find(r.pod.Status.Conditions, gate.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return false
		}
	}
	return true
}

func (r simulatedRun) changedAt(wanted corev1.PodCondition) metav1.Time {
	if present := find(r.pod.Status.Conditions, wanted.Type); present != nil && present.Status == wanted.Status {
		return present.LastTransitionTime
	}
	return r.now
}

func find(conditions []corev1.PodCondition, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}
