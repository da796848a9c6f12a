package podrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Pauses before a container that ended is started again.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 10 * time.Second
)

// simulatedJob is how long a container of an image that nothing stands for runs, where it is to end.
const simulatedJob = time.Second

// pod is one that the node runs.
type pod struct {
	*Node
	object          *corev1.Pod
	namespace, name string
	dir             string
	cancel          context.CancelFunc
	over            chan struct{}

	mu     sync.Mutex // guards what follows
	ending *corev1.Pod
	states map[string]*state // of containers, by name
	reason string            // why nothing runs yet
}

// state is what became of one container.
type state struct {
	process  *os.Process
	status   corev1.ContainerStatus
	restarts int32
}

// run is the pod's life.
func (p *pod) run(ctx context.Context) {
	started := metav1.Now()
	p.object.Status.StartTime = &started
	folders, err := p.await(ctx)
	if err == nil {
		err = p.initialize(ctx, folders)
	}
	if err == nil {
		p.work(ctx, folders)
	}
	p.mu.Lock()
	ending := p.ending
	p.mu.Unlock()
	if ending != nil {
		p.forget(context.WithoutCancel(ctx), ending)
	}
}

// await makes what the pod mounts, once all of it is there.
func (p *pod) await(ctx context.Context) (map[string]string, error) {
	ticker := time.NewTicker(5 * look)
	defer ticker.Stop()
	for {
		folders, err := p.volumes(ctx)
		if err == nil {
			return folders, nil
		}
		p.wait(ctx, "ContainerCreating", err.Error())
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

// wait says why nothing runs yet.
func (p *pod) wait(ctx context.Context, reason, message string) {
	p.mu.Lock()
	news := p.reason != reason+message
	p.reason = reason + message
	for _, c := range p.object.Spec.Containers {
		p.states[c.Name] = &state{status: corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}
	}
	p.mu.Unlock()
	if news {
		p.tell(ctx, corev1.PodPending)
	}
}

// initialize runs the init containers, one after the other.
func (p *pod) initialize(ctx context.Context, folders map[string]string) error {
	for i := range p.object.Spec.InitContainers {
		c := &p.object.Spec.InitContainers[i]
		if program, ok := p.program(c.Image); ok {
			for pause := firstPause; ; pause = min(2*pause, lastPause) {
				err := p.process(ctx, c, program, folders, func(*os.Process) {})
				if err == nil {
					break
				}
				p.wait(ctx, "PodInitializing", fmt.Sprintf("%s: %v", c.Name, err))
				if err := sleep(ctx, pause); err != nil {
					return err
				}
			}
		}
	}
	return ctx.Err()
}

// work runs the containers until they end, where the pod wants that, or the pod does.
func (p *pod) work(ctx context.Context, folders map[string]string) {
	p.mu.Lock()
	for _, c := range p.object.Spec.Containers {
		p.states[c.Name] = &state{status: corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "podrun://" + c.Image}}
	}
	p.mu.Unlock()
	results := make([]error, len(p.object.Spec.Containers))
	var running sync.WaitGroup
	for i := range p.object.Spec.Containers {
		running.Go(func() { results[i] = p.container(ctx, &p.object.Spec.Containers[i], folders) })
	}
	running.Wait()
	if ctx.Err() != nil {
		return
	}
	phase := corev1.PodSucceeded
	if errors.Join(results...) != nil {
		phase = corev1.PodFailed
	}
	p.tell(ctx, phase)
}

// container runs one container, again and again where the pod wants that.
func (p *pod) container(ctx context.Context, c *corev1.Container, folders map[string]string) error {
	program, real := p.program(c.Image)
	if real && len(program.Command) == 0 && program.Layout == "" {
		p.set(ctx, c.Name, func(s *state) {
			s.status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "ImagePullBackOff", Message: "there is no image " + c.Image,
			}}
		})
		<-ctx.Done()
		return nil
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		began := time.Now()
		err := p.once(ctx, c, program, real, folders)
		if ctx.Err() != nil {
			return nil
		}
		code := exitCode(err)
		ended := &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Completed", StartedAt: metav1.NewTime(began), FinishedAt: metav1.Now(),
		}
		if code != 0 {
			ended.Reason, ended.Message = "Error", err.Error()
		}
		policy := p.object.Spec.RestartPolicy
		if policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && code == 0 {
			p.set(ctx, c.Name, func(s *state) {
				s.status.Ready, s.status.Started, s.status.State = false, new(false), corev1.ContainerState{Terminated: ended}
			})
			return err
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		p.set(ctx, c.Name, func(s *state) {
			s.restarts++
			s.status.RestartCount, s.status.Ready, s.status.Started = s.restarts, false, new(false)
			s.status.LastTerminationState = corev1.ContainerState{Terminated: ended}
			s.status.State = corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: ended.Message},
			}
		})
		if sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// once runs a container until it ends, or a probe of its life fails.
func (p *pod) once(ctx context.Context, c *corev1.Container, program Program, real bool, folders map[string]string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.set(ctx, c.Name, func(s *state) {
		s.status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
		s.status.Ready, s.status.Started = !real, new(!real)
	})
	if !real {
		if p.object.Spec.RestartPolicy != corev1.RestartPolicyAlways {
			return sleep(ctx, simulatedJob)
		}
		<-ctx.Done()
		return nil
	}
	var probing sync.WaitGroup
	defer probing.Wait()
	defer cancel()
	return p.process(ctx, c, program, folders, func(process *os.Process) {
		p.mu.Lock()
		p.states[c.Name].process = process
		p.mu.Unlock()
		probing.Go(func() { p.probe(ctx, c, process) })
	})
}

