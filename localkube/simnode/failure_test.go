package simnode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func withImage(image string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Namespace = "default"
		pod.Spec.Containers[0].Image = image
	}
}

func neverRestarted(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }

// told is what kubectl shows of the only container of a pod: phase, state with its reason or exit code, restarts, readiness, how
// its last run ended, and for how long that lasts.
func told(d desire) string {
	c := d.status.ContainerStatuses[0]
	line := fmt.Sprint(d.status.Phase)
	switch {
	case c.State.Waiting != nil:
		line += " " + c.State.Waiting.Reason
	case c.State.Terminated != nil:
		line += fmt.Sprintf(" %s %d", c.State.Terminated.Reason, c.State.Terminated.ExitCode)
	default:
		line += " runs"
	}
	if c.Ready != (find(d.status.Conditions, corev1.PodReady).Status == corev1.ConditionTrue) {
		line += " and pod differ in being"
	}
	if c.Ready {
		line += " ready"
	}
	if c.RestartCount > 0 {
		line += fmt.Sprintf(", restarts %d", c.RestartCount)
	}
	if last := c.LastTerminationState.Terminated; last != nil {
		line += fmt.Sprintf(", last %s %d from %s to %s",
			last.Reason, last.ExitCode, last.StartedAt.Sub(start.Time), last.FinishedAt.Sub(start.Time))
	}
	return fmt.Sprintf("%s, for %s", line, d.again)
}

// course is what becomes of a new pod, at each time something does, until the time given.
func course(t *testing.T, pod *corev1.Pod, until time.Duration) (lines, events []string) {
	t.Helper()
	for age := time.Duration(0); ; {
		wanted := desiredStatus(pod, at, after(age))
		lines = append(lines, fmt.Sprintf("%s: %s", age, told(wanted)))
		for _, e := range wanted.events {
			events = append(events, fmt.Sprintf("%s: %s %s %s", age, e.kind, e.reason, e.message))
		}
		pod.Status = wanted.status
		if again := desiredStatus(pod, at, after(age)); !settled(pod.Status, again.status) || len(again.events) > 0 {
			t.Errorf("at %s it does not settle: events %v\n%s", age, again.events, cmp.Diff(pod.Status, again.status))
		}
		age += wanted.again
		if wanted.again == 0 || age > until {
			return lines, events
		}
	}
}

const notFound = `rpc error: code = NotFound desc = failed to pull and unpack image "web:1-sim.pull-error": ` +
	`failed to resolve reference "web:1-sim.pull-error": web:1-sim.pull-error: not found`

