# The checks of packaging/test/run. Each check is a function that fails if the check does.

# Succeeds if a line matches. It reads its whole input, unlike `grep -q`, which would kill the writer with SIGPIPE.
found() { grep "$@" | cat >/dev/null; }

present() { # PATH...
    for path in "$@"; do [ -e "$root/$path" ]; done
}
absent() { # PATH...
    for path in "$@"; do [ ! -e "$root/$path" ]; done
}

package_version() { dpkg-deb --field "$out"/galley_*.deb Version; }

# Prints the text of a section of $PAGE.
section() { # HEADING
    awk -v heading="## $1" '$0 == heading { on = 1; next } /^## / { on = 0 } on' "$PAGE"
}

# Prints the N-th code block of a kind in a section of $PAGE.
block() { # HEADING KIND [N]
    section "$1" | awk -v fence="\`\`\`$2" -v wanted="${3:-1}" '
        $0 == fence { n++; on = n == wanted; next }
        /^```/ { on = 0 }
        on' | grep .
}

# Runs the commands of a console block of the manual as root in the machine, from the folder of the packages.
manual() { # HEADING [N [FOLDER]]
    local place
    block "$1" console "${2:-1}" | sed -n 's/^\$ //p' >"$root/srv/commands"
    [ -s "$root/srv/commands" ]
    if grep -q 'apt install' "$root/srv/commands"; then place=online; else place=inside; fi
    "$place" bash -euxo pipefail -c "cd ${3:-/srv/first}"'; sudo() { "$@"; }; . /srv/commands'
}

web() { beside curl --silent --show-error --max-time 10 --resolve 'example.com:80:127.0.0.1' "$@"; }

# Lists every path of the machine with type, permissions and owner, without files that apt, dpkg and systemd write.
list_files() {
    (cd "$root" && find . -xdev \( -path ./var/lib/apt -o -path ./var/cache/apt -o -path ./var/lib/dpkg -o -path ./srv -o -path ./var/log/apt \
        -o -path ./var/log/journal -o -path ./var/lib/systemd -o -path ./var/cache/ldconfig \) -prune -o -printf '%P %y %m %U:%G\n') |
        grep -vE '^(var/log/(dpkg|alternatives)\.log|etc/(passwd|group|g?shadow|ld\.so\.cache|\.pwd\.lock|\.updated)-?|var/(tmp|lib|cache|log)|etc|tmp|run) ' |
        grep -vE '^var/tmp/systemd-private-' | sort
}

galley_is() { # STATE UNIT...
    local state=$1 unit
    shift
    for unit in "$@"; do [ "$(inside systemctl is-active "$unit" || true)" = "$state" ]; done
}

installs() {
    local packages=$root/var/lib/dpkg/info
    find "$packages" -name '*.list' | sort >"$folder/packages-before.txt"
    manual 'Install the package' 1 | tee "$folder/installed.txt"
    grep -q 'galley_.*: OK' "$folder/installed.txt"
    # A minimal system contains all dependencies of the package.
    find "$packages" -name '*.list' | sort | comm -13 "$folder/packages-before.txt" - | found -x '.*/galley.list'
    galley_is active galley.socket galley.service
    galley_is inactive galley-tls.socket galley-quic.socket
}

rights() { # PATH RIGHTS
    [ "$(inside stat -c '%U:%G %a' "$1")" = "$2" ]
}

has_files_and_rights() {
    inside id galley | found '(www-data)'
    [ "$(inside getent passwd galley | cut -d: -f6,7)" = /var/lib/galley:/usr/sbin/nologin ]
    rights /usr/bin/galley 'root:root 755'
    rights /etc/galley/galley.toml 'root:root 644'
    rights /var/log/galley 'galley:galley 750'
    rights /var/log/galley/access.log 'galley:galley 640'
    rights /var/cache/galley 'galley:galley 700'
    rights /var/lib/galley 'galley:galley 700'
    rights /run/galley 'galley:galley 711'
    rights /run/galley/admin.sock 'galley:galley 600'
    # All files of the package belong to root, and no other user can write to them.
    [ -z "$(inside sh -c 'dpkg --listfiles galley | xargs -d "\n" stat -c "%U:%G %A %n"' | grep -vE '^root:root [-dl]r[w-][x-]r-[x-]r-[x-] ')" ]
    [ -z "$(inside dpkg --verify galley)" ]
    [ "$(inside galley --version)" = "galley $(package_version)" ]
    [ -n "$(inside cat /usr/share/doc/galley/copyright)" ]
    for name in galley galley-run galley-plugin-install; do
        gzip -cd "$root/usr/share/man/man1/$name.1.gz" >/dev/null
    done
    bash -n "$root/usr/share/bash-completion/completions/galley"
}

has_hardened_units() {
    inside systemd-analyze verify --man=no galley.service galley.socket galley-tls.socket galley-quic.socket 2>&1 | tee "$folder/verify.txt"
    [ ! -s "$folder/verify.txt" ]
    inside systemd-analyze security --offline=true --no-pager --threshold=20 /usr/lib/systemd/system/galley.service | tail -n 1
    inside systemd-analyze security --no-pager --threshold=20 galley.service | tail -n 1
}

serves_the_first_page() {
    inside galley check
    web http://example.com/ | found 'Galley is running'
    inside galley status --json | found '"version"'
    until_true grep -q '"GET / HTTP/1.1" 200' "$root/var/log/galley/access.log"
}

until_true() { # COMMAND...
    for _ in $(seq 100); do
        if "$@"; then return; fi
        sleep 0.1
    done
    return 1
}

starts_with_the_machine() {
    galley_is active galley.socket galley.service
    web http://example.com/ | found 'Galley is running'
}

# Requests one page repeatedly until the file is removed. Prints every status except 200.
request_until_gone() { # FILE
    while [ -e "$1" ]; do
        web --output /dev/null --write-out '%{http_code}\n' http://example.com/ 2>&1 || true
    done | grep -vx 200 || true
}

main_process() { inside systemctl show --property MainPID --value galley.service; }

upgrades_without_a_failed_request() {
    local old new wrong
    echo '# a line of the administrator' >>"$root/etc/galley/galley.toml"
    old=$(main_process)
    touch "$folder/loading"
    request_until_gone "$folder/loading" >"$folder/wrong.txt" 2>&1 &
    sleep 1
    manual 'Upgrade' 1 /srv/next | tee "$folder/upgrade.txt"
    sleep 1
    rm "$folder/loading"
    wait $!
    [ ! -s "$folder/wrong.txt" ]
    grep -q '+next' <<<"$(inside dpkg-query --show galley)"
    new=$(main_process)
    [ "$old" != "$new" ]
    [ "$new" != 0 ]
    inside journalctl --no-pager --unit galley.service | found 'another process has taken over'
    present usr/share/doc/galley/next
    absent usr/share/doc/galley/changelog.gz
    tail -n 1 "$root/etc/galley/galley.toml" | found administrator
    [ -z "$(inside dpkg --verify galley | grep -v ' c /etc/galley/galley.toml')" ]
}

failed_upgrade_keeps_the_server() {
    local old toml=$root/etc/galley/galley.toml
    old=$(main_process)
    cp "$toml" "$folder/valid.toml"
    echo 'unknown = 1' >>"$toml"
    inside /var/lib/dpkg/info/galley.postinst configure 0.0 2>&1 | found 'previous version continues'
    [ "$old" = "$(main_process)" ]
    [ "$(web --output /dev/null --write-out '%{http_code}' http://example.com/)" = 200 ]
    cp "$folder/valid.toml" "$toml"
}

upgrade_respects_the_administrator() {
    inside systemctl disable --now galley.service galley.socket
    # systemd did not start this process itself. Nevertheless, the process drains its requests before it ends.
    galley_is inactive galley.service galley.socket
    inside journalctl --no-pager --unit galley.service --lines 5 | found draining
    online apt-get install --allow-downgrades /srv/first.deb
    galley_is inactive galley.service galley.socket
    [ "$(inside systemctl is-enabled galley.service galley.socket | sort -u)" = disabled ]
    inside systemctl enable --now galley.socket galley.service
    # A server that was stopped but is enabled stays stopped as well.
    inside systemctl stop galley.service galley.socket
    online apt-get install /srv/next.deb
    galley_is inactive galley.service
    inside systemctl start galley.socket galley.service
}

removes_but_keeps_data() {
    block 'Uninstall' console | tail -n 1 | found 'apt remove'
    online apt-get remove galley
    galley_is inactive galley.service galley.socket
    absent usr/bin/galley usr/share/galley
    present etc/galley/galley.toml var/log/galley/access.log var/cache/galley
    [ ! -e "$root/etc/systemd/system/galley.service" ] || [ "$(readlink "$root/etc/systemd/system/galley.service")" = /dev/null ]
    # A new installation restores the previous state and starts the server.
    online apt-get install /srv/first.deb
    galley_is active galley.socket galley.service
    tail -n 1 "$root/etc/galley/galley.toml" | found administrator
}

purges_everything() {
    # Files that a site adds to the files of the package.
    touch "$root/etc/galley/sites.d/example.com.toml.old"
    mkdir -p "$root/etc/systemd/system/galley.service.d"
    manual 'Uninstall' 2
    galley_is inactive galley.service galley.socket
    list_files >"$folder/after.txt"
    diff "$folder/before.txt" "$folder/after.txt"
    [ -z "$(find "$root/var/lib/systemd" "$root/var/lib/dpkg/info" -name 'galley*' -print)" ]
    [ -n "$(inside getent passwd galley)" ]
    inside systemctl daemon-reload
    [ -z "$(inside systemctl list-unit-files --no-legend 'galley*')" ]
}

installs_beside_another_server() {
    inside systemd-run --quiet --unit other systemd-socket-activate --listen=80 --accept --inetd /bin/cat
    until_true inside systemctl is-active other.service
    online apt-get install /srv/first.deb 2>&1 | tee "$folder/beside.txt"
    grep -q 'if another server has port 80' "$folder/beside.txt"
    galley_is active other.service
    [ "$(inside systemctl is-active galley.socket || true)" != active ]
    galley_is inactive galley.service
    # The page says to write these lines with `systemctl edit`, which asks for an editor, and to restart both units.
    section 'Install the package' | found 'ListenStream=8080'
    section 'Install the package' | found 'systemctl restart galley.socket galley'
    mkdir -p "$root/etc/systemd/system/galley.socket.d"
    printf '[Socket]\nListenStream=\nListenStream=8080\n' >"$root/etc/systemd/system/galley.socket.d/override.conf"
    inside systemctl daemon-reload
    inside systemctl restart galley.socket galley
    beside curl --silent http://127.0.0.1:8080/ | found 'Galley is running'
    inside systemctl stop other.service galley.service
    rm "$root/etc/systemd/system/galley.socket.d/override.conf"
    inside systemctl daemon-reload
    inside systemctl restart galley.socket galley
    web http://example.com/ | found 'Galley is running'
}

# Installs WordPress in /var/www/example.com with PHP-FPM and a database, like a site owner.
has_wordpress() {
    local wordpress=$root/var/www/example.com
    # Debian's package is the source of the files; Galley is the web server that it depends on.
    online apt-get -qq install --no-install-recommends php-fpm php-cli php-mysql php-xml php-mbstring mariadb-server wordpress \
        wordpress-theme-twentytwentythree curl
    mkdir -p "$wordpress"
    inside cp -rL /usr/share/wordpress/. /var/www/example.com || true
    rm -f "$wordpress/wp-config.php"
    online apt-get -qq purge wordpress wordpress-theme-twentytwentythree
    inside systemctl start mariadb php8.2-fpm
    inside mariadb -e "CREATE DATABASE site; CREATE USER site@localhost IDENTIFIED BY 'secret'; GRANT ALL ON site.* TO site@localhost"
    cat >"$wordpress/wp-config.php" <<'PHP'
<?php
define('DB_NAME', 'site');
define('DB_USER', 'site');
define('DB_PASSWORD', 'secret');
define('DB_HOST', 'localhost');
define('WP_HTTP_BLOCK_EXTERNAL', true);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) { define('ABSPATH', __DIR__ . '/'); }
require_once ABSPATH . 'wp-settings.php';
PHP
    inside chown -R www-data:www-data /var/www/example.com
    cat >"$root/srv/install.php" <<'PHP'
<?php
$_SERVER['HTTP_HOST'] = 'example.com';
define('WP_INSTALLING', true);
require '/var/www/example.com/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Example', 'editor', 'editor@example.com', true, '', 'correct horse');
update_option('home', 'http://example.com');
update_option('siteurl', 'http://example.com');
update_option('permalink_structure', '/%postname%/');
switch_theme('twentytwentythree');
PHP
    inside runuser -u www-data php /srv/install.php
}

cache_status() { web --head http://example.com/ | tr -d '\r' | sed -n 's/^cache-status: //Ip'; }

serves_wordpress() {
    local start
    online apt-get -qq purge galley
    start=$SECONDS
    online apt-get -qq install /srv/first.deb
    block 'WordPress with PHP-FPM' toml >"$root/etc/galley/sites.d/example.com.toml"
    manual 'WordPress with PHP-FPM' 1
    manual 'WordPress with PHP-FPM' 2 | tee "$folder/first.txt"
    grep -q 'fwd=uri-miss; stored' "$folder/first.txt"
    manual 'WordPress with PHP-FPM' 2 | tee "$folder/second.txt"
    grep -q 'galley; hit' "$folder/second.txt"
    [ $((SECONDS - start)) -le 60 ]
    web http://example.com/ | found 'wp-content'
    # The plugin, installed as the page describes, is connected, and an edit purges.
    manual 'WordPress with PHP-FPM' 3
    inside test -s /var/www/example.com/wp-content/plugins/galley/galley.php
    until_true is_hit
    cat >"$root/srv/edit.php" <<'PHP'
<?php
$_SERVER['HTTP_HOST'] = 'example.com';
require '/var/www/example.com/wp-load.php';
wp_update_post(['ID' => 1, 'post_title' => 'A new title']);
PHP
    inside runuser -u www-data php /srv/edit.php
    web http://example.com/ | found 'A new title'
}

is_hit() { cache_status | found 'galley; hit'; }

rotates_logs() {
    local log=$root/var/log/galley/access.log
    online apt-get -qq install --no-install-recommends logrotate
    web --output /dev/null http://example.com/?before
    until_true grep -q '?before' "$log"
    inside logrotate --force /etc/logrotate.d/galley
    grep -q '?before' "$log.1"
    web --output /dev/null http://example.com/?after
    until_true grep -q '?after' "$log"
    rights /var/log/galley/access.log 'galley:galley 640'
    rights /var/log/galley/access.log.1 'galley:galley 640'
}

# Sends requests from an address other than the machine's own, which is exempt from limits.
visitor() { # ADDRESS CURL-ARGUMENTS...
    local address=$1
    shift
    beside ip address show dev lo | found "$address/" || beside ip address add "$address/32" dev lo
    beside curl --silent --max-time 20 --output /dev/null --write-out '%{http_code}\n' \
        --interface "$address" --resolve "example.com:80:$address" "$@"
}

log_in() { # ADDRESS PASSWORD
    visitor "$1" --cookie wordpress_test_cookie=WP%20Cookie%20check --data-urlencode log=editor --data-urlencode "pwd=$2" \
        --data wp-submit=1 --data testcookie=1 http://example.com/wp-login.php
}

filters_failed_logins() {
    local log=$root/var/log/galley/access.log lines
    online apt-get -qq install --no-install-recommends fail2ban
    cat >>"$root/etc/galley/sites.d/example.com.toml" <<'TOML'

[[site.rule]]
path = "/internal/*"
basic_auth = "/etc/galley/internal.htpasswd"

[[site.rule]]
path = "/limited/*"
limit = { rate = "1/h", burst = 2 }
TOML
    printf 'editor:%s\n' "$(inside openssl passwd -apr1 right)" >"$root/etc/galley/internal.htpasswd"
    inside chgrp galley /etc/galley/internal.htpasswd
    inside chmod 640 /etc/galley/internal.htpasswd
    inside systemctl restart galley.service
    : >"$log"
    # Eight failures.
    for _ in 1 2 3; do log_in 198.51.100.7 wrong | found -x 200; done
    for _ in 1 2; do visitor 198.51.100.7 --user editor:wrong http://example.com/internal/ | found -x 401; done
    for _ in 1 2; do visitor 198.51.100.7 http://example.com/limited/ >/dev/null; done
    for _ in 1 2 3; do visitor 198.51.100.7 http://example.com/limited/ | found -x 429; done
    # Requests that do not fail, even if they imitate the log line of a failure.
    log_in 198.51.100.8 'correct horse' | found -x 302
    visitor 198.51.100.8 http://example.com/wp-login.php | found -x 200
    visitor 198.51.100.8 http://example.com/ | found -x 200
    visitor 198.51.100.8 http://example.com/not-there/ | found -x 404
    visitor 198.51.100.8 --user editor:right http://example.com/internal/ | grep -vx 401
    visitor 198.51.100.8 --data x=1 http://example.com/xmlrpc.php
    visitor 198.51.100.8 --user-agent '" 401 0 "-" "-" outcome=refused:password ' http://example.com/ | found -x 200
    visitor 198.51.100.8 --request-target '/?" 429 - outcome=refused:limited ' http://example.com/ || true
    visitor 198.51.100.8 'http://example.com/?x=/wp-login.php' | found -x 200
    until_true grep -q 'x=/wp-login.php' "$log"
    cat "$log"
    inside fail2ban-regex --print-all-matched --print-all-missed /var/log/galley/access.log galley | tee "$folder/fail2ban.txt"
    lines=$(wc -l <"$log")
    grep -q "^Lines: $lines lines, 0 ignored, 8 matched, $((lines - 8)) missed" "$folder/fail2ban.txt"
    # fail2ban has parsed the time of each line.
    grep -q "\[$lines\]" "$folder/fail2ban.txt"
    sed -n '/Matched line/,/`-/p' "$folder/fail2ban.txt" >"$folder/matched.txt"
    [ "$(grep -c '198.51.100.7' "$folder/matched.txt")" = 8 ]
    [ "$(grep -c '198.51.100.8' "$folder/matched.txt")" = 0 ]
}

