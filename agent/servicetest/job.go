package servicetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxName is the longest name of a Job whose Pods may carry it in a label.
const maxName = validation.DNS1123LabelMaxLength

// job runs a Job. One that passed is deleted; one that failed stays to be looked at, until the next try or Sweep.
func (a attempt) job(ctx context.Context, name string, test Job) outcome {
	obj, err := a.manifest(name, test)
	if err != nil {
		return outcome{err: err}
	}
	t, err := a.task(ctx, obj)
	if err != nil {
		return outcome{err: because(ctx, err)}
	}
	// A Job that passed would have been deleted by whoever saw it: its result is news still.
	live, result := a.run(ctx, t, func(live *unstructured.Unstructured) bool { return failed(live) == "" })
	if result.err == nil {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
		defer cancel()
		_ = t.remove(cleaning, live.GetUID()) // Sweep will find it; it has passed all the same
	}
	return result
}

// manifest is the whole Job. Where nothing is said, a Pod that fails fails the try, and nothing outlives the time of it.
func (a attempt) manifest(name string, test Job) (*unstructured.Unstructured, error) {
	whole, err := complete(test.Manifest)
	if err != nil {
		return nil, err
	}
	spec := whole.Object["spec"].(map[string]any) //nolint:forcetypeassert // complete has seen to it
	if _, said := spec["backoffLimit"]; !said {
		spec["backoffLimit"] = int64(0)
	}
	deadline := int64(math.Ceil(a.limit.Seconds()))
	if said, ok := spec["activeDeadlineSeconds"].(int64); !ok || said > deadline {
		spec["activeDeadlineSeconds"] = deadline
	}
	if policy, _, _ := unstructured.NestedString(spec, "template", "spec", "restartPolicy"); policy == "" {
		if err := unstructured.SetNestedField(spec, "Never", "template", "spec", "restartPolicy"); err != nil {
			return nil, wrong("the Job: %v", err)
		}
	}
	whole.SetName(jobName(a.target.Service, name, a.target.Key))
	return whole, nil
}

// complete makes a Job of a Job's spec.
func complete(manifest map[string]any) (*unstructured.Unstructured, error) {
	// Whole numbers become what the API has for them; whoever decoded the manifest may have made fractions of them.
	text, err := stdjson.Marshal(manifest)
	if err != nil {
		return nil, wrong("the Job: %v", err)
	}
	given := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &given.Object); err != nil {
		return nil, wrong("the Job: %v", err)
	}
	if _, bare := given.Object["template"]; bare && given.GetKind() == "" {
		given.Object = map[string]any{"spec": given.Object}
	}
	if kind := given.GetKind(); kind != "" && kind != "Job" {
		return nil, wrong("the manifest is a %s, not a Job", kind)
	}
	if _, ok := given.Object["spec"].(map[string]any); !ok {
		return nil, wrong("the manifest has no spec: want a Job, or a Job's spec")
	}
	given.SetAPIVersion("batch/v1")
	given.SetKind("Job")
	return given, nil
}

// jobName is plural-test-SERVICE-TEST-KEY, with the beginning of the key. A name that would be too long or none at all has a digest
// where it was cut.
func jobName(service, test, key string) string {
	end := "-" + short(key)
	name := "plural-test-" + service + "-" + test
	if full := name + end; len(validation.IsDNS1123Label(full)) == 0 {
		return full
	}
	end = "-" + short(name+"/") + end
	return strings.TrimRight(plain(name)[:min(len(plain(name)), maxName-len(end))], "-") + end
}

// short is the beginning of a key that is a digest, or of the digest of any other.
func short(key string) string {
	const length = 8
	if len(key) >= length && strings.Trim(key[:length], "0123456789abcdef") == "" {
		return key[:length]
	}
	digest := sha256.Sum256([]byte(key))
	return hex.EncodeToString(digest[:])[:length]
}

// plain leaves of a text what a name may hold.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
}
