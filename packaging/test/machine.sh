# A small Debian machine in namespaces of this one: its own systemd as process 1, processes, network and control groups.
# Source it; `set -euo pipefail` is assumed. Needs root, mmdebstrap, util-linux and iproute2.
#
#   machine_image FILE          builds a minimal Debian with systemd, as a tar archive
#   machine_start ROOT          boots the system in the folder ROOT
#   machine_stop                stops the machine and every process in it
#   inside COMMAND...           runs a command in it; its network is a loopback interface
#   online COMMAND...           the same with the network of this machine, for apt-get
#   beside COMMAND...           runs a program of this machine in the network of the other

readonly MACHINE_RELEASE=${MACHINE_RELEASE:-bookworm}
machine_leader=
machine_init=
machine_group=

machine_image() { # FILE
    local options=() line sources=() mirror
    # The image uses the mirrors of this machine, if it has its own, and the apt settings for reaching them.
    while IFS= read -r line; do options+=(--aptopt="${line%;}"); done < <(apt-config dump | grep '^Acquire::')
    for mirror in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
        if [ -s "$mirror" ] && grep -q "$MACHINE_RELEASE" "$mirror"; then sources+=("$mirror"); fi
    done
    mkdir -p "$(dirname "$1")"
    mmdebstrap --quiet --variant=minbase --include=systemd-sysv,dbus,ca-certificates "${options[@]}" \
        "$MACHINE_RELEASE" "$1.new.tar" "${sources[@]}" >&2
    mv "$1.new.tar" "$1"
}

# Runs as process 1 before systemd: mounts the file systems that a system expects and makes ROOT the root directory.
machine_boot() { # ROOT
    local root=$1 name
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for name in null zero full random urandom tty; do
        touch "$root/dev/$name"
        mount --bind "/dev/$name" "$root/dev/$name"
    done
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    ip link set lo up
    cd "$root"
    mkdir -p old
    pivot_root . old
    cd /
    umount -l /old
    rmdir /old
    exec env -i container=galley-test /lib/systemd/systemd --show-status=no --unit=multi-user.target </dev/null
}

machine_start() { # ROOT
    local groups name=
    cp --dereference --remove-destination /etc/resolv.conf "$1/etc/resolv.conf"
    groups=$(findmnt --noheadings --output TARGET --types cgroup2 | head -n 1)
    machine_group=$groups/galley-machine-$$
    mkdir -p "$machine_group"
    export -f machine_boot
    (
        echo "$BASHPID" >"$machine_group/cgroup.procs"
        exec unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child \
            bash -euc 'hostname machine; machine_boot "$1"' - "$1"
    ) &
    machine_leader=$!
    for _ in $(seq 100); do
        machine_init=$(cat "/proc/$machine_leader/task/$machine_leader/children" 2>/dev/null | tr -d ' ') || true
        [ -n "$machine_init" ] && [ "$(cat "/proc/$machine_init/comm" 2>/dev/null)" = systemd ] && break
        sleep 0.1
    done
    for _ in $(seq 100); do
        name=$(inside systemctl is-system-running --wait 2>/dev/null || true)
        [ -n "$name" ] && break
        sleep 0.1
    done
    [ "$name" = running ] || { echo "machine: systemd is \`$name\`" >&2; inside systemctl --failed --no-pager >&2; return 1; }
}

machine_stop() {
    [ -n "$machine_leader" ] || return 0
    # systemd powers off the machine. When its process 1 ends, the kernel kills the remaining processes.
    kill -s RTMIN+4 "$machine_init" 2>/dev/null || true
    for _ in $(seq 300); do
        [ -e "/proc/$machine_init" ] || break
        sleep 0.1
    done
    kill -KILL "$machine_init" 2>/dev/null || true
    wait "$machine_leader" 2>/dev/null || true
    machine_leader=
    for _ in $(seq 100); do
        find "$machine_group" -depth -type d -exec rmdir {} + 2>/dev/null && break
        sleep 0.1
    done
}

online() {
    local -
    set +x
    nsenter --target "$machine_init" --mount --pid --uts --ipc --cgroup --wdns=/ \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}
beside() {
    local -
    set +x
    nsenter --target "$machine_init" --net "$@"
}
inside() {
    local -
    set +x
    export -f online
    machine_init=$machine_init beside bash -c 'online "$@"' - "$@"
}
