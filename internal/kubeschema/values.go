package kubeschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// format is what the API server, or what starts a container, asks of a value beyond its type. The schemas of Kubernetes do not have
// it; k8s.io/kubernetes/pkg/apis/*/validation has.
type format string

const (
	count       format = "kubernetes/count"
	port        format = "kubernetes/port"
	portOrZero  format = "kubernetes/port-or-0"
	dnsLabel    format = "kubernetes/dns-label"
	labels      format = "kubernetes/labels"
	annotations format = "kubernetes/annotations"
	image       format = "kubernetes/image"
	variable    format = "kubernetes/environment-variable"
	quantity    format = "kubernetes/quantity"
)

// asked are the formats of fields, by definition without "io.k8s." and field. A definition of one value has them for itself.
func asked() map[string]map[string]format {
	container := map[string]format{"name": dnsLabel, "image": image}
	workload := map[string]format{
		"replicas": count, "minReadySeconds": count, "revisionHistoryLimit": count, "progressDeadlineSeconds": count,
		"parallelism": count, "completions": count, "backoffLimit": count, "activeDeadlineSeconds": count,
		"ttlSecondsAfterFinished": count, "successfulJobsHistoryLimit": count, "failedJobsHistoryLimit": count,
	}
	return map[string]map[string]format{
		"api.apps.v1.DeploymentSpec":                     workload,
		"api.apps.v1.StatefulSetSpec":                    {"replicas": count, "minReadySeconds": count},
		"api.apps.v1.ReplicaSetSpec":                     workload,
		"api.apps.v1.DaemonSetSpec":                      workload,
		"api.batch.v1.JobSpec":                           workload,
		"api.batch.v1.CronJobSpec":                       workload,
		"api.core.v1.Container":                          container,
		"api.core.v1.ContainerPort":                      {"containerPort": port, "hostPort": portOrZero},
		"api.core.v1.EnvVar":                             {"name": variable},
		"api.core.v1.EphemeralContainer":                 container,
		"api.core.v1.HTTPGetAction":                      {"port": port},
		"api.core.v1.PodSpec":                            {"nodeSelector": labels},
		"api.core.v1.Probe":                              {"initialDelaySeconds": count, "periodSeconds": count, "timeoutSeconds": count, "failureThreshold": count},
		"api.core.v1.ServicePort":                        {"port": port, "targetPort": portOrZero, "nodePort": portOrZero},
		"api.core.v1.ServiceSpec":                        {"selector": labels},
		"api.core.v1.TCPSocketAction":                    {"port": port},
		"api.core.v1.Volume":                             {"name": dnsLabel},
		"apimachinery.pkg.api.resource.Quantity":         {"": quantity},
		"apimachinery.pkg.apis.meta.v1.LabelSelector":    {"matchLabels": labels},
		"apimachinery.pkg.apis.meta.v1.ObjectMeta":       {"labels": labels, "annotations": annotations},
		"api.autoscaling.v2.HorizontalPodAutoscalerSpec": {"minReplicas": count, "maxReplicas": count},
		"api.policy.v1.PodDisruptionBudgetSpec":          {"minAvailable": count, "maxUnavailable": count},
		"api.networking.v1.ServiceBackendPort":           {"number": portOrZero},
	}
}

// ask adds the formats of a definition to its schema.
func ask(schema any, of map[string]format) {
	root, _ := schema.(map[string]any)
	properties, _ := root["properties"].(map[string]any)
	for field, want := range of {
		if field == "" {
			root["format"] = string(want)
			continue
		}
		if property, has := properties[field].(map[string]any); has { // what stands beside a $ref counts for nothing
			properties[field] = map[string]any{"allOf": []any{property, map[string]any{"format": string(want)}}}
		}
	}
}

// formats are the checks of all formats.
func formats() []*jsonschema.Format {
	checks := map[format]func(any) error{
		count:      within(0, math.MaxInt64),
		port:       within(1, 65535),
		portOrZero: within(0, 65535),
		dnsLabel:   text(func(v string) []string { return validation.IsDNS1123Label(v) }),
		image: text(func(v string) []string {
			if _, err := name.ParseReference(v); err != nil && strings.TrimSpace(v) != "" { // none is filled in later
				return []string{"no image can be called so"}
			}
			return nil
		}),
		variable: text(func(v string) []string { return validation.IsRelaxedEnvVarName(v) }),
		quantity: isQuantity,
		labels:   pairs(validation.IsQualifiedName, validation.IsValidLabelValue),
		annotations: pairs(func(key string) []string { return validation.IsQualifiedName(strings.ToLower(key)) },
			func(string) []string { return nil }),
	}
	var list []*jsonschema.Format
	for name, check := range checks {
		list = append(list, &jsonschema.Format{Name: string(name), Validate: check})
	}
	return list
}

// within checks numbers. A port may have a name, and a count may be a share: those are not looked at.
func within(least, most int64) func(any) error {
	return func(value any) error {
		number, is := integer(value)
		if is && number < least && most == math.MaxInt64 {
			return fmt.Errorf("is %d, and has to be at least %d", number, least)
		}
		if is && (number < least || number > most) {
			return fmt.Errorf("is %d, and has to be from %d to %d", number, least, most)
		}
		return nil
	}
}

func integer(value any) (int64, bool) {
	switch v := value.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case float64:
		return int64(v), v == float64(int64(v))
	case json.Number:
		number, err := v.Int64()
		return number, err == nil
	}
	return 0, false
}

func text(check func(string) []string) func(any) error {
	return func(value any) error {
		if v, is := value.(string); is {
			return first(fmt.Sprintf("%q", v), check(v))
		}
		return nil
	}
}

// first is the first of what is wrong with a value, if anything is.
func first(value string, wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	before, _, _ := strings.Cut(wrong[0], " (e.g.")
	return errors.New("is " + value + ": " + before)
}

func isQuantity(value any) error {
	v, is := value.(string)
	if !is {
		return nil
	}
	if _, err := resource.ParseQuantity(strings.TrimSpace(v)); err != nil {
		return fmt.Errorf("is %q, and has to be a number with n, u, m, k, M, G, T, Ki, Mi, Gi, Ti or nothing behind it", v)
	}
	return nil
}

// pairs checks the keys and values of a map.
func pairs(key, value func(string) []string) func(any) error {
	return func(given any) error {
		all, _ := given.(map[string]any)
		for k, v := range all {
			if err := first(fmt.Sprintf("a map with the key %q", k), key(k)); err != nil {
				return err
			}
			written, _ := v.(string)
			if err := first(fmt.Sprintf("a map with %s: %q", k, written), value(written)); err != nil {
				return err
			}
		}
		return nil
	}
}
