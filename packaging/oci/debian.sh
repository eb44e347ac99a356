# Builds a minimal Debian with PHP-FPM and the package of Galley. Source it; `set -euo pipefail` is assumed. Needs root and mmdebstrap.
#
#   debian_with_php DEB FILE     writes the files to a tar archive

readonly DEBIAN_RELEASE=bookworm
readonly DEBIAN_PACKAGES=ca-certificates,init-system-helpers,systemd-standalone-sysusers,libgcc-s1,php-fpm,php-cli,php-mysql,php-gd,php-xml,php-mbstring,php-curl,php-zip,php-intl

debian_with_php() { # DEB FILE
    local options=() line sources=() mirror
    # The build uses the mirrors of this machine, if it has its own. The image gets the default mirrors of Debian's apt.
    while IFS= read -r line; do options+=(--aptopt="${line%;}"); done < <(apt-config dump | grep '^Acquire::')
    for mirror in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
        if [ -s "$mirror" ] && grep -q "$DEBIAN_RELEASE" "$mirror"; then sources+=("$mirror"); fi
    done
    # shellcheck disable=SC2016 # mmdebstrap sets $1 for its hooks.
    mmdebstrap --quiet --variant=minbase --skip=cleanup/run --include="$DEBIAN_PACKAGES" "${options[@]}" \
        --customize-hook="upload $1 /galley.deb" \
        --customize-hook='chroot "$1" dpkg --install /galley.deb && rm "$1/galley.deb"' \
        --customize-hook='upload packaging/oci/galley-php.toml /etc/galley/galley.toml' \
        --customize-hook='mkdir -p "$1/usr/lib/galley"' \
        --customize-hook='upload packaging/oci/start-wordpress /usr/lib/galley/start-wordpress' \
        --customize-hook='upload packaging/oci/configure-wordpress.php /usr/lib/galley/configure-wordpress.php' \
        --customize-hook='chmod 755 "$1/usr/lib/galley/start-wordpress"' \
        --customize-hook='rm -rf "$1"/run/*' \
        --customize-hook='chroot "$1" install --directory --owner=www-data --group=www-data /var/www/html /run/galley /var/lib/galley /var/cache/galley' \
        --customize-hook='rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap" "$1/etc/resolv.conf" "$1/etc/hostname" "$1"/etc/apt/sources.list.d/*' \
        --customize-hook='cp "$1/usr/share/doc/apt/examples/sources.list" "$1/etc/apt/sources.list"' \
        "$DEBIAN_RELEASE" "$2" "${sources[@]}" >&2
}