// process runs a container's command to its end. It is asked to go when ctx ends, and ended when it does not.
func (p *pod) process(
	ctx context.Context, c *corev1.Container, program Program, folders map[string]string, began func(*os.Process),
) error {
	scene, err := p.scene(ctx, c, program, folders)
	if err != nil {
		return err
	}
	argv, env := scene.argv(c, program, filepath.Join(p.dir, "kubeconfig")), slices.Concat(environment(scene.env), program.Env)
	if program.Layout != "" {
		made, err := p.newContainer(c, program, folders, scene)
		if err != nil {
			return err
		}
		argv, env = made.command(), os.Environ() // the container's own is in its bundle
		defer made.remove(context.WithoutCancel(ctx))
	}
	name := filepath.Join(p.Dir, "logs", p.namespace+"_"+p.name+"_"+c.Name+".log")
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.Env = env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = p.grace()
	lifeline, err := cmd.StdinPipe() // ends when this process does, however that comes about
	if err != nil {
		return err
	}
	defer lifeline.Close()
	if _, err := fmt.Fprintf(log, "podrun: %s\n", strings.Join(argv, " ")); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	began(cmd.Process)
	return cmd.Wait()
}

// grace is how long a process may take to go.
func (p *pod) grace() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	seconds := p.object.Spec.TerminationGracePeriodSeconds
	if p.ending != nil && p.ending.DeletionGracePeriodSeconds != nil {
		seconds = p.ending.DeletionGracePeriodSeconds
	}
	if seconds == nil {
		return 30 * time.Second
	}
	return time.Duration(*seconds) * time.Second
}

func environment(env map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// end has the pod go.
func (p *pod) end(object *corev1.Pod) {
	p.mu.Lock()
	p.ending = object
	p.mu.Unlock()
	p.cancel()
}

// kill ends the processes at once. They are started again.
func (p *pod) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.states {
		if s.process != nil {
			_ = s.process.Kill() // one that has ended has ended
		}
	}
}

// forget takes a pod out of the API, and its folders from the disk; claims stay.
func (n *Node) forget(ctx context.Context, object *corev1.Pod) {
	err := n.kube.Resource(resourceOf("", "pods")).Namespace(object.Namespace).Delete(ctx, object.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(object.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		n.log("podrun: delete pod %s: %v", object.Name, err)
	}
	if err := os.RemoveAll(filepath.Join(n.Dir, "pods", string(object.UID))); err != nil {
		n.log("podrun: %v", err)
	}
}

// set changes what is known of a container, and writes the pod's status.
func (p *pod) set(ctx context.Context, container string, change func(*state)) {
	p.mu.Lock()
	change(p.states[container])
	p.mu.Unlock()
	p.tell(ctx, corev1.PodRunning)
}

func (p *pod) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.object.Spec.Containers {
		if s := p.states[c.Name]; s == nil || !s.status.Ready {
			return false
		}
	}
	return true
}

// tell writes the pod's status, unless the node is stopping.
func (p *pod) tell(ctx context.Context, phase corev1.PodPhase) {
	if ctx.Err() != nil {
		return
	}
	ready := corev1.ConditionFalse
	if p.isReady() {
		ready = corev1.ConditionTrue
	}
	p.mu.Lock()
	status := corev1.PodStatus{
		ObservedGeneration: p.object.Generation, Phase: phase, StartTime: p.object.Status.StartTime,
		HostIP: "127.0.0.1", PodIP: p.ip(), PodIPs: []corev1.PodIP{{IP: p.ip()}},
	}
	pulled := true
	for _, c := range p.object.Spec.Containers {
		s := p.states[c.Name].status
		pulled = pulled && (s.State.Waiting == nil || s.State.Waiting.Reason != "ImagePullBackOff")
		status.ContainerStatuses = append(status.ContainerStatuses, s)
	}
	p.mu.Unlock()
	if phase == corev1.PodRunning && !pulled && len(p.object.Spec.Containers) == 1 {
		status.Phase = corev1.PodPending
	}
	now := metav1.Now()
	for kind, is := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodInitialized: corev1.ConditionTrue, corev1.ContainersReady: ready, corev1.PodReady: ready,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: kind, Status: is, LastTransitionTime: now, ObservedGeneration: p.object.Generation,
		})
	}
	patch := map[string]any{"metadata": map[string]any{"uid": p.object.UID}, "status": status}
	if err := p.patchStatus(ctx, "pods", p.namespace, p.name, patch); err != nil && ctx.Err() == nil {
		p.log("podrun: %v", err)
	}
}

// ip is an address that nothing answers at: processes are reached at ports of this machine.
func (p *pod) ip() string {
	var sum uint32
	for _, b := range []byte(p.object.UID) {
		sum = sum*31 + uint32(b)
	}
	return fmt.Sprintf("10.200.%d.%d", sum>>8&0xff, sum&0xff)
}

// port is the number of a container's port, by name or number.
func (p *pod) port(name string) int {
	for _, c := range p.object.Spec.Containers {
		for _, known := range c.Ports {
			if known.Name == name || strconv.Itoa(int(known.ContainerPort)) == name {
				return int(known.ContainerPort)
			}
		}
	}
	return 0
}

func (p *pod) portAt(port intstr.IntOrString) int { return p.port(port.String()) }

func exitCode(err error) int32 {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return int32(exit.ExitCode())
	}
	return 137
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
