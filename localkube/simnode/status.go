package simnode

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobDuration is how long a pod of a Job runs before it succeeds: half a second to one and a half, as the API keeps whole seconds of its start.
const jobDuration = 1500 * time.Millisecond

// addresses of a pod; both are made up.
type addresses struct{ host, pod netip.Addr }

// desiredStatus is the status a pod bound to a simulated node should have now, and
// after how long to ask again (0: only when the pod changes). Fields that belong to
// others, such as the QoS class or their conditions, are left out.
func desiredStatus(pod *corev1.Pod, at addresses, now metav1.Time) (corev1.PodStatus, time.Duration) {
	started := now
	if pod.Status.StartTime != nil {
		started = *pod.Status.StartTime
	}
	phase, again := corev1.PodRunning, time.Duration(0)
	if ofJob(pod) {
		if again = jobDuration - now.Sub(started.Time); again <= 0 {
			phase, again = corev1.PodSucceeded, 0
		}
	}
	run := simulatedRun{pod: pod, started: started, now: now, succeeded: phase == corev1.PodSucceeded}
	return corev1.PodStatus{
		ObservedGeneration:    pod.Generation,
		Phase:                 phase,
		Message:               Explanation,
		StartTime:             &started,
		HostIP:                at.host.String(),
		HostIPs:               []corev1.HostIP{{IP: at.host.String()}},
		PodIP:                 at.pod.String(),
		PodIPs:                []corev1.PodIP{{IP: at.pod.String()}},
		Conditions:            run.conditions(),
		InitContainerStatuses: run.initContainers(),
		ContainerStatuses:     run.containers(),
	}, again
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
	succeeded bool
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

func (r simulatedRun) containers() []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, c := range r.pod.Spec.Containers {
		statuses = append(statuses, r.container(c))
	}
	return statuses
}

func (r simulatedRun) container(c corev1.Container) corev1.ContainerStatus {
	if r.succeeded {
		return r.completed(c, r.now)
	}
	status := r.identity(c)
	status.Ready, status.Started = true, new(true)
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: r.started}
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
func (r simulatedRun) conditions() []corev1.PodCondition {
	wanted := []corev1.PodCondition{
		{Type: conditionSimulated, Status: corev1.ConditionTrue, Reason: "NoContainersRun", Message: Explanation},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}
	containersReady, ready := &wanted[2], &wanted[3]
	switch {
	case r.succeeded:
		containersReady.Status, containersReady.Reason = corev1.ConditionFalse, "PodCompleted"
		ready.Status, ready.Reason = corev1.ConditionFalse, "PodCompleted"
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
