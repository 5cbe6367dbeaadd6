{{/* The chart's name. */}}
{{- define "drydock.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* The prefix of every name. */}}
{{- define "drydock.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "drydock.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "drydock.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* The name of the controller's objects. */}}
{{- define "drydock.controller" -}}
{{- include "drydock.fullname" . }}-controller
{{- end }}

{{/* The name of the job that takes finalizers off, and of what it needs. */}}
{{- define "drydock.uninstall" -}}
{{- include "drydock.fullname" . }}-uninstall
{{- end }}

{{/* Labels of every object. */}}
{{- define "drydock.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "drydock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: drydock
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels by which objects of the release are found. */}}
{{- define "drydock.selector" -}}
app.kubernetes.io/name: {{ include "drydock.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels by which the controller's pods are found. */}}
{{- define "drydock.controllerSelector" -}}
{{ include "drydock.selector" . }}
app.kubernetes.io/component: controller
{{- end }}

{{/* The reference of an image: (dict "image" .Values.x.image "root" .) */}}
{{- define "drydock.image" -}}
{{- $image := .image -}}
{{- if $image.registry }}{{ $image.registry }}/{{ end }}{{ $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The name of the controller's service account. */}}
{{- define "drydock.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "drydock.controller" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{/* The arguments that say where the controller works. */}}
{{- define "drydock.watchArguments" -}}
{{- range .Values.watchNamespaces }}
- --watch-namespace={{ . }}
{{- end }}
{{- end }}

{{/* Rights on namespaced objects where environments live: what the controller really calls, and no wildcard. */}}
{{- define "drydock.rules" -}}
# Our kinds. Instances are made for configurations and host runners, runs and plans go at the end of their time, snapshots are checkpoints.
- apiGroups: [drydock.dev]
  resources: [workspaces, devcontainerinstances, containerinstances, executionenvironments, projects, plans, tools, toolruns, snapshots]
  verbs: [get, list, watch]
- apiGroups: [drydock.dev]
  resources: [devcontainerinstances, containerinstances, snapshots]
  verbs: [create, patch, update, delete]
- apiGroups: [drydock.dev]
  resources: [toolruns, plans]
  verbs: [patch, delete]
- apiGroups: [drydock.dev]
  resources: [workspaces]
  verbs: [patch, update]
- apiGroups: [drydock.dev]
  resources:
    - workspaces/status
    - devcontainerinstances/status
    - containerinstances/status
    - executionenvironments/status
    - projects/status
    - plans/status
    - tools/status
    - toolruns/status
    - snapshots/status
  verbs: [get, patch, update]
# Where owner references are checked, an owner's finalizers must be writable.
- apiGroups: [drydock.dev]
  resources: [workspaces/finalizers, devcontainerinstances/finalizers, containerinstances/finalizers, projects/finalizers, plans/finalizers, snapshots/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
# The channel to the agent. Before Kubernetes 1.35 opening a WebSocket needs get, since then create.
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
- apiGroups: [""]
  resources: [persistentvolumeclaims, configmaps, services]
  verbs: [get, list, watch, create, patch, delete]
# One at a time, by name, where an object of the namespace names it. Never a list or a watch.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* Rights of the job that takes finalizers off. */}}
{{- define "drydock.finalizerRules" -}}
- apiGroups: [drydock.dev]
  resources: [workspaces, snapshots]
  verbs: [list, patch]
{{- end }}

{{/* Annotations of what exists only while the release is being uninstalled; the argument is the weight. */}}
{{- define "drydock.uninstallHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end }}
