{{- define "hub.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "hub.labels" -}}
app.kubernetes.io/name: plural-hub
app.kubernetes.io/part-of: plural
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
{{- end -}}

{{- define "hub.selector" -}}
app.kubernetes.io/name: plural-hub
{{- end -}}

{{/* A label for the keys that are believed: with others, pods are made anew. */}}
{{- define "hub.believes" -}}
{{- with .Values.repo.keys -}}
plural.sh/repo-keys: {{ toJson . | sha256sum | trunc 40 | quote }}
{{- end -}}
{{- end -}}

{{/* One toleration as Kubernetes has it, of one or of KEY=VALUE:EFFECT. */}}
{{- define "hub.toleration" -}}
{{- if kindIs "string" . -}}
{{- $effect := regexReplaceAll "^.*:" . "" -}}
{{- $taint := regexReplaceAll ":[^:]*$" . "" -}}
{{- if contains "=" $taint -}}
{{- dict "key" (regexReplaceAll "=.*$" $taint "") "operator" "Equal" "value" (regexReplaceAll "^[^=]*=" $taint "") "effect" $effect | toJson -}}
{{- else -}}
{{- dict "key" $taint "operator" "Exists" "effect" $effect | toJson -}}
{{- end -}}
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* Where the replicas meet: each pod by its own name below the headless Service. */}}
{{- define "hub.routes" -}}
{{- $routes := list -}}
{{- range $i := until (int .Values.replicas) -}}
{{- $routes = append $routes (printf "plural-hub-%d.plural-hub-replicas.%s.svc:6222" $i $.Release.Namespace) -}}
{{- end -}}
{{- join "," $routes -}}
{{- end -}}
