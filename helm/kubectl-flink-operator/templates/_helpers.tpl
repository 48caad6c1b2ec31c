{{- define "operator.name" -}}
{{ .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{- define "operator.image" -}}
{{- with .Values.image -}}
{{- if include "operator.imageOfJava" $ -}}
ghcr.io/kubectl-flink/kubectl-flink:{{ $.Chart.AppVersion }}
{{- else if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Not empty if values for the Java operator's chart set its image. */ -}}
{{- define "operator.imageOfJava" -}}
{{- if eq (base .Values.image.repository) "flink-kubernetes-operator" }}true{{ end -}}
{{- end }}

{{- /* Name of a service account, role or binding: root, values. An empty name gets its default. */ -}}
{{- define "operator.named" -}}
{{- $root := index . 0 -}}
{{- $made := $root.Values.fullnameOverride | default (include "operator.name" $root) -}}
{{- $name := (index . 1).name | default (ternary $made "default" (index . 1).create) -}}
{{ merge (dict "name" $name) (index . 1) | toJson }}
{{- end }}

{{- define "operator.labels" -}}
app.kubernetes.io/name: {{ include "operator.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Namespaces of jobs, as a list in JSON. */ -}}
{{- define "operator.jobNamespaces" -}}
{{ concat .Values.watchNamespaces .Values.jobNamespaces | uniq | toJson }}
{{- end }}

{{- /* Name of the configuration file that is used: config.yaml, unless it is empty and the other one is not. */ -}}
{{- define "operator.configurationFile" -}}
{{- with .Values.defaultConfiguration -}}
{{- $content := `(?m)^\s*[^#\s]` -}}
{{- if or (regexMatch $content (index . "config.yaml" | default "")) (not (regexMatch $content (index . "flink-conf.yaml" | default ""))) -}}
config.yaml
{{- else -}}
flink-conf.yaml
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Not empty if a line of the configuration matches at its beginning: root, regular expression. */ -}}
{{- define "operator.configured" -}}
{{- $it := . -}}
{{- $line := index . 1 -}}
{{- with (index . 0).Values.defaultConfiguration -}}
{{- $text := index . (include "operator.configurationFile" (index $it 0)) | default "" -}}
{{- if and .create (regexMatch (printf `(?m)^\s*%s` $line) $text) }}true{{ end -}}
{{- end -}}
{{- end }}

{{- /* Permissions, as `kubectl flink operator install` grants them: crates/operator/src/install/rules.rs. */ -}}
{{- define "operator.rules" -}}
{{- $all := list "get" "list" "watch" "create" "update" "patch" "delete" }}
{{- $kinds := list "flinkdeployments" "flinksessionjobs" "flinkstatesnapshots" "flinkbluegreendeployments" }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list]
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
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [get, create, patch, delete]
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

{{- define "operator.namespaceRules" -}}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
{{- end }}

{{- define "operator.keytabRules" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
{{- end }}

{{- define "operator.nodeRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
{{- end }}

{{- define "operator.resourceViewRules" -}}
- apiGroups: [""]
  resources: [nodes, pods]
  verbs: [list]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [cluster-autoscaler-status]
  verbs: [get]
{{- end }}

{{- define "operator.dashboardRules" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}

{{- define "operator.leaderRules" -}}
{{- $name := include "operator.name" . }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  # A name cannot limit what is created.
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  {{- if not (include "operator.elects" .) }}
  resourceNames:
    - {{ $name }}
    {{- range until (int .Values.sharding.shards) }}
    - {{ $name }}-{{ . }}-of-{{ $.Values.sharding.shards }}
    {{- end }}
  {{- end }}
  verbs: [get, list, watch, update, patch]
{{- end }}

{{- /* Not empty if the configuration itself names the Lease by which the pods elect a leader. */ -}}
{{- define "operator.elects" -}}
{{- if and (include "operator.configured" (list . `kubernetes\.operator\.leader-election\.lease-name\s*:`)) (include "operator.configured" (list . `kubernetes\.operator\.leader-election\.enabled\s*:\s*true\s*$`)) }}true{{ end -}}
{{- end }}

{{- /* Name of the webhook's Service, and of the Secret of its own certificate. */ -}}
{{- define "operator.webhookName" -}}
{{ include "operator.name" . }}-webhook
{{- end }}

{{- define "operator.webhookClusterName" -}}
{{ .Release.Namespace }}-{{ include "operator.webhookName" . }}
{{- end }}

{{- /* One webhook of a configuration: root, name, path. */ -}}
{{- define "operator.webhook" -}}
{{- $root := .root }}
{{- with .root.Values.webhook }}
- name: {{ $.name }}
  clientConfig:
    service:
      name: {{ include "operator.webhookName" $root }}
      namespace: {{ $root.Release.Namespace }}
      path: {{ $.path }}
      port: 443
    {{- if and .caBundle .certificateSecret }}
    caBundle: {{ .caBundle }}
    {{- end }}
  rules:
    - apiGroups: [flink.apache.org]
      apiVersions: ["*"]
      operations: [CREATE, UPDATE]
      resources: [flinkdeployments, flinksessionjobs, flinkstatesnapshots, flinkbluegreendeployments]
      scope: Namespaced
  # Skip objects that are being deleted, and updates that do not change the spec.
  matchConditions:
    - name: stays
      expression: "!has(object.metadata.deletionTimestamp) && (request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp))"
    - name: changes
      expression: "request.operation == 'CREATE' || has(object.spec) != has(oldObject.spec) || (has(object.spec) && object.spec != oldObject.spec)"
  failurePolicy: {{ .failurePolicy }}
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 10
  {{- with $root.Values.watchNamespaces }}
  namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{ toJson . }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* Not empty if the configuration must contain the namespaces to watch, because it says that changes of them are followed. */ -}}
{{- define "operator.followsNamespaces" -}}
{{- if and .Values.watchNamespaces (include "operator.configured" (list . `kubernetes\.operator\.dynamic\.namespaces\.enabled\s*:\s*true\s*$`)) }}true{{ end -}}
{{- end }}

{{- /* Warnings about values for the Java operator's chart that have no effect here, a line each. */ -}}
{{- define "operator.withoutEffect" -}}
{{- if include "operator.imageOfJava" . }}
value `image` has no effect: `{{ .Values.image.repository }}` is the Java operator's image; set image.repository to the one of kubectl-flink
{{- end }}
{{- with .Values.defaultConfiguration }}
{{- if and (regexMatch `(?m)^\s*[^#\s]` (index . "flink-conf.yaml" | default "")) (eq (include "operator.configurationFile" $) "config.yaml") }}
value `defaultConfiguration.flink-conf.yaml` has no effect: `defaultConfiguration.config.yaml` is set and takes precedence, as in the Java operator's chart since 1.16
{{- end }}
{{- end }}
{{- range .Files.Get "conf/without-effect.yaml" | fromYamlArray }}
{{- $found := $.Values }}
{{- range .value }}
{{- $found = ternary (get (default dict $found) .) nil (kindIs "map" (default dict $found)) }}
{{- end }}
{{- if and $found (or (not (kindIs "string" $found)) (regexMatch `(?m)^\s*[^#\s]` (toString $found))) }}
value `{{ join "." .value }}` has no effect: {{ .instead }}
{{- end }}
{{- end }}
{{- end }}
