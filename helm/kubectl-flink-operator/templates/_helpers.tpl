{{- define "operator.name" -}}
{{ .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{- define "operator.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "operator.labels" -}}
app.kubernetes.io/name: {{ include "operator.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Namespaces of jobs, as a list in JSON. */ -}}
{{- define "operator.jobNamespaces" -}}
{{ .Values.watchNamespaces | default (list .Release.Namespace) | toJson }}
{{- end }}

{{- /* Rights, as `kubectl flink operator install` gives them: src/install/rules.rs. */ -}}
{{- define "operator.rules" -}}
{{- $all := list "get" "list" "watch" "create" "update" "patch" "delete" }}
{{- $kinds := list "flinkdeployments" "flinksessionjobs" "flinkstatesnapshots" "flinkbluegreendeployments" }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: {{ toJson $all }}
- apiGroups: [""]
  resources: [events]
  verbs: [get, list, create, update, patch]
- apiGroups: [apps]
  resources: [deployments, controllerrevisions]
  verbs: {{ toJson $all }}
- apiGroups: [apps]
  resources: [deployments/finalizers]
  verbs: [update]
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: {{ toJson $all }}
- apiGroups: [flink.apache.org]
  resources: {{ toJson $kinds }}
  verbs: {{ toJson $all }}
- apiGroups: [flink.apache.org]
  resources:
    {{- range $kinds }}
    - {{ . }}/status
    {{- end }}
  verbs: [get, update, patch]
- apiGroups: [flink.apache.org]
  resources:
    {{- range $kinds }}
    - {{ . }}/finalizers
    {{- end }}
  verbs: [update]
{{- end }}

{{- define "operator.leaderRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update, patch]
{{- end }}