func TestTagsSimulateFailures(t *testing.T) {
	for _, test := range []struct {
		name   string
		pod    *corev1.Pod
		until  time.Duration
		lines  []string
		events []string
	}{
		{"an image that cannot be pulled", newPod(withImage("web:1-sim.pull-error")), 11 * time.Second, []string{
			"0s: Pending ErrImagePull, for 1s",
			"1s: Pending ImagePullBackOff, for 10s",
			"11s: Pending ErrImagePull, for 1s",
		}, []string{
			`0s: Normal Pulling Pulling image "web:1-sim.pull-error"`,
			`0s: Warning Failed Failed to pull image "web:1-sim.pull-error": ` + notFound,
			"0s: Warning Failed Error: ErrImagePull",
			`1s: Normal BackOff Back-off pulling image "web:1-sim.pull-error"`,
			"1s: Warning Failed Error: ImagePullBackOff",
			`11s: Normal Pulling Pulling image "web:1-sim.pull-error"`,
			`11s: Warning Failed Failed to pull image "web:1-sim.pull-error": ` + notFound,
			"11s: Warning Failed Error: ErrImagePull",
		}},
		{"a crash", newPod(withImage("web:1-sim.crash")), 14 * time.Second, []string{
			"0s: Running runs, for 1s",
			"1s: Running runs, restarts 1, last Error 1 from 0s to 1s, for 1s",
			"2s: Running Error 1, restarts 1, last Error 1 from 0s to 1s, for 1s",
			"3s: Running CrashLoopBackOff, restarts 1, last Error 1 from 1s to 2s, for 9s",
			"12s: Running runs, restarts 2, last Error 1 from 1s to 2s, for 1s",
			"13s: Running Error 1, restarts 2, last Error 1 from 1s to 2s, for 1s",
			"14s: Running CrashLoopBackOff, restarts 2, last Error 1 from 12s to 13s, for 19s",
		}, []string{
			"3s: Warning BackOff Back-off restarting failed container web in pod web_default(uid)",
			"14s: Warning BackOff Back-off restarting failed container web in pod web_default(uid)",
		}},
		{"too little memory", newPod(withImage("web:1-sim.oom")), 3 * time.Second, []string{
			"0s: Running runs, for 1s",
			"1s: Running runs, restarts 1, last OOMKilled 137 from 0s to 1s, for 1s",
			"2s: Running OOMKilled 137, restarts 1, last OOMKilled 137 from 0s to 1s, for 1s",
			"3s: Running CrashLoopBackOff, restarts 1, last OOMKilled 137 from 1s to 2s, for 9s",
		}, []string{"3s: Warning BackOff Back-off restarting failed container web in pod web_default(uid)"}},
		{
			"a crash that nothing follows", newPod(withImage("web:1-sim.crash"), neverRestarted), time.Minute,
			[]string{"0s: Running runs, for 1s", "1s: Failed Error 1, for 0s"},
			nil,
		},
		{"readiness that comes and goes", newPod(withImage("web:1-sim.flap")), 20 * time.Second, []string{
			"0s: Running runs ready, for 10s",
			"10s: Running runs, for 10s",
			"20s: Running runs ready, for 10s",
		}, []string{"10s: Warning Unhealthy Readiness probe failed: HTTP probe failed with statuscode: 503"}},
		{
			"a slow start", newPod(withImage("web:1-sim.slow-30s")), time.Minute,
			[]string{"0s: Running runs, for 30s", "30s: Running runs ready, for 0s"},
			[]string{"0s: Warning Unhealthy Readiness probe failed: connection refused"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines, events := course(t, test.pod, test.until)
			if diff := cmp.Diff(test.lines, lines); diff != "" {
				t.Errorf("course (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.events, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBackOffsDoubleUpToFiveMinutes(t *testing.T) {
	pod := newPod(withImage("web:1-sim.crash"))
	lines, _ := course(t, pod, 20*time.Minute)
	if got, want := lines[len(lines)-1], "restarts 8, last Error 1 from 15m18s to 15m19s, for 4m59s"; !strings.HasSuffix(got, want) {
		t.Errorf("in the end it is %q, want %q", got, want)
	}
	want := "back-off 5m0s restarting failed container=web pod=web_default(uid)"
	if got := pod.Status.ContainerStatuses[0].State.Waiting; got == nil || got.Message != want {
		t.Errorf("waits %v, want %q", got, want)
	}
}

func TestFailureOfAnImageStandsInItsTag(t *testing.T) {
	for image, want := range map[string]string{
		"web": "", "web:1": "", "localhost:5000/web": "", "a-sim.crash/web:1": "", "web@sha256:0": "",
		"web:1-sim.crash": crash, "localhost:5000/web:1-sim.slow-1m30s": "slow-1m30s", "web:1-sim.oom@sha256:0": oom,
	} {
		if got := failureOf(image); got != want {
			t.Errorf("%s asks for %q, want %q", image, got, want)
		}
	}
}

func TestUnknownFailuresAreNamed(t *testing.T) {
	for _, failure := range []string{"carsh", "slow", "slow-", "slow-x", "slow--1s", "slow-2h", "30s"} {
		status := desiredStatus(newPod(withImage("web:1-sim."+failure)), at, start).status
		waits := status.ContainerStatuses[0].State.Waiting
		if waits == nil || !strings.HasPrefix(waits.Message, fmt.Sprintf("unknown simulated failure %q: write pull-error, ", failure)) {
			t.Errorf("%s waits %v", failure, waits)
		}
	}
}

// A job's other containers complete, and those that are slow or flap with them.
func TestContainersOfAJobCompleteBesideOneThatCrashes(t *testing.T) {
	pod := newPod(ofAJob, neverRestarted, withImage("web:1-sim.crash"), func(pod *corev1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "side", Image: "side:1-sim.slow-1h"})
	})
	pod.Status.StartTime = new(metav1.NewTime(start.Time))
	status := desiredStatus(pod, at, after(jobDuration)).status
	if status.Phase != corev1.PodFailed {
		t.Errorf("pod is %s, want Failed", status.Phase)
	}
	if side := status.ContainerStatuses[1].State.Terminated; side == nil || side.Reason != "Completed" {
		t.Errorf("other container is %v", status.ContainerStatuses[1].State)
	}
}
