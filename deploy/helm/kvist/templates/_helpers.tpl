{{- define "kvist.name" -}}
{{- printf "%s-gateway" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kvist.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "kvist.selector" -}}
app.kubernetes.io/name: kvist
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "kvist.labels" -}}
{{ include "kvist.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "kvist.workerSelector" -}}
app.kubernetes.io/name: {{ .Values.gateway.discovery.service }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: worker
{{- end -}}

{{/* "60 s" as seconds: what the pod's grace period is made of. */}}
{{- define "kvist.drainSeconds" -}}
{{- $parts := splitList " " .Values.gateway.drainTimeout -}}
{{- $unit := last $parts -}}
{{- if eq $unit "s" }}{{ first $parts | int }}{{ else if eq $unit "min" }}{{ mul (first $parts | int) 60 }}{{ else }}{{ fail "gateway.drainTimeout: expected a number of s or min, as in \"60 s\"" }}{{ end -}}
{{- end -}}

{{- define "kvist.gatewayFile" -}}
{{- $d := .Values.gateway.discovery -}}
{{- $kubernetes := dict "service" $d.service "port" $d.port -}}
{{- if $d.pods }}{{ $_ := set $kubernetes "pods" $d.pods }}{{ end -}}
{{- if $d.role }}{{ $_ := set $kubernetes "role" $d.role }}{{ end -}}
{{- $group := dict "name" "workers" "kubernetes" $kubernetes -}}
{{- if $d.kvEventsPort }}{{ $_ := set $group "kv_events_port" (int $d.kvEventsPort) }}{{ end -}}
{{- if $d.kvReplayPort }}{{ $_ := set $group "kv_replay_port" (int $d.kvReplayPort) }}{{ end -}}
{{- $own := dict "http" (dict "host" "0.0.0.0" "port" (int .Values.gateway.port)) "admin" (dict "host" "0.0.0.0" "port" (int .Values.gateway.adminPort)) "log" (dict "format" .Values.gateway.logFormat) "drain_timeout" .Values.gateway.drainTimeout -}}
{{- $settings := deepCopy .Values.gateway.settings -}}
{{/* Of several models each names its workers itself, and the gateway has no model of its own. */}}
{{- if $settings.models }}{{ $_ := unset $settings "model" }}{{ else }}{{ $_ := set $own "workers" (list $group) }}{{ end -}}
{{- with .Values.gateway.peers.nats }}{{ $_ := set $own "peers" (dict "nats" . "group" (include "kvist.name" $)) }}{{ end -}}
{{- toYaml (dict "gateway" (mergeOverwrite $settings $own)) -}}
{{- end -}}

{{- define "kvist.workerFile" -}}
{{- $ports := .Values.workers.ports -}}
{{- $own := dict "http" (dict "host" "0.0.0.0" "port" (int $ports.http)) "kv_events_port" (int $ports.kvEvents) "kv_replay_port" (int $ports.kvReplay) -}}
{{- toYaml (dict "worker" (mergeOverwrite (deepCopy .Values.workers.settings) $own)) -}}
{{- end -}}