bans_guessers() {
    printf '%s\n' "$(sed -n '/^## fail2ban/,/^## /p' docs/how-to/logs.md | awk '/^```ini$/ { on = 1; next } /^```/ { on = 0 } on')" \
        >"$root/etc/fail2ban/jail.d/galley.local"
    # The client is an address of the machine; fail2ban has neither a firewall nor a log of sshd here.
    printf '%s\n' 'ignoreself = false' 'action =' '[sshd]' 'enabled = false' >>"$root/etc/fail2ban/jail.d/galley.local"
    inside systemctl restart fail2ban
    until_true inside fail2ban-client status galley
    for _ in $(seq 15); do log_in 198.51.100.9 wrong >/dev/null; done
    for _ in $(seq 6); do log_in 198.51.100.9 wrong | found -x 429; done
    visitor 198.51.100.8 http://example.com/ >/dev/null
    until_true has_banned_only 198.51.100.9
    inside systemctl disable --now fail2ban
}

has_banned_only() { inside fail2ban-client status galley | found -E "Banned IP list:[[:space:]]*$1\$"; }

runs_managed_php() {
    local site=$root/etc/galley/sites.d/example.com.toml
    block 'WordPress with managed PHP' toml >"$site"
    mkdir -p "$root/etc/systemd/system/galley.service.d"
    block 'Run it under systemd' ini >"$root/etc/systemd/system/galley.service.d/site.conf"
    inside systemctl disable --now php8.2-fpm
    manual 'Run it under systemd' 1
    until_true is_hit
    inside ps -C php-fpm8.2 -o user= | sort -u | found -x www-data
    # PHP may write only to the folder of WordPress.
    echo '<?php var_dump(file_put_contents(__DIR__ . "/wp-content/new.txt", "x"), @file_put_contents("/var/www/other.txt", "x"));' \
        >"$root/var/www/example.com/probe.php"
    [ "$(web http://example.com/probe.php | tr -d '\n')" = 'int(1)bool(false)' ]
    rm "$root/var/www/example.com/probe.php"
    inside systemd-analyze security --no-pager --threshold=20 galley.service | tail -n 1
    # Switches back to a separate PHP-FPM.
    rm "$root/etc/systemd/system/galley.service.d/site.conf"
    block 'WordPress with PHP-FPM' toml >"$site"
    inside systemctl enable --now php8.2-fpm
    inside systemctl daemon-reload
    inside systemctl restart galley
    until_true is_hit
}

