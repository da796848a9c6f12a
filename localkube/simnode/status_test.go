package simnode

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	start = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	at    = addresses{host: netip.MustParseAddr("10.64.0.1"), pod: netip.MustParseAddr("10.128.0.1")}
)

func after(d time.Duration) metav1.Time { return metav1.NewTime(start.Add(d)) }

func newPod(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid", Generation: 1},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func ofAJob(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job", Controller: new(true)}}
}

func withGate(pod *corev1.Pod) {
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
}

func withGateOpen(pod *corev1.Pod) {
	withGate(pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: "example.com/gate", Status: corev1.ConditionTrue}}
}

// running makes a pod one that has been running since start.
func running(pod *corev1.Pod) {
	pod.Status = desiredStatus(pod, at, start).status
}

func TestDesiredStatus(t *testing.T) {
	for _, test := range []struct {
		name  string
		pod   *corev1.Pod
		now   metav1.Time
		phase corev1.PodPhase
		ready corev1.ConditionStatus
		again time.Duration
	}{
		{"new pod runs and is ready at once", newPod(), start, corev1.PodRunning, corev1.ConditionTrue, 0},
		{"running pod stays as it is", newPod(running), after(time.Hour), corev1.PodRunning, corev1.ConditionTrue, 0},
		{"pod of a job runs for a while", newPod(ofAJob), start, corev1.PodRunning, corev1.ConditionTrue, jobDuration},
		{"pod of a job is looked at for the rest of it", newPod(ofAJob, running), after(time.Second), corev1.PodRunning, corev1.ConditionTrue, jobDuration - time.Second},
		{"pod of a job then succeeds", newPod(ofAJob, running), after(jobDuration), corev1.PodSucceeded, corev1.ConditionFalse, 0},
		{"pod with a closed gate is not ready", newPod(withGate), start, corev1.PodRunning, corev1.ConditionFalse, 0},
		{"pod with an open gate is ready", newPod(withGateOpen), start, corev1.PodRunning, corev1.ConditionTrue, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			wanted := desiredStatus(test.pod, at, test.now)
			status, again := wanted.status, wanted.again
			if status.Phase != test.phase || again != test.again {
				t.Errorf("phase %s, again after %s; want %s, %s", status.Phase, again, test.phase, test.again)
			}
			if ready := find(status.Conditions, corev1.PodReady); ready == nil || ready.Status != test.ready {
				t.Errorf("ready condition %v, want %s", ready, test.ready)
			}
			if simulated := find(status.Conditions, conditionSimulated); simulated == nil || simulated.Message != Explanation || status.Message != Explanation {
				t.Errorf("does not say that it is simulated: %v, message %q", simulated, status.Message)
			}
		})
	}
}

func TestDesiredStatusOfContainers(t *testing.T) {
	pod := newPod(ofAJob, func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{
			{Name: "migrate", Image: "migrate:1"},
			{Name: "proxy", Image: "proxy:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
		}
	})
	states := func(statuses ...corev1.ContainerStatus) map[string]string {
		found := map[string]string{}
		for _, s := range statuses {
			switch {
			case s.State.Running != nil && s.Ready && *s.Started:
				found[s.Name] = "running"
			case s.State.Terminated != nil && s.State.Terminated.ExitCode == 0 && !*s.Started:
				found[s.Name] = "completed"
			default:
				found[s.Name] = s.State.String()
			}
		}
		return found
	}
	for _, test := range []struct {
		name string
		now  metav1.Time
		want map[string]string
	}{
		{"while it runs", start, map[string]string{"migrate": "completed", "proxy": "running", "web": "running"}},
		{"after it succeeded", after(time.Minute), map[string]string{"migrate": "completed", "proxy": "completed", "web": "completed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := pod.DeepCopy()
			pod.Status.StartTime = &start
			status := desiredStatus(pod, at, test.now).status
			got := states(append(status.InitContainerStatuses, status.ContainerStatuses...)...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}

// A pod that is patched although nothing changed would be patched for ever, by its own event.
func TestSettledPodIsLeftAlone(t *testing.T) {
	pod := newPod(running)
	pod.Status.QOSClass = corev1.PodQOSBestEffort
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	wanted := desiredStatus(pod, at, after(time.Hour)).status
	if !settled(pod.Status, wanted) {
		t.Errorf("is not settled:\n%s", cmp.Diff(pod.Status, wanted))
	}
	pod.Spec.Containers[0].Image = "web:2"
	if wanted = desiredStatus(pod, at, after(time.Hour)).status; settled(pod.Status, wanted) {
		t.Error("new image of a container goes unnoticed")
	}
}

func TestPodAddressesAreNotGivenOutTwice(t *testing.T) {
	var given podAddresses
	for _, earlier := range []string{"10.128.1.0", "10.128.0.9", "10.64.0.1", "192.168.0.1", "fd00::1"} {
		given.seen(netip.MustParseAddr(earlier))
	}
	if got, want := given.next().String(), "10.128.1.1"; got != want {
		t.Errorf("first address is %s, want %s", got, want)
	}
	given.seen(netip.MustParseAddr("10.255.255.255"))
	if got, want := given.next().String(), "10.128.0.1"; got != want {
		t.Errorf("address after the last is %s, want %s", got, want)
	}
}
