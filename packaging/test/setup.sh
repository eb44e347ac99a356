# Checks of `galley setup` and of a reload under systemd, for packaging/test/run.

# Prints the configurations, sites and units of the machine: files with checksums, and the state of the units.
machine_state() { # UNIT...
    (cd "$root" && find etc var/www -xdev \( -path etc/ssl -o -path etc/apt \) -prune -o \( -type f -printf '%p %m %u:%g ' -exec sha256sum {} \; \) -o -printf '%p %m %U:%G %l\n') |
        grep -vE '^etc/(ld\.so\.cache|\.updated|mtab|machine-id)' | sort
    for unit in "$@"; do
        echo "$unit $(inside systemctl is-active "$unit" || true) $(inside systemctl is-enabled "$unit" || true)"
    done
}

hits_within_setup() { # FILE: what `galley setup --json` has printed
    sed -n 's/.*"first_hit_ms": *\([0-9]*\).*/\1/p' "$1"
}

# On a machine with only WordPress, PHP-FPM and a database: installs the package and runs one command.
sets_up_wordpress() {
    local ms
    has_wordpress
    online apt-get -qq purge galley
    online apt-get -qq install /srv/first.deb
    machine_state galley.socket galley-tls.socket galley.service >"$folder/before-setup.txt"
    inside galley setup --dry-run --yes >"$folder/dry.toml"
    grep -qx 'root = "/var/www/example.com"' "$folder/dry.toml"
    machine_state galley.socket galley-tls.socket galley.service | diff "$folder/before-setup.txt" -
    block 'Set up an existing WordPress' console | found -x '\$ sudo galley setup --yes'
    inside galley setup --yes --json >"$folder/setup.json"
    cat "$folder/setup.json"
    ms=$(hits_within_setup "$folder/setup.json")
    echo "$ms" >"$folder/first-hit-ms.txt"
    [ "$ms" -le 60000 ]
    is_hit
    grep -q 'in_flight = 5' "$root/etc/galley/galley.toml"
    inside galley check
    # The plugin is connected: an edit purges.
    cat >"$root/srv/edit.php" <<'PHP'
<?php
$_SERVER['HTTP_HOST'] = 'example.com';
require '/var/www/example.com/wp-load.php';
wp_update_post(['ID' => 1, 'post_title' => 'A title after the setup']);
PHP
    inside runuser -u www-data php /srv/edit.php
    web http://example.com/ | found 'A title after the setup'
    # A second run changes nothing.
    cp "$root/etc/galley/galley.toml" "$folder/galley.toml"
    manual 'Set up an existing WordPress' 1
    cmp "$root/etc/galley/galley.toml" "$folder/galley.toml"
    is_hit
}

undoes_the_setup() {
    manual 'Set up an existing WordPress' 2
    machine_state galley.socket galley-tls.socket galley.service | diff "$folder/before-setup.txt" -
    web http://example.com/ | found 'Galley is running'
}