restores_a_backup() {
    inside sh -c 'echo account >/var/lib/galley/example && chown galley: /var/lib/galley/example && chmod 600 /var/lib/galley/example'
    manual 'Back up' 1
    online apt-get -qq purge galley
    absent var/lib/galley
    online apt-get -qq install /srv/first.deb
    manual 'Back up' 2
    rights /var/lib/galley/example 'galley:galley 600'
    until_true is_hit
}

uninstalls_beside_wordpress() {
    manual 'Uninstall' 1
    manual 'Uninstall' 2
    absent var/www/example.com/wp-content/plugins/galley etc/galley var/cache/galley var/log/galley
    present var/www/example.com/wp-config.php
}

rpm_package_is_whole() {
    rpm --checksig --verbose "$out"/galley-*.rpm
    # The package contains the files of the staged tree, and no others.
    rpm --query --package --queryformat '[%{FILEMODES:perms} %{FILENAMES}\n]' "$out"/galley-*.rpm \
        | awk '/^-/ { print $2 }' | sort >"$folder/rpm-files.txt"
    (cd target/packages/tree && find . -type f -printf '/%P\n' | sort) >"$folder/tree-files.txt"
    cmp "$folder/rpm-files.txt" "$folder/tree-files.txt"
    # The package marks the files that an administrator may change.
    [ "$(rpm --query --package --configfiles "$out"/galley-*.rpm | sort)" = "$(cd target/packages/tree && find etc -type f -printf '/%H/%P\n' | sort)" ]
    # Installs only the files into an empty root, so that the result does not depend on existing files.
    rm -rf "$folder/empty"
    mkdir -p "$folder/empty"
    rpm --root "$folder/empty" --install --nodeps --noscripts "$out"/galley-*.rpm
    rpm --root "$folder/empty" --verify --nodeps --nouser --nogroup galley
    rpm --root "$folder/empty" --erase --nodeps --noscripts galley
    [ -z "$(find "$folder/empty" -name '*galley*')" ]
    rm -rf "$folder/empty"
}

