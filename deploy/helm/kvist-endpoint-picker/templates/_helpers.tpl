{{- define "picker.name" -}}
{{- printf "%s-epp" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "picker.pool" -}}
{{- .Values.pool.name | default .Release.Name -}}
{{- end -}}

{{- define "picker.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "picker.selector" -}}
app.kubernetes.io/name: kvist
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: endpoint-picker
{{- end -}}

{{- define "picker.labels" -}}
{{ include "picker.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "picker.secret" -}}
{{- .Values.tls.secret | default (printf "%s-tls" (include "picker.name" .)) -}}
{{- end -}}

{{/* "60 s" as seconds: what the pod's grace period is made of. */}}
{{- define "picker.drainSeconds" -}}
{{- $parts := splitList " " .Values.picker.drainTimeout -}}
{{- $unit := last $parts -}}
{{- if eq $unit "s" }}{{ first $parts | int }}{{ else if eq $unit "min" }}{{ mul (first $parts | int) 60 }}{{ else }}{{ fail "picker.drainTimeout: expected a number of s or min, as in \"60 s\"" }}{{ end -}}
{{- end -}}

{{- define "picker.file" -}}
{{- $p := .Values.picker -}}
{{- $group := dict "name" "pool" "kubernetes" (dict "inference_pool" (include "picker.pool" .)) -}}
{{- if $p.kvEventsPort }}{{ $_ := set $group "kv_events_port" (int $p.kvEventsPort) }}{{ end -}}
{{- if $p.kvReplayPort }}{{ $_ := set $group "kv_replay_port" (int $p.kvReplayPort) }}{{ end -}}
{{- $own := dict "http" (dict "host" "0.0.0.0" "port" (int $p.port)) "admin" (dict "host" "0.0.0.0" "port" (int $p.adminPort)) "log" (dict "format" $p.logFormat) "drain_timeout" $p.drainTimeout "workers" (list $group) -}}
{{- if .Values.tls.enabled }}{{ $_ := set $own "tls" (dict "certificate" "/etc/kvist-tls/tls.crt" "key" "/etc/kvist-tls/tls.key") }}{{ end -}}
{{- toYaml (dict "gateway" (mergeOverwrite (deepCopy $p.settings) $own)) -}}
{{- end -}}
