{{- define "agent.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "agent.labels" -}}
app.kubernetes.io/name: plural-agent
app.kubernetes.io/part-of: plural
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
{{- end -}}

{{/* One toleration as Kubernetes has it, of one or of KEY=VALUE:EFFECT. */}}
{{- define "agent.toleration" -}}
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
