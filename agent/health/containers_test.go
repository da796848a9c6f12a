package health_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/health"
)

func TestAPodSaysWhatKeepsItsContainers(t *testing.T) {
	const again = "state: {waiting: {reason: CrashLoopBackOff, message: back-off 10s restarting failed container=web}}"
	tests := map[string]struct {
		status, want string
	}{
		"too little memory, before the next start": {
			`{phase: Running, containerStatuses: [{name: web, ready: false, ` + again + `, lastState: {terminated: {reason: OOMKilled, exitCode: 137}}}]}`,
			"container web: CrashLoopBackOff: its last run ended: OOMKilled, exit code 137",
		},
		"too little memory, started again": {
			`{phase: Running, containerStatuses: [{name: web, ready: false, state: {running: {}}, lastState: {terminated: {reason: OOMKilled, exitCode: 137}}}]}`,
			"container web: its last run ended: OOMKilled, exit code 137",
		},
		"too little memory, just ended": {
			`{phase: Running, containerStatuses: [{name: web, ready: false, state: {terminated: {reason: OOMKilled, exitCode: 137}}}]}`,
			"container web: OOMKilled, exit code 137",
		},
		"a back-off of which no end is told": {
			`{phase: Running, containerStatuses: [{name: web, ready: false, ` + again + `}]}`,
			"container web: CrashLoopBackOff: back-off 10s restarting failed container=web",
		},
		"an image that cannot be pulled, and a container that waits for it": {
			`{phase: Pending, initContainerStatuses: [{name: init, state: {waiting: {reason: ErrImagePull, message: "a:1: not found"}}}],
			  containerStatuses: [{name: web, state: {waiting: {reason: PodInitializing}}}]}`,
			"container init: ErrImagePull: a:1: not found",
		},
		"a container that did its work": {
			`{phase: Pending, initContainerStatuses: [{name: init, state: {terminated: {reason: Completed, exitCode: 0}}}],
			  containerStatuses: [{name: web, state: {waiting: {reason: CreateContainerConfigError}}}]}`,
			"container web: CreateContainerConfigError",
		},
		"a status that makes no sense": {`{phase: Pending, containerStatuses: [7, {name: web, state: [], lastState: {terminated: 1}}]}`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := parse(t, `{apiVersion: v1, kind: Pod, metadata: {name: a}, status: `+tt.status+`}`)
			if diff := cmp.Diff(tt.want, health.Containers(pod)); diff != "" {
				t.Error(diff)
			}
			if got := health.Of(pod); got.Phase == health.Healthy || tt.want != "" && got.Message != tt.want {
				t.Errorf("the verdict is %s: %s", got.Phase, got.Message)
			}
		})
	}
	well := parse(t, `{apiVersion: v1, kind: Pod, metadata: {name: a}, status: {phase: Running, conditions: [{type: Ready, status: "True"}],
		containerStatuses: [{name: web, ready: true, state: {running: {}}, lastState: {terminated: {reason: OOMKilled, exitCode: 137}}}]}}`)
	if got := health.Of(well); got.Phase != health.Healthy || health.Containers(well) != "" {
		t.Errorf("of a pod that is well again it is said %s: %s: %q", got.Phase, got.Message, health.Containers(well))
	}
}
