package packages

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/docs"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Scaffold is a package to begin with, by path: a question, and a step that takes its answer to a chart. The name is one
// that a package can have.
func Scaffold(name string) (map[string][]byte, error) {
	p := Package{
		TypeMeta: fleet.TypeMeta{APIVersion: fleet.APIVersion, Kind: Kind},
		Metadata: Metadata{name},
		Spec: Spec{
			Version:     "0.1.0",
			Description: name + ", in a namespace of its own",
			Questions: []Question{{
				Name: "replicas", Type: TypeInt, Prompt: "How many replicas?", Default: 1, Min: number64(1), Max: number64(9),
			}},
			Steps: []Step{{
				Name: name,
				Helm: &Helm{Path: "chart", Namespace: name, Values: map[string]any{"replicas": "${answers.replicas}"}},
			}},
		},
	}
	document, err := encode("# yaml-language-server: $schema="+docs.SchemaURL+"package.json\n", p)
	if err != nil {
		return nil, err
	}
	chart, err := encode("", map[string]any{"apiVersion": "v2", "name": name, "version": "0.1.0"})
	if err != nil {
		return nil, err
	}
	values, err := encode("", map[string]any{"replicas": 1})
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		File:                              document,
		"chart/Chart.yaml":                chart,
		"chart/values.yaml":               values,
		"chart/templates/deployment.yaml": []byte(deployment),
		"README.md":                       fmt.Appendf(nil, "# %s\n\nSay what the package installs, and how it is looked after.\n\n    plural package lint .\n", name),
	}, nil
}

// deployment is a template of the chart, the same for every package: helm fills it in.
const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: {app.kubernetes.io/instance: {{ .Release.Name | quote }}}
  template:
    metadata:
      labels: {app.kubernetes.io/instance: {{ .Release.Name | quote }}}
    spec:
      containers:
      - name: main
        image: registry.k8s.io/pause:3.10
        resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
        securityContext:
          allowPrivilegeEscalation: false
          capabilities: {drop: [ALL]}
          readOnlyRootFilesystem: true
          runAsNonRoot: true
          runAsUser: 65532
          seccompProfile: {type: RuntimeDefault}
`

func number64(n float64) *float64 { return &n }

func encode(header string, v any) ([]byte, error) {
	b := bytes.NewBufferString(header)
	e := yaml.NewEncoder(b)
	e.SetIndent(2)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a new package: %w", err)
	}
	return b.Bytes(), nil
}
