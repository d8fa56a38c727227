#!/usr/bin/env bash
# Prints the feature gates that the kubeadm of a version knows, from its source: the keys of `InitFeatureGates`.
# Usage: hack/kubeadm/gates.sh v1.32.13
# The table in controllers/bootstrap/src/kubeadm/feature_gates.rs has these gates for minors whose kubeadm the
# end-to-end tests do not build.
set -euo pipefail
version=${1:?name a version, for example v1.32.13}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
go mod init gates 2>/dev/null
source=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
sed -n '/^var InitFeatureGates = /,/^}/s/^\t\([A-Z][A-Za-z0-9]*\): .*/\1/p' "$source/cmd/kubeadm/app/features/features.go" | sort
