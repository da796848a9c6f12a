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

{{/* Whether there is a claim: true, or nothing. A value that is filled in for each cluster is a text. */}}
{{- define "agent.persistent" -}}
{{- with toString .Values.persistence.enabled -}}
{{- if not (has . (list "true" "false")) -}}
{{- fail (printf "persistence.enabled: %q is neither true nor false; see the cluster's parameter agentPersistence" .) -}}
{{- end -}}
{{- if eq . "true" }}true{{ end -}}
{{- end -}}
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
