{{- define "galley.labels" -}}
app.kubernetes.io/name: galley
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "galley.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}