# Installs a site over HTTPS with nginx and a certificate in the layout of certbot.
has_nginx_with_tls() {
    local live=$root/etc/letsencrypt/live/example.com
    online apt-get -qq purge galley
    online apt-get -qq install --no-install-recommends nginx-light openssl
    mkdir -p "$live" "$root/etc/letsencrypt/renewal-hooks/deploy"
    inside openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=example.com -addext subjectAltName=DNS:example.com,DNS:www.example.com \
        -keyout /etc/letsencrypt/live/example.com/privkey.pem -out /etc/letsencrypt/live/example.com/fullchain.pem
    chmod 700 "$root/etc/letsencrypt/live"
    cat >"$root/etc/nginx/sites-available/example.com" <<'NGINX'
server { listen 80; listen [::]:80; server_name example.com www.example.com; return 301 https://example.com$request_uri; }
server {
    listen 443 ssl; listen [::]:443 ssl;
    server_name example.com www.example.com;
    root /var/www/example.com;
    index index.php;
    ssl_certificate /etc/letsencrypt/live/example.com/fullchain.pem;
    ssl_certificate_key /etc/letsencrypt/live/example.com/privkey.pem;
    location / { try_files $uri $uri/ /index.php$is_args$args; }
    location ~ \.php$ { include snippets/fastcgi-php.conf; fastcgi_pass unix:/run/php/php8.2-fpm.sock; }
}
NGINX
    rm -f "$root/etc/nginx/sites-enabled/default"
    ln -sf ../sites-available/example.com "$root/etc/nginx/sites-enabled/example.com"
    cat >"$root/srv/scheme.php" <<'PHP'
<?php
$_SERVER['HTTP_HOST'] = 'example.com';
require '/var/www/example.com/wp-load.php';
foreach (['home', 'siteurl'] as $name) { update_option($name, $argv[1] . '://example.com'); }
PHP
    inside runuser -u www-data php /srv/scheme.php https
    inside systemctl restart nginx
    until_true tls_title Example
}

tls() { beside curl --silent --show-error --insecure --max-time 20 --resolve 'example.com:443:127.0.0.1' "$@"; }
tls_title() { tls https://example.com/ | found "<title>$1"; }
tls_is_hit() { tls --head https://example.com/ | found -i '^cache-status: galley; hit'; }

sets_up_beside_nginx() {
    local units=(galley.socket galley-tls.socket galley.service nginx.service) copies=$root/etc/galley/certificates/example.com
    has_nginx_with_tls
    # Galley does not start, because port 80 is in use.
    online apt-get -qq install /srv/first.deb
    galley_is inactive galley.service
    # Resets the failed state of the socket, for the comparison after `--undo`. The socket does not listen in either state.
    inside systemctl reset-failed galley.socket
    machine_state "${units[@]}" >"$folder/before-nginx.txt"

    inside galley setup --yes --json | tee "$folder/beside.json"
    galley_is active nginx.service galley.service
    # At the next boot, nginx gets its ports again.
    [ "$(inside systemctl is-enabled galley.socket galley-tls.socket | sort -u)" = disabled ]
    tls --head https://example.com/ | found -i '^server: nginx'
    grep -q 'listen = \["127.0.0.1:8080"\]' "$root/etc/galley/galley.toml"
    [ "$(grep -o '"same":true' "$folder/beside.json" | wc -l)" -ge 5 ]
    # The plugin's own activation purges once more.
    until_true beside_is_hit

    # The setup does not stop services that the command does not name.
    if inside galley setup --yes --take-over mariadb; then return 1; fi
    galley_is active nginx.service mariadb.service

    # If Galley does not start, nginx gets its ports again.
    mkdir -p "$root/etc/systemd/system/galley.service.d"
    printf '[Service]\nExecStartPre=/bin/false\n' >"$root/etc/systemd/system/galley.service.d/broken.conf"
    inside systemctl daemon-reload
    if inside galley setup --yes --take-over nginx; then return 1; fi
    galley_is active nginx.service
    tls --head https://example.com/ | found -i '^server: nginx'
    grep -q 'listen = \["127.0.0.1:8080"\]' "$root/etc/galley/galley.toml"
    rm -r "$root/etc/systemd/system/galley.service.d"
    inside systemctl daemon-reload

    inside galley setup --yes --take-over nginx
    galley_is inactive nginx.service
    galley_is active galley.socket galley-tls.socket galley.service
    until_true tls_is_hit
    web --head http://example.com/ | found -i '^location: https://example.com/'
    [ "$(inside stat -c '%U:%G %a' /etc/galley/certificates/example.com/privkey.pem)" = 'root:galley 640' ]

    # After a renewal, the deploy hook copies the new certificate, and Galley uses it.
    inside openssl req -x509 -newkey rsa:2048 -nodes -days 60 -subj /CN=example.com/O=Renewed -addext subjectAltName=DNS:example.com,DNS:www.example.com \
        -keyout /etc/letsencrypt/live/example.com/privkey.pem -out /etc/letsencrypt/live/example.com/fullchain.pem
    inside /etc/letsencrypt/renewal-hooks/deploy/galley
    cmp "$copies/fullchain.pem" "$root/etc/letsencrypt/live/example.com/fullchain.pem"
    until_true serves_renewed

    inside galley setup --undo --yes
    galley_is active nginx.service
    # The comparison excludes certbot's files, because the certificate was renewed.
    diff <(grep -v ^etc/letsencrypt/live/ "$folder/before-nginx.txt") <(machine_state "${units[@]}" | grep -v ^etc/letsencrypt/live/)
    tls --head https://example.com/ | found -i '^server: nginx'

    inside runuser -u www-data php /srv/scheme.php http
    online apt-get -qq purge nginx-light nginx-common
    rm -rf "$root/etc/letsencrypt"
}

beside_is_hit() {
    beside curl --silent --insecure --head --header 'Host: example.com' --resolve example.com:8443:127.0.0.1 https://example.com:8443/ | found -i '^cache-status: galley; hit'
}

serves_renewed() {
    inside sh -c 'openssl s_client -connect 127.0.0.1:443 -servername example.com </dev/null 2>/dev/null | openssl x509 -noout -subject' | found Renewed
}

# No PHP-FPM is running, so Galley runs one as the owner of WordPress.
sets_up_managed_php() {
    online apt-get -qq purge galley
    online apt-get -qq install /srv/first.deb
    inside systemctl disable --now php8.2-fpm
    inside galley setup --yes
    is_hit
    grep -q 'php = "managed"' "$root/etc/galley/galley.toml"
    inside ps -C php-fpm8.2 -o user= | sort -u | found -x www-data
    inside galley setup --undo --yes
    absent etc/systemd/system/galley.service.d/setup.conf var/www/example.com/wp-content/plugins/galley
    web http://example.com/ | found 'Galley is running'
    inside systemctl enable --now php8.2-fpm
}

reloads() {
    local process
    inside systemctl stop galley.service galley.socket || true
    online apt-get -qq purge galley
    online apt-get -qq install /srv/first.deb
    process=$(main_process)
    block 'WordPress with PHP-FPM' toml >"$root/etc/galley/sites.d/example.com.toml"
    inside systemctl reload galley
    until_true is_hit
    echo 'nonsense = 1' >>"$root/etc/galley/sites.d/example.com.toml"
    if inside systemctl reload galley; then return 1; fi
    is_hit
    block 'WordPress with PHP-FPM' toml >"$root/etc/galley/sites.d/example.com.toml"
    inside systemctl reload galley
    [ "$(main_process)" = "$process" ]
}
