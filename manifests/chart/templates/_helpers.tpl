{{/* True if several replicas share an etcd. */}}
{{- define "capstan.replicated" -}}
{{- if ne .Values.mode "embedded" }}true{{ end }}
{{- end }}

{{/* The ServerConfiguration. */}}
{{- define "capstan.config" -}}
{{- $config := fromYaml (tpl (.Files.Get "files/config.yaml") .) }}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.config)) }}
{{- end }}

{{/* Objects that `capstan host manifests` prints for this namespace. */}}
{{- define "capstan.printed" -}}
{{- $ca := required "keys.caCertificate: give the file pki/ca.crt of `capstan keys create` with --set-file" .root.Values.keys.caCertificate }}
{{- .root.Files.Get .file | replace "cmVwbGFjZWQgYnkgbWFuaWZlc3RzL2tleXM=" (b64enc $ca) | replace "capstan-system" .root.Release.Namespace }}
{{- end }}

{{/* Security of a Pod and of its container. */}}
{{- define "capstan.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}
{{- define "capstan.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
