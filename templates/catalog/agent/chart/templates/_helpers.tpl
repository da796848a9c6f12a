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

{{/* How plugins come to the agent: copy or volume, of an image, or claim; nothing where there are none. */}}
{{- define "agent.plugins" -}}
{{- with .Values.plugins -}}
{{- if and .image .claim -}}
{{- fail "plugins: they come from image or from claim, not from both" -}}
{{- else if and (or .image .claim) (not (contains "@sha256:" .image)) (not .digests) -}}
{{- fail (printf "plugins: somebody else can put other programs into %q: name an image by its digest, or each plugin's in digests" (.image | default .claim)) -}}
{{- else if .claim -}}
claim
{{- else if .image -}}
{{- if not (has .mount (list "copy" "volume")) -}}
{{- fail (printf "plugins.mount: %q is neither copy nor volume" .mount) -}}
{{- end -}}
{{ .mount }}
{{- end -}}
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
