package simnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// podWorkers is how many pods are looked after at a time: enough to keep the API
// server of one machine busy.
const podWorkers = 8

// kubelet plays the part of that program for all nodes at once.
type kubelet struct {
	client kubernetes.Interface
	nodes  map[string]netip.Addr // by name
	pods   corelisters.PodLister
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	given  *podAddresses
	events record.EventRecorder
}

// runPods looks after the pods of all nodes until ctx ends.
func (s *Simulator) runPods(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(s.Client, 0,
		informers.WithTransform(dropManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}))
	// Events that repeat are counted in one, as a kubelet has it.
	told := record.NewBroadcaster(record.WithContext(ctx))
	defer told.Shutdown()
	told.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: s.Client.CoreV1().Events("")})
	k := &kubelet{
		client: s.Client,
		nodes:  make(map[string]netip.Addr, s.Nodes),
		pods:   factory.Core().V1().Pods().Lister(),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
		given:  &podAddresses{},
		events: told.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet"}),
	}
	for i := range s.Nodes {
		k.nodes[nodeName(i)] = nodeAddress(i)
	}
	informer := factory.Core().V1().Pods().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    k.enqueue,
		UpdateFunc: func(_, changed any) { k.enqueue(changed) },
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer k.queue.ShutDown()
	// No address may be given out before those of an earlier run are known.
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	k.work(ctx, s.logRetry)
	return nil
}

func (s *Simulator) logRetry(pod types.NamespacedName, err error) {
	s.Log.Warn("pod will be tried again", "pod", pod.String(), "err", err)
}

func dropManagedFields(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

func (k *kubelet) enqueue(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	if ip, err := netip.ParseAddr(pod.Status.PodIP); err == nil {
		k.given.seen(ip)
	}
	k.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
}

// work runs the workers until ctx ends.
func (k *kubelet) work(ctx context.Context, failed func(types.NamespacedName, error)) {
	var workers sync.WaitGroup
	for range podWorkers {
		workers.Go(func() {
			for k.workOne(ctx, failed) {
			}
		})
	}
	<-ctx.Done()
	k.queue.ShutDown()
	workers.Wait()
}

func (k *kubelet) workOne(ctx context.Context, failed func(types.NamespacedName, error)) bool {
	key, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(key)
	again, err := k.settle(ctx, key)
	if err != nil && ctx.Err() == nil {
		failed(key, err)
		k.queue.AddRateLimited(key)
		return true
	}
	k.queue.Forget(key)
	if again > 0 {
		k.queue.AddAfter(key, again)
	}
	return true
}

// settle brings one pod to where it should be now, and tells after how long to look again (0: not).
func (k *kubelet) settle(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	pod, err := k.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up pod: %w", err)
	}
	host, ours := k.nodes[pod.Spec.NodeName]
	switch {
	case !ours:
		return 0, nil
	case pod.DeletionTimestamp != nil:
		return 0, k.remove(ctx, pod)
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return 0, nil
	}
	wanted := desiredStatus(pod, addresses{host: host, pod: k.addressOf(pod, host)}, metav1.Now())
	if settled(pod.Status, wanted.status) {
		return wanted.again, nil
	}
	if err := k.patchStatus(ctx, pod, wanted.status); err != nil {
		return 0, err
	}
	for _, e := range wanted.events {
		k.events.Event(pod, e.kind, e.reason, e.message)
	}
	return wanted.again, nil
}

// addressOf keeps the address a pod has.
func (k *kubelet) addressOf(pod *corev1.Pod, host netip.Addr) netip.Addr {
	if pod.Spec.HostNetwork {
		return host
	}
	if given, err := netip.ParseAddr(pod.Status.PodIP); err == nil {
		return given
	}
	return k.given.next()
}

// remove ends the grace period of a pod, as nothing in it needs time to stop.
func (k *kubelet) remove(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 {
		return nil // only finalizers keep it
	}
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !outdated(err) {
		return fmt.Errorf("delete pod: %w", err)
	}
	return nil
}

// patchStatus changes what is ours in the status. The UID keeps it from reaching another
// pod that took the name meanwhile.
func (k *kubelet) patchStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !outdated(err) {
		return fmt.Errorf("patch status: %w", err)
	}
	return nil
}

// outdated errors mean that the pod is not the one we knew; its change is on its way to us.
func outdated(err error) bool {
	return errors.Is(err, context.Canceled) || apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}

// settled tells whether patching wanted into present would change nothing.
func settled(present, wanted corev1.PodStatus) bool {
	for _, c := range wanted.Conditions {
		if have := find(present.Conditions, c.Type); have == nil || !equality.Semantic.DeepEqual(*have, c) {
			return false
		}
	}
	present.Conditions, wanted.Conditions = nil, nil
	present.QOSClass = wanted.QOSClass
	return equality.Semantic.DeepEqual(present, wanted)
}
