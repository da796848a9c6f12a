package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pluralsh/plural/localkube/simnode"
)

const (
	pollInterval = 50 * time.Millisecond
	startTimeout = 2 * time.Minute
)

// awaitServing waits until the API server answers at all, or until a part of its layer failed.
func awaitServing(ctx context.Context, client kubernetes.Interface, failed <-chan error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var answer error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		answer = poll(ctx, "kube-apiserver to answer", live(client))
	}()
	select {
	case <-answered:
		return answer
	case err := <-failed:
		cancel(err)
		<-answered
		return err
	}
}

// awaitUsable waits until pods can be created and would be scheduled: the API server
// is ready, the default service account is there and all nodes are Ready.
func awaitUsable(ctx context.Context, client kubernetes.Interface, nodes int) error {
	for _, step := range []struct {
		what  string
		check func(context.Context) error
	}{
		{"kube-apiserver to be ready", ready(client)},
		{"the default service account", serviceAccount(client)},
		{"nodes to be ready", nodesReady(client, nodes)},
	} {
		if err := poll(ctx, step.what, step.check); err != nil {
			return err
		}
	}
	return nil
}

func live(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/livez/ping").Do(ctx).Error()
	}
}

func healthy(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx).Error()
	}
}

func ready(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
}

func serviceAccount(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	}
}

func nodesReady(client kubernetes.Interface, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: simnode.LabelSimulated + "=true"})
		if err != nil {
			return err
		}
		got := 0
		for _, node := range list.Items {
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					got++
				}
			}
		}
		if got < want {
			return fmt.Errorf("%d of %d ready", got, want)
		}
		return nil
	}
}

// poll repeats check until it succeeds, and tells its last error otherwise.
func poll(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last seen: %w", what, context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
