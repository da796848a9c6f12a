package access

import "strings"

// resource is what has to be known of one of Kubernetes' own that is named without its group.
type resource struct {
	group string
	// clusterWide ones have no namespace.
	clusterWide bool
}

// builtin are Kubernetes' own resources. Those of other APIs are named with their groups: nothing here asks a cluster.
func builtin() map[string]resource {
	all := map[string]resource{}
	for group, names := range map[string]string{
		"": "bindings configmaps endpoints events limitranges persistentvolumeclaims pods podtemplates replicationcontrollers resourcequotas " +
			"secrets serviceaccounts services",
		"apps":                      "controllerrevisions daemonsets deployments replicasets statefulsets",
		"autoscaling":               "horizontalpodautoscalers",
		"batch":                     "cronjobs jobs",
		"coordination.k8s.io":       "leases",
		"discovery.k8s.io":          "endpointslices",
		"networking.k8s.io":         "ingresses networkpolicies",
		"policy":                    "poddisruptionbudgets",
		"rbac.authorization.k8s.io": "rolebindings roles",
		"storage.k8s.io":            "csistoragecapacities",
		"authorization.k8s.io":      "localsubjectaccessreviews",
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = resource{group, false}
		}
	}
	for group, names := range map[string]string{
		"": "componentstatuses namespaces nodes persistentvolumes",
		"admissionregistration.k8s.io": "mutatingwebhookconfigurations validatingadmissionpolicies validatingadmissionpolicybindings " +
			"validatingwebhookconfigurations",
		"apiextensions.k8s.io":         "customresourcedefinitions",
		"apiregistration.k8s.io":       "apiservices",
		"authentication.k8s.io":        "selfsubjectreviews tokenreviews",
		"authorization.k8s.io":         "selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews",
		"certificates.k8s.io":          "certificatesigningrequests",
		"flowcontrol.apiserver.k8s.io": "flowschemas prioritylevelconfigurations",
		"networking.k8s.io":            "ingressclasses",
		"node.k8s.io":                  "runtimeclasses",
		"rbac.authorization.k8s.io":    "clusterrolebindings clusterroles",
		"scheduling.k8s.io":            "priorityclasses",
		"storage.k8s.io":               "csidrivers csinodes storageclasses volumeattachments",
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = resource{group, true}
		}
	}
	return all
}