# The scripts of the package run with a real systemd. Debian's rpm has no database of what is installed, hence --nodeps.
rpm_scripts_work() {
    online apt-get -qq install --no-install-recommends rpm
    inside userdel galley
    cp "$out"/galley-*.rpm "$root/srv/galley.rpm"
    inside rpm --install --nodeps --force-debian /srv/galley.rpm
    inside getent passwd galley
    [ "$(inside systemctl is-active galley.service || true)" != active ]
    inside systemctl enable --now galley.socket galley.service
    web http://example.com/ | found 'Galley is running'
    inside rpm --upgrade --nodeps --force --force-debian /srv/galley.rpm
    galley_is active galley.socket galley.service
    web http://example.com/ | found 'Galley is running'
    inside rpm --erase --nodeps --force-debian galley
    [ "$(inside systemctl is-active galley.service galley.socket | sort -u)" = inactive ]
    absent usr/bin/galley usr/share/galley etc/galley/galley.toml
}

# The shells accept their completion files, and bash completes a command and an option.
completes_commands() {
    online apt-get -qq install --no-install-recommends zsh fish
    inside zsh --no-exec /usr/share/zsh/site-functions/_galley
    inside fish --no-execute /usr/share/fish/vendor_completions.d/galley.fish
    inside fish --command 'complete --do-complete "galley pu"' | found '^purge'
    cat >"$root/srv/complete" <<'BASH'
. /usr/share/bash-completion/completions/galley
COMP_WORDS=(galley pu) COMP_CWORD=1 COMP_LINE='galley pu' COMP_POINT=9
_galley galley pu galley
[ "${COMPREPLY[*]}" = purge ]
COMP_WORDS=(galley purge --pre) COMP_CWORD=2 COMP_LINE='galley purge --pre' COMP_POINT=18
_galley galley --pre purge
[ "${COMPREPLY[*]}" = --prefix ]
BASH
    inside bash -eux /srv/complete
}
