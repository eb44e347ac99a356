# Makes an OCI archive from the files of one layer. Source it; `set -euo pipefail` and SOURCE_DATE_EPOCH are assumed.
#
#   oci_pack FOLDER...            writes a tar archive to standard output, the same bytes for the same files
#   oci_archive LAYER TAG USER ENVIRONMENT VOLUMES FILE
#
# LAYER is a tar archive. ENVIRONMENT and VOLUMES are the values of these members in JSON. The caller sets `architecture` and `version`.

oci_pack() { tar --create --sort=name --format=gnu --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" "$@"; }

oci_digest() { sha256sum "$1" | cut -d' ' -f1; }

oci_store() { # BLOBS FILE: moves it among the blobs, and prints digest and size as JSON members
    local hash size
    hash=$(oci_digest "$2")
    size=$(stat -c %s "$2")
    mv "$2" "$1/$hash"
    printf '"digest": "sha256:%s", "size": %s' "$hash" "$size"
}

oci_archive() { # LAYER TAG USER ENVIRONMENT VOLUMES FILE
    local layer=$1 tag=$2 user=$3 environment=$4 volumes=$5 file=$6
    local created diff_id layer_blob config_blob manifest_blob folder blobs
    created=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    folder=$(mktemp -d)
    blobs=$folder/blobs/sha256
    mkdir -p "$blobs"
    diff_id=$(oci_digest "$layer")
    gzip -9n <"$layer" >"$folder/layer"
    layer_blob=$(oci_store "$blobs" "$folder/layer")

    cat >"$folder/config" <<JSON
{
  "created": "$created",
  "architecture": "$architecture",
  "os": "linux",
  "config": {
    "User": "$user",
    "ExposedPorts": { "8080/tcp": {} },
    "Env": $environment,
    "Entrypoint": ["/usr/bin/galley"],
    "Cmd": ["run", "--config", "/etc/galley/galley.toml"],
    "Volumes": $volumes,
    "StopSignal": "SIGTERM",
    "Labels": {
      "org.opencontainers.image.title": "Galley",
      "org.opencontainers.image.version": "$version",
      "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
      "org.opencontainers.image.source": "https://github.com/galley-server/galley"
    }
  },
  "rootfs": { "type": "layers", "diff_ids": ["sha256:$diff_id"] },
  "history": [{ "created": "$created", "created_by": "packaging/oci/build" }]
}
JSON
    config_blob=$(oci_store "$blobs" "$folder/config")

    cat >"$folder/manifest" <<JSON
{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.manifest.v1+json",
  "config": { "mediaType": "application/vnd.oci.image.config.v1+json", $config_blob },
  "layers": [{ "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", $layer_blob }]
}
JSON
    manifest_blob=$(oci_store "$blobs" "$folder/manifest")

    cat >"$folder/index.json" <<JSON
{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.index.v1+json",
  "manifests": [{
    "mediaType": "application/vnd.oci.image.manifest.v1+json", $manifest_blob,
    "platform": { "architecture": "$architecture", "os": "linux" },
    "annotations": { "org.opencontainers.image.ref.name": "$tag" }
  }]
}
JSON
    echo '{"imageLayoutVersion": "1.0.0"}' >"$folder/oci-layout"
    oci_pack --owner=0 --group=0 --directory "$folder" oci-layout index.json blobs >"$file"
    rm -rf "$folder"
}
