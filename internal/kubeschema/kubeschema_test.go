package kubeschema_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme" //nolint:depguard // its types know their life cycles
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/internal/kubeschema"
	"github.com/pluralsh/plural/internal/removedapi"
)

func load(t testing.TB) *kubeschema.Builtin {
	t.Helper()
	b, err := kubeschema.Load()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func kindOf(o map[string]any) schema.GroupVersionKind {
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	return schema.FromAPIVersionAndKind(version, kind)
}

func told(faults []kubeschema.Fault) string {
	var lines []string
	for _, f := range faults {
		line := f.Field() + ": " + f.Message
		if f.Fix != "" {
			line += "; " + f.Fix
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, creationTimestamp: null}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: nginx, ports: [{containerPort: 80}], resources: {limits: {cpu: 1, memory: 64Mi}},
         livenessProbe: {httpGet: {port: http, path: /}}}
status: {}
`

func TestWhatTheAPIServerWouldRefuseIsToldWithItsField(t *testing.T) {
	b := load(t)
	for name, c := range map[string]struct{ object, want string }{
		"sound": {deployment, ""},
		"unknown field": {
			strings.Replace(deployment, "spec:\n  sel", "spec:\n  replcas: 3\n  sel", 1),
			"spec.replcas: unknown field; did you mean replicas?",
		},
		"deep": {
			strings.Replace(deployment, "image: nginx", "imag: nginx", 1),
			"spec.template.spec.containers[0].imag: unknown field; did you mean image?",
		},
		"other letters": {
			strings.Replace(deployment, "image: nginx", "Image: nginx", 1),
			"spec.template.spec.containers[0].Image: unknown field; did you mean image?",
		},
		"text for a number": {
			strings.Replace(deployment, "spec:\n  sel", "spec:\n  replicas: \"3\"\n  sel", 1),
			"spec.replicas: is a string, and has to be an integer; write it without quotes",
		},
		"a word for a number": {
			strings.Replace(deployment, "spec:\n  sel", "spec:\n  replicas: two\n  sel", 1),
			"spec.replicas: is a string, and has to be an integer",
		},
		"number for a text": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {port: 80, debug: true}",
			"data.debug: is true or false, and has to be a string; write it in quotes\ndata.port: is a number, and has to be a string; write it in quotes",
		},
		"missing":      {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: c}\nspec: {selector: {}}", "spec.template: is missing; add it"},
		"missing spec": {"apiVersion: v1\nkind: Service\nmetadata: {name: c}\nspec: {ports: [{name: a}]}", "spec.ports[0].port: is missing; add it"},
		"list for map": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, labels: [a]}", "metadata.labels: is a list, and has to be a map"},
		"plain secret": {"apiVersion: v1\nkind: Secret\nmetadata: {name: c}\ndata: {password: hunter2}", "data.password: is no base64; encode it; plain text of a Secret goes into stringData"},
		"keys with dots": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, annotations: {a.example.com/b: 1}}",
			`metadata.annotations["a.example.com/b"]: is a number, and has to be a string; write it in quotes`,
		},
		"filled in by the server": {"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: c}\nroleRef: {kind: Role, name: r}\nsubjects: []", ""},
		"no number is asked for":  {"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: c}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, c.object)
			form, err := b.Version(b.Last).Form(kindOf(o))
			if err != nil || form == nil {
				t.Fatal(form, err)
			}
			if got := told(form.Check(o)); got != c.want {
				t.Errorf("%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestEveryBuiltInKindOfEveryVersionCompiles(t *testing.T) {
	b := load(t)
	for minor := b.First; minor <= b.Last; minor++ {
		v := b.Version(minor)
		for _, text := range []string{"apps/v1 Deployment", "v1 Pod", "batch/v1 CronJob", "apiextensions.k8s.io/v1 CustomResourceDefinition"} {
			version, kind, _ := strings.Cut(text, " ")
			form, err := v.Form(schema.FromAPIVersionAndKind(version, kind))
			if err != nil || form == nil {
				t.Errorf("1.%d: %s: %v", minor, text, err)
			}
		}
	}
}

func TestAFieldIsUnknownToTheVersionsBeforeIt(t *testing.T) {
	b := load(t)
	o := object(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, restartPolicyRules: []}]}")
	for minor, want := range map[int]string{33: "spec.containers[0].restartPolicyRules: unknown field; did you mean restartPolicy?", 34: ""} {
		form, err := b.Version(minor).Form(kindOf(o))
		if err != nil {
			t.Fatal(err)
		}
		if got := told(form.Check(o)); got != want {
			t.Errorf("1.%d: %s, want %s", minor, got, want)
		}
	}
}

const definition = `
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [size, mode]
            properties:
              size: {type: integer, minimum: 1, maximum: 5}
              mode: {type: string, enum: [fast, slow], default: fast}
              port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              note: {type: string, nullable: true}
              name: {type: string, pattern: "^[a-z]+$"}
              pod: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}
              from: {type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]}
          status: {type: object, required: [ready], properties: {ready: {type: boolean}}}
  - {name: v1alpha1, served: false, storage: false}
  - {name: v2, served: true, storage: false}
