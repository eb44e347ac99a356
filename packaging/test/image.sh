# Checks of the image for containers, for packaging/test/run.

image() { ls "$out"/galley-*.oci.tar; }

# A tool that knows the format reads it, follows every digest, and finds what to run.
image_is_valid() {
    online apt-get -qq install --no-install-recommends skopeo
    cp "$(image)" "$root/srv/image.tar"
    inside skopeo inspect --config oci-archive:/srv/image.tar | tee "$folder/image.txt"
    found '"/usr/bin/galley"' <"$folder/image.txt"
    inside skopeo --insecure-policy copy oci-archive:/srv/image.tar dir:/srv/copied
    rm -rf "$root/srv/copied"
}

# The image's files as a root of their own, as its user, beside a PHP-FPM that has WordPress in the same folder.
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
