"""Checks that everything that the Compose files name exists. See packaging/compose/parts."""

import os
import re
import sys

import yaml

FOLDER = "packaging/compose"
FILES = ["compose.yaml", "one-server/compose.yaml"]
# Keys of services (https://github.com/compose-spec/compose-spec/blob/main/05-services.md) that these files use.
SERVICE_KEYS = set(
    "image user entrypoint command network_mode volumes cap_drop cap_add security_opt restart depends_on environment networks "
    "healthcheck stop_grace_period ports read_only tmpfs secrets hostname".split()
)
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def faults(path):
    source = text(path)
    compose = yaml.safe_load(source)
    programs = text("packaging/oci/start-wordpress") + text("packaging/oci/configure-wordpress.php")
    images = [text("packaging/oci/debian.sh"), text("packaging/oci/Containerfile")]
    services = compose["services"]
    for name in compose.keys() - {"name", "services", "networks", "volumes", "secrets"}:
        if not name.startswith("x-"):
            yield f"unknown part {name}"
    for name, service in services.items():
        for key in service.keys() - SERVICE_KEYS:
            yield f"{name}: unknown key {key}"
        if not service.get("image"):
            yield f"{name}: no image"
        for other, how in (service.get("depends_on") or {}).items():
            if other not in services or how["condition"] not in CONDITIONS:
                yield f"{name}: depends on {other}: {how}"
            elif how["condition"] == "service_healthy" and "healthcheck" not in services[other]:
                yield f"{name}: {other} has no health check"
        for key in ("networks", "secrets"):
            for one in service.get(key) or []:
                if one not in compose[key]:
                    yield f"{name}: no {key[:-1]} {one}"
        for volume in service.get("volumes") or []:
            left, target = volume.split(":")[:2]
            if left.startswith("."):
                if not os.path.isfile(os.path.join(os.path.dirname(path), left)):
                    yield f"{name}: no file {left}"
            elif left not in compose["volumes"]:
                yield f"{name}: no volume {left}"
            if not target.startswith("/"):
                yield f"{name}: {target} is no path"
        for program in (service.get("entrypoint") or [])[:1]:
            base = os.path.basename(program)
            if not os.access(f"packaging/oci/{base}", os.X_OK) or not all(os.path.dirname(program) in one and base in one for one in images):
                yield f"{name}: the image has no {program}"
        own = "GALLEY_IMAGE" in service["image"]
        for variable in service.get("environment") or {}:
            if own and variable not in programs:
                yield f"{name}: no program reads {variable}"
            file = (service["environment"][variable] or "") if variable.endswith("_FILE") else ""
            is_secret = file.startswith("/run/secrets/") and os.path.basename(file) in service.get("secrets", [])
            is_mounted = any(file.startswith(volume.split(":")[1] + "/") for volume in service.get("volumes") or [])
            if file and not (is_secret or is_mounted):
                yield f"{name}: nothing mounts {file}"
        if own:
            config = text(os.path.join(os.path.dirname(path), "galley.toml"))
            for port in service.get("ports") or []:
                inner = port.split(":")[-1].split("/")[0]
                if f":{inner}" not in config:
                    yield f"{name}: galley.toml listens on no port {inner}"
            test = (service.get("healthcheck") or {}).get("test")
            if test and test[1] != "galley":
                yield f"{name}: its health check calls {test[1]}"
    mounted = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes") or []}
    for volume in compose["volumes"]:
        if volume not in mounted:
            yield f"no service mounts {volume}"
    for variable in re.findall(r"\$\{([A-Z_]+)", source):
        # `$$` is for the shell in the container.
        if not re.match(r"(GALLEY|WORDPRESS|MARIADB)_[A-Z]+$", variable):
            yield f"unknown variable {variable}"


def main():
    found = [f"{name}: {fault}" for name in FILES for fault in faults(os.path.join(FOLDER, name))]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))


main()
