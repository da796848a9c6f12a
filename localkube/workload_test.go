package main

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pluralsh/plural/localkube/simnode"
)

const workloadTimeout = 30 * time.Second

// applyWorkloads creates one of each kind of object that people wait for.
func applyWorkloads(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "web", Namespace: "default"}
	labels := map[string]string{"app": "web"}
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{
				{Name: "migrate", Image: "migrate"},
				{Name: "proxy", Image: "proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
			},
			Containers: []corev1.Container{{Name: "web", Image: "web"}},
		},
	}
	stateful := *pods.DeepCopy()
	stateful.Labels = map[string]string{"app": "db"}
	once := *pods.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever

	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pods,
	}}, metav1.CreateOptions{})
	requireCreated(t, err)
	_, err = client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: labels, Ports: []corev1.ServicePort{{Port: 80}},
	}}, metav1.CreateOptions{})
	requireCreated(t, err)
	_, err = client.BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
		Template: once,
	}}, metav1.CreateOptions{})
	requireCreated(t, err)
	_, err = client.AppsV1().StatefulSets("default").Create(t.Context(), &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: stateful.Labels}, Template: stateful, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}},
	}}, metav1.CreateOptions{})
	requireCreated(t, err)
}

func requireCreated(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("create: %v", err)
	}
}

// awaitWorkloads waits until what applyWorkloads created has settled.
func awaitWorkloads(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	get := metav1.GetOptions{}
	eventually(t, workloadTimeout, func() error {
		deployment, err := client.AppsV1().Deployments("default").Get(t.Context(), "web", get)
		if err == nil && deployment.Status.AvailableReplicas != 3 {
			err = fmt.Errorf("deployment has %d of 3 replicas available", deployment.Status.AvailableReplicas)
		}
		return err
	})
	eventually(t, workloadTimeout, func() error {
		set, err := client.AppsV1().StatefulSets("default").Get(t.Context(), "web", get)
		if err == nil && set.Status.ReadyReplicas != 1 {
			err = fmt.Errorf("stateful set has %d of 1 replicas ready", set.Status.ReadyReplicas)
		}
		return err
	})
	eventually(t, workloadTimeout, func() error {
		job, err := client.BatchV1().Jobs("default").Get(t.Context(), "web", get)
		if err == nil && job.Status.CompletionTime == nil {
			err = fmt.Errorf("job has not completed: %d succeeded", job.Status.Succeeded)
		}
		return err
	})
	eventually(t, workloadTimeout, func() error {
		endpoints, err := client.DiscoveryV1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
		if err == nil && (len(endpoints.Items) != 1 || len(endpoints.Items[0].Endpoints) != 3) {
			err = fmt.Errorf("service does not have 3 endpoints: %v", endpoints.Items)
		}
		return err
	})
}

// checkNewPodsGetNewAddresses scales up after a restart, when the addresses that are in use
// were given out by another process.
func checkNewPodsGetNewAddresses(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	patch := []byte(`{"spec":{"replicas":6}}`)
	if _, err := client.AppsV1().Deployments("default").Patch(t.Context(), "web", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, workloadTimeout, func() error {
		deployment, err := client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && deployment.Status.AvailableReplicas != 6 {
			err = fmt.Errorf("deployment has %d of 6 replicas available", deployment.Status.AvailableReplicas)
		}
		return err
	})
	list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	holders := map[string]string{}
	for _, pod := range list.Items {
		if other, taken := holders[pod.Status.PodIP]; taken {
			t.Errorf("%s and %s both have address %s", other, pod.Name, pod.Status.PodIP)
		}
		holders[pod.Status.PodIP] = pod.Name
	}
}

// simulatedNodes lists the nodes, all of which must say that they are simulated.
func simulatedNodes(t *testing.T, client kubernetes.Interface) []corev1.Node {
	t.Helper()
	list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range list.Items {
		if node.Labels[simnode.LabelSimulated] != "true" || node.Annotations[simnode.LabelSimulated] != simnode.Explanation {
			t.Errorf("node %s does not say that it is simulated: %v %v", node.Name, node.Labels, node.Annotations)
		}
	}
	return list.Items
}

func TestDeletingWorkloadsLeavesNothing(t *testing.T) {
	p := launch(t, t.TempDir())
	p.ready(t)
	client := p.client(t)
	applyWorkloads(t, client)
	awaitWorkloads(t, client)

	foreground := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}
	for _, err := range []error{
		client.AppsV1().Deployments("default").Delete(t.Context(), "web", foreground),
		client.AppsV1().StatefulSets("default").Delete(t.Context(), "web", foreground),
		client.BatchV1().Jobs("default").Delete(t.Context(), "web", foreground),
		client.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data-web-0", metav1.DeleteOptions{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, workloadTimeout, func() error {
		pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		volumes, err := client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if left := len(pods.Items) + len(volumes.Items); left > 0 {
			return fmt.Errorf("%d pods and %d volumes are left", len(pods.Items), len(volumes.Items))
		}
		return nil
	})
}
