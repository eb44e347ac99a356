# Checks of the container images, for packaging/test/run.

image() { find "$out" -maxdepth 1 -name 'galley-[0-9]*.oci.tar'; }
php_image() { find "$out" -maxdepth 1 -name 'galley-php-*.oci.tar'; }

# skopeo can read the image, verifies every digest, and finds the command to run.
image_is_valid() {
    online apt-get -qq install --no-install-recommends skopeo
    cp "$(image)" "$root/srv/image.tar"
    inside skopeo inspect --config oci-archive:/srv/image.tar | tee "$folder/image.txt"
    found '"/usr/bin/galley"' <"$folder/image.txt"
    inside skopeo --insecure-policy copy oci-archive:/srv/image.tar dir:/srv/copied
    rm -rf "$root/srv/copied"
}

# Runs the image in a chroot as its user, next to a PHP-FPM that has WordPress in the same folder.
image_serves_wordpress() {
    local layer
    mkdir -p "$root/srv/layout" "$root/srv/image" "$root/var/www/html"
    tar -C "$root/srv/layout" -xf "$root/srv/image.tar"
    layer=$(find "$root/srv/layout/blobs" -type f -size +1M)
    tar -C "$root/srv/image" -xzf "$layer"
    echo '127.0.0.1 wordpress' >"$root/srv/image/etc/hosts"
    printf '%s\n' '[tcp]' 'user = www-data' 'group = www-data' 'listen = 127.0.0.1:9000' 'pm = static' 'pm.max_children = 2' \
        >"$root/etc/php/8.2/fpm/pool.d/tcp.conf"
    inside systemctl restart php8.2-fpm
    inside mount --bind /var/www/example.com /var/www/html
    inside mount --bind /var/www/example.com /srv/image/var/www/html
    inside systemd-run --quiet --unit image chroot --userspec=65532:65532 /srv/image /usr/bin/galley run --config /etc/galley/galley.toml
    until_true image_sends_hits
    inside chroot /srv/image /usr/bin/galley status | found 'upstream'
    inside systemctl stop image.service
    inside umount /var/www/html /srv/image/var/www/html
    rm "$root/etc/php/8.2/fpm/pool.d/tcp.conf"
    inside systemctl restart php8.2-fpm
}

image_sends_hits() {
    beside curl --silent --head --max-time 10 --header 'Host: example.com' http://127.0.0.1:8080/ | found -i '^cache-status: galley; hit'
}

# Runs the image with PHP in a chroot as its user. Apart from /dev and /proc, it uses only WordPress and the database socket of this machine.
php_image_serves_wordpress() {
    local layer
    mkdir -p "$root/srv/php-layout" "$root/srv/php-image"
    tar -C "$root/srv/php-layout" -xf "$(php_image)"
    layer=$(find "$root/srv/php-layout/blobs" -type f -size +1M)
    tar -C "$root/srv/php-image" -xzf "$layer"
    rm -rf "$root/srv/php-layout"
    [ ! -e "$root/srv/php-image/etc/apt/apt.conf.d/99mmdebstrap" ]
    cmp "$root/srv/php-image/usr/share/doc/apt/examples/sources.list" "$root/srv/php-image/etc/apt/sources.list"
    inside mount --bind /var/www/example.com /srv/php-image/var/www/html
    for name in /dev /proc /run/mysqld; do
        inside mkdir -p "/srv/php-image$name"
        # Includes submounts, because each device is a separate mount.
        inside mount --rbind "$name" "/srv/php-image$name"
    done
    inside systemd-run --quiet --unit php-image --setenv XDG_DATA_HOME=/var/lib \
        chroot --userspec=www-data /srv/php-image /usr/bin/galley run --config /etc/galley/galley.toml
    until_true image_sends_hits
    inside chroot --userspec=www-data /srv/php-image /usr/bin/galley status | found 'php'
    inside systemctl stop php-image.service
    inside umount --recursive /srv/php-image/run/mysqld /srv/php-image/proc /srv/php-image/dev /srv/php-image/var/www/html
    rm -rf "$root/srv/php-image"
}