`

func TestObjectsOfDefinitionsAreCheckedAgainstTheirOwnSchema(t *testing.T) {
	_, forms := kubeschema.Defined(object(t, definition))
	if got := kubeschema.Versions(forms); !slices.Equal(got, []string{"v1", "v2"}) {
		t.Errorf("serves %v", got)
	}
	for spec, want := range map[string]string{
		"{size: 1}": "",
		"{size: 1, port: http, note: null, free: {b: 1}, pod: {kind: Pod, spec: {}}}": "",
		"{size: 1, port: 80, from: {a: x}}":                                           "",
		"{sise: 1, size: 1}":                                                          "spec.sise: unknown field; did you mean size?",
		"{mode: fast}":                                                                "spec.size: is missing; add it",
		"{size: 9}":                                                                   "spec.size: maximum: got 9, want 5",
		"{size: 1, mode: quick}":                                                      "spec.mode: has to be one of fast, slow",
		"{size: 1, name: hunter2}":                                                    "spec.name: does not match the pattern ^[a-z]+$",
		"{size: 1, free: {a: 1}}":                                                     "spec.free.a: is a number, and has to be a string; write it in quotes",
		"{size: 1, from: {}}": "spec.from: has none of the forms, or more than one, that its definition allows: " +
			"spec.from.a is missing, or spec.from.b is missing",
	} {
		o := object(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nstatus: {}\nspec: "+spec)
		if got := told(forms[kindOf(o)].Check(o)); got != want {
			t.Errorf("%s: %s\nwant %s", spec, got, want)
		}
	}
	free := object(t, "apiVersion: example.com/v2\nkind: Widget\nanything: 1")
	if got := forms[kindOf(free)].Check(free); got != nil {
		t.Errorf("a version without a schema: %s", told(got))
	}
}

func TestASchemaReadsNoFile(t *testing.T) {
	crd := strings.Replace(definition, "type: object\n        required: [spec]", `type: object`+"\n        $ref: file:///etc/hostname", 1)
	_, forms := kubeschema.Defined(object(t, crd))
	o := object(t, "apiVersion: example.com/v1\nkind: Widget\nspec: {size: 1}")
	if got := forms[kindOf(o)].Check(o); got != nil {
		t.Error(told(got))
	}
}

// One table says which kinds are gone: Kubernetes' own types know the life of those that they still have, the built-in versions of
// the others.
func TestAllThatKubernetesRemovedIsKnown(t *testing.T) {
	b := load(t)
	last := b.Version(b.Last)
	for gvk := range scheme.Scheme.AllKnownTypes() {
		o, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		lives, ok := o.(interface{ APILifecycleRemoved() (major, minor int) })
		if !ok || strings.HasSuffix(gvk.Kind, "List") {
			continue
		}
		_, minor := lives.APILifecycleRemoved()
		removal, known := removedapi.Removed(gvk)
		if gone := minor <= b.Last; gone != known || gone && removal.Minor != minor {
			t.Errorf("%s: told %v %v, and its own type says 1.%d", gvk, known, removal, minor)
		}
	}
	for gvk, minor := range b.Gone() {
		if removal, known := removedapi.Removed(gvk); !known || removal.Minor != minor {
			t.Errorf("%s: told %v %v, and 1.%d has it no more", gvk, known, removal, minor)
		}
	}
	for _, text := range []string{
		"apps/v1beta1 Deployment", "extensions/v1beta1 Ingress", "batch/v1beta1 CronJob", "autoscaling/v2beta2 HorizontalPodAutoscaler",
		"resource.k8s.io/v1alpha2 ResourceClaim", "certificates.k8s.io/v1alpha1 ClusterTrustBundle", "scheduling.k8s.io/v1alpha2 PodGroup",
	} {
		version, kind, _ := strings.Cut(text, " ")
		removal, ok := removedapi.Removed(schema.FromAPIVersionAndKind(version, kind))
		if !ok || !last.Has(schema.FromAPIVersionAndKind(removal.Successor, kind)) {
			t.Errorf("%s is followed by %q, which 1.%d does not serve", text, removal.Successor, b.Last)
		}
	}
	if removal, ok := removedapi.Removed(schema.FromAPIVersionAndKind("policy/v1beta1", "PodSecurityPolicy")); !ok ||
		fmt.Sprint(removal, "; ", removal.Fix()) != "Kubernetes 1.25 removed it; nothing took its place: remove the object" {
		t.Error(removal, ok)
	}
}

func TestNearKindsAndVersionsAreFound(t *testing.T) {
	last := load(t).Version(99)
	for text, want := range map[string]string{
		"apps/v1 Deploymnt":                     "apps/v1, Kind=Deployment",
		"apps/v2 Deployment":                    "apps/v1, Kind=Deployment",
		"v1 Deployment":                         "apps/v1, Kind=Deployment",
		"networking.k8s.io/v1 Ingres":           "networking.k8s.io/v1, Kind=Ingress",
		"apps/v1 Whatever":                      "/, Kind=",
		"cert-manager.io/v1 CertificateRequest": "/, Kind=",
	} {
		version, kind, _ := strings.Cut(text, " ")
		if got := last.Nearest(schema.FromAPIVersionAndKind(version, kind)).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestMinorVersionsAreRead(t *testing.T) {
	for version, want := range map[string]int{
		"v1.35.4": 35, "1.29": 29, "v1.31.2-gke.100": 31, "v1.30.1+k3s1": 30, "": -1, "v2.1": -1,
		"latest": -1,
	} {
		got, ok := kubeschema.Minor(version)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
}

func BenchmarkLoadAndCheck(b *testing.B) {
	o := object(b, deployment)
	for b.Loop() {
		form, err := load(b).Version(35).Form(kindOf(o))
		if err != nil || len(form.Check(o)) > 0 {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	o := object(b, deployment)
	form, err := load(b).Version(35).Form(kindOf(o))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		form.Check(o)
	}
}
