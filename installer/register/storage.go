package register

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Persistence is the parameter of a cluster that says whether its agent has a volume there: the package agent reads it, unless it is
// told otherwise. A chart cannot look at the cluster that it is rendered for, and what it renders has to be in git.
const Persistence = "agentPersistence"

// looking is how long a cluster may take to say which storage classes it has.
const looking = 10 * time.Second

// Storage looks whether the cluster gives a volume to a claim that names no class. It returns that as parameters for the cluster's file,
// and what people should know of it; "" for nothing. Where nobody can tell, there are no parameters.
func Storage(ctx context.Context, kube dynamic.Interface, cluster string) (parameters map[string]string, note string) {
	const fix = "plural cluster set %[1]s " + Persistence + "=true, once claims get one"
	has, err := hasDefaultClass(ctx, kube)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("cluster %[1]s does not say whether it has a default StorageClass: its agent has no volume: %[2]v; "+fix, cluster, err)
	case !has:
		note = fmt.Sprintf("cluster %[1]s has no default StorageClass: its agent has no volume, and a new pod of it heals nothing before "+
			"the hub has answered; "+fix, cluster)
	}
	return map[string]string{Persistence: fmt.Sprint(has)}, note
}

func hasDefaultClass(ctx context.Context, kube dynamic.Interface) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, looking)
	defer cancel()
	classes := schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}
	list, err := kube.Resource(classes).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for i := range list.Items {
		about := list.Items[i].GetAnnotations()
		if about["storageclass.kubernetes.io/is-default-class"] == "true" || about["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
			return true, nil
		}
	}
	return false, nil
}
