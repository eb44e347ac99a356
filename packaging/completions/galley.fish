# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_galley_global_optspecs
    string join \n h/help V/version
end

function __fish_galley_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_galley_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_galley_using_subcommand
    set -l cmd (__fish_galley_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c galley -n "__fish_galley_needs_command" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_needs_command" -s V -l version -d 'Print version'
complete -c galley -n "__fish_galley_needs_command" -f -a "run" -d 'Start the server'
complete -c galley -n "__fish_galley_needs_command" -f -a "check" -d 'Read the configuration and report every error in it'
complete -c galley -n "__fish_galley_needs_command" -f -a "reload" -d 'Make the running server read its configuration again'
complete -c galley -n "__fish_galley_needs_command" -f -a "upgrade" -d 'Replace the running server with the installed version, without downtime'
complete -c galley -n "__fish_galley_needs_command" -f -a "purge" -d 'Purge pages from the cache of a running server'
complete -c galley -n "__fish_galley_needs_command" -f -a "audit" -d 'Generate all stored pages again, and purge and list those that are out of date'
complete -c galley -n "__fish_galley_needs_command" -f -a "status" -d 'Show whether visitors are served, and the state of the running server'
complete -c galley -n "__fish_galley_needs_command" -f -a "dashboard" -d 'Show a running server in the browser'
complete -c galley -n "__fish_galley_needs_command" -f -a "why" -d 'Explain how a running server would handle a request, without sending it to PHP'
complete -c galley -n "__fish_galley_needs_command" -f -a "crawlers" -d 'Show the lists of good crawlers, or tell whether a client is one'
complete -c galley -n "__fish_galley_needs_command" -f -a "doctor" -d 'Find problems of the machine, of PHP and of WordPress'
complete -c galley -n "__fish_galley_needs_command" -f -a "setup" -d 'Find the WordPress of this machine, and set Galley up for it'
complete -c galley -n "__fish_galley_needs_command" -f -a "import" -d 'Convert the configuration of nginx, Varnish, Apache or Caddy, and report every statement'
complete -c galley -n "__fish_galley_needs_command" -f -a "load" -d 'Load-test your site and find its capacity'
complete -c galley -n "__fish_galley_needs_command" -f -a "plugin" -d 'Install the WordPress plugin, or remove it'
complete -c galley -n "__fish_galley_using_subcommand run" -l config -d 'Configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand run" -l root -d 'Serve this WordPress folder on port 8080 without a configuration file; Galley runs PHP' -r -F
complete -c galley -n "__fish_galley_using_subcommand run" -l listen -d 'With --root: another address than 0.0.0.0:8080' -r
complete -c galley -n "__fish_galley_using_subcommand run" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand check" -l config -d 'Configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand check" -l diff -d 'Print what a reload would change about the running server'
complete -c galley -n "__fish_galley_using_subcommand check" -l json -d 'Print the findings as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand check" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand reload" -l config -d 'The running server\'s configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand reload" -l admin -d 'The running server\'s admin interface: `unix:/path` or `http://address:port`' -r
complete -c galley -n "__fish_galley_using_subcommand reload" -l token-file -d 'File with the admin token [default: the configuration\'s]' -r -F
complete -c galley -n "__fish_galley_using_subcommand reload" -l json -d 'Print the result as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand reload" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand upgrade" -l config -d 'The running server\'s configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand upgrade" -l admin -d 'The running server\'s admin interface: `unix:/path` or `http://address:port`' -r
complete -c galley -n "__fish_galley_using_subcommand upgrade" -l token-file -d 'File with the admin token [default: the configuration\'s]' -r -F
complete -c galley -n "__fish_galley_using_subcommand upgrade" -l json -d 'Print the result as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand upgrade" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand purge" -l config -d 'The running server\'s configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand purge" -l admin -d 'The running server\'s admin interface: `unix:/path` or `http://address:port`' -r
complete -c galley -n "__fish_galley_using_subcommand purge" -l token-file -d 'File with the admin token [default: the configuration\'s]' -r -F
complete -c galley -n "__fish_galley_using_subcommand purge" -l site -d 'Only this site, by its name or one of its hosts [default: the URL\'s site, else all]' -r
complete -c galley -n "__fish_galley_using_subcommand purge" -l url -d 'One page, by its URL' -r
complete -c galley -n "__fish_galley_using_subcommand purge" -l tag -d 'Every page with this tag' -r
complete -c galley -n "__fish_galley_using_subcommand purge" -l prefix -d 'Every page at this path and below it' -r
complete -c galley -n "__fish_galley_using_subcommand purge" -l pattern -d 'Every page whose path and query match this regular expression' -r
complete -c galley -n "__fish_galley_using_subcommand purge" -l all -d 'Every page'
complete -c galley -n "__fish_galley_using_subcommand purge" -l soft -d 'Serve the old page while PHP generates the new one'
complete -c galley -n "__fish_galley_using_subcommand purge" -l json -d 'Print the response as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand purge" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand audit" -l config -d 'The running server\'s configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand audit" -l admin -d 'The running server\'s admin interface: `unix:/path` or `http://address:port`' -r
complete -c galley -n "__fish_galley_using_subcommand audit" -l token-file -d 'File with the admin token [default: the configuration\'s]' -r -F
complete -c galley -n "__fish_galley_using_subcommand audit" -l site -d 'Only this site, by its name or one of its hosts [default: all]' -r
complete -c galley -n "__fish_galley_using_subcommand audit" -l json -d 'Print the results as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand audit" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand status" -l config -d 'The running server\'s configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand status" -l admin -d 'The running server\'s admin interface: `unix:/path` or `http://address:port`' -r
complete -c galley -n "__fish_galley_using_subcommand status" -l token-file -d 'File with the admin token [default: the configuration\'s]' -r -F
complete -c galley -n "__fish_galley_using_subcommand status" -l serving -d 'Exit with 1 only if visitors get errors or the server does not respond, for the health check of a container'
complete -c galley -n "__fish_galley_using_subcommand status" -l json -d 'Print the result as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand status" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand dashboard" -l config -d 'The running server\'s configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand dashboard" -l admin -d 'The running server\'s admin interface: `unix:/path` or `http://address:port`' -r
complete -c galley -n "__fish_galley_using_subcommand dashboard" -l token-file -d 'File with the admin token [default: the configuration\'s]' -r -F
complete -c galley -n "__fish_galley_using_subcommand dashboard" -l port -d 'The port on 127.0.0.1 where the dashboard listens [default: a free one]' -r
complete -c galley -n "__fish_galley_using_subcommand dashboard" -l no-open -d 'Print the address and open no browser'
complete -c galley -n "__fish_galley_using_subcommand dashboard" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand why" -l config -d 'The running server\'s configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand why" -l admin -d 'The running server\'s admin interface: `unix:/path` or `http://address:port`' -r
complete -c galley -n "__fish_galley_using_subcommand why" -l token-file -d 'File with the admin token [default: the configuration\'s]' -r -F
complete -c galley -n "__fish_galley_using_subcommand why" -s H -l header -d 'A header of the request; repeatable' -r
complete -c galley -n "__fish_galley_using_subcommand why" -l site -d 'The site, by its name, one of its hosts or its listener (`192.0.2.1:8080`), if several sites have the URL\'s host' -r
complete -c galley -n "__fish_galley_using_subcommand why" -l method -d 'The request method' -r
complete -c galley -n "__fish_galley_using_subcommand why" -l from -d 'The client\'s address [default: this machine\'s]' -r
complete -c galley -n "__fish_galley_using_subcommand why" -l json -d 'Print the result as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand why" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand crawlers" -l agent -d 'The client\'s `User-Agent`: looks up the name of the address if it names a crawler, and shows the sites\' `crawler_rules` for it' -r
complete -c galley -n "__fish_galley_using_subcommand crawlers" -l config -d 'Configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand crawlers" -l json -d 'Print the result as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand crawlers" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand doctor" -l config -d 'Configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand doctor" -l machine -d 'Where the machine\'s `/proc` and `/run` lie' -r -F
complete -c galley -n "__fish_galley_using_subcommand doctor" -l json -d 'Print the findings as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand setup" -l wordpress -d 'Only the WordPress in this folder; repeatable [default: every WordPress that is found]' -r -F
complete -c galley -n "__fish_galley_using_subcommand setup" -l output -d 'The configuration file to write' -r -F
complete -c galley -n "__fish_galley_using_subcommand setup" -l listen -d 'Where Galley listens [default: port 80, or 127.0.0.1:8080 while another server has that]' -r
complete -c galley -n "__fish_galley_using_subcommand setup" -l php -d 'The PHP-FPM of the sites, `unix:/path` or `host:port` [default: the one that the running server uses, else a pool]' -r
complete -c galley -n "__fish_galley_using_subcommand setup" -l tls -d 'Certificates: those that are found, automatic ones, or none' -r -f -a "found\t'Those of certbot or of the running server'
auto\t'Galley obtains them'
off\t'None'"
complete -c galley -n "__fish_galley_using_subcommand setup" -l take-over -d 'Stop and disable this service, and give its ports to Galley; repeatable' -r
complete -c galley -n "__fish_galley_using_subcommand setup" -l no-plugin -d 'Do not install the WordPress plugin'
complete -c galley -n "__fish_galley_using_subcommand setup" -l no-service -d 'Do not start Galley'
complete -c galley -n "__fish_galley_using_subcommand setup" -l no-test -d 'Do not test the configuration beside the running server'
complete -c galley -n "__fish_galley_using_subcommand setup" -l yes -d 'Do not ask'
complete -c galley -n "__fish_galley_using_subcommand setup" -l dry-run -d 'Print the configuration and change nothing'
complete -c galley -n "__fish_galley_using_subcommand setup" -l undo -d 'Restore the state before the first run'
complete -c galley -n "__fish_galley_using_subcommand setup" -l json -d 'Print the result as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand setup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c galley -n "__fish_galley_using_subcommand import" -l nginx -d 'The main file of nginx, or one of its sites; repeatable' -r -F
complete -c galley -n "__fish_galley_using_subcommand import" -l varnish -d 'A VCL file of Varnish; repeatable' -r -F
complete -c galley -n "__fish_galley_using_subcommand import" -l apache -d 'The main file of Apache, one of its sites, or a `.htaccess`; repeatable' -r -F
complete -c galley -n "__fish_galley_using_subcommand import" -l caddy -d 'A Caddyfile; repeatable' -r -F
complete -c galley -n "__fish_galley_using_subcommand import" -l output -d 'Write the configuration to this new file [default: standard output]' -r -F
complete -c galley -n "__fish_galley_using_subcommand import" -l log -d 'Compare the GET and HEAD requests of this access log, too' -r -F
complete -c galley -n "__fish_galley_using_subcommand import" -l sitemap -d 'Compare the pages of this sitemap, too: a file, or a URL of the site' -r
complete -c galley -n "__fish_galley_using_subcommand import" -l draft -d 'Compare with this configuration of Galley [default: the new one]' -r -F
complete -c galley -n "__fish_galley_using_subcommand import" -l all -d 'List every statement, not only those that were not carried'
complete -c galley -n "__fish_galley_using_subcommand import" -l try -d 'Run the old server and Galley side by side on loopback ports, and list what visitors would notice'
complete -c galley -n "__fish_galley_using_subcommand import" -l crawl -d 'Compare the pages that the front page leads to, too'
complete -c galley -n "__fish_galley_using_subcommand import" -l json -d 'Print configuration and report, or the comparison, as JSON'
complete -c galley -n "__fish_galley_using_subcommand import" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand load" -l connect-to -d 'Connect to this address, whatever the host of the URL resolves to' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l rate -d 'Constant request rate per second (open loop)' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l ramp -d 'Raise the rate evenly from one number of requests per second to the other' -r
complete -c galley -n "__fish_galley_using_subcommand load" -s n -l requests -d 'Number of requests in a closed loop, as ab sends them: each connection waits for its response' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l duration -d 'How long a rate or a ramp lasts, at most 1h' -r
complete -c galley -n "__fish_galley_using_subcommand load" -s c -l concurrency -d 'How many connections send requests with `--requests`' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l connections -d 'How many connections send requests at a rate' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l sitemap -d 'Take the pages from this sitemap of the site, such as `/wp-sitemap.xml`' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l access-log -d 'Take the pages from this access log in the combined format; GET and HEAD only' -r -F
complete -c galley -n "__fish_galley_using_subcommand load" -l uncached -d 'The share of requests with a query that no cache has seen' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l tracking -d 'The share of requests with tracking parameters of campaigns' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l logged-in -d 'The share of requests of a logged-in visitor' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l cookie-file -d 'File with the Cookie field of a logged-in visitor' -r -F
complete -c galley -n "__fish_galley_using_subcommand load" -l user -d 'Log in to WordPress as this user' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l password-file -d 'File with the password of that user' -r -F
complete -c galley -n "__fish_galley_using_subcommand load" -l limit-p99 -d 'A ramp holds while 99 % of the requests take no longer' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l i-own -d 'Test this host although it is not in the configuration; a file on it must prove that it is yours' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l csv -d 'Write the seconds of the run to this file' -r -F
complete -c galley -n "__fish_galley_using_subcommand load" -l html -d 'Write a report with charts to this file' -r -F
complete -c galley -n "__fish_galley_using_subcommand load" -l compare -d 'Compare with an earlier run, which `--json` printed to this file' -r -F
complete -c galley -n "__fish_galley_using_subcommand load" -l config -d 'The running server\'s configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand load" -l admin -d 'The running server\'s admin interface: `unix:/path` or `http://address:port`' -r
complete -c galley -n "__fish_galley_using_subcommand load" -l token-file -d 'File with the admin token [default: the configuration\'s]' -r -F
complete -c galley -n "__fish_galley_using_subcommand load" -l replay -d 'Replay the requests of `--access-log` in their order and with their intervals'
complete -c galley -n "__fish_galley_using_subcommand load" -s k -l keep-alive -d 'Keep connections open with `--requests`'
complete -c galley -n "__fish_galley_using_subcommand load" -l http2 -d 'Speak HTTP/2, over TLS only'
complete -c galley -n "__fish_galley_using_subcommand load" -l insecure -d 'Trust every certificate'
complete -c galley -n "__fish_galley_using_subcommand load" -l json -d 'Print the report as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand load" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand plugin; and not __fish_seen_subcommand_from install remove" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand plugin; and not __fish_seen_subcommand_from install remove" -f -a "install" -d 'Install or update the plugin in a WordPress, connect it with Galley and activate it'
complete -c galley -n "__fish_galley_using_subcommand plugin; and not __fish_seen_subcommand_from install remove" -f -a "remove" -d 'Remove the plugin from a WordPress, with all its data'
complete -c galley -n "__fish_galley_using_subcommand plugin; and __fish_seen_subcommand_from install" -l config -d 'The running server\'s configuration file [default: /etc/galley/galley.toml]' -r -F
complete -c galley -n "__fish_galley_using_subcommand plugin; and __fish_seen_subcommand_from install" -l admin -d 'The running server\'s admin interface: `unix:/path` or `http://address:port`' -r
complete -c galley -n "__fish_galley_using_subcommand plugin; and __fish_seen_subcommand_from install" -l token-file -d 'File with the admin token [default: the configuration\'s]' -r -F
complete -c galley -n "__fish_galley_using_subcommand plugin; and __fish_seen_subcommand_from install" -l site -d 'The configured site of this WordPress, by its name or one of its hosts [default: the site with this root]' -r
complete -c galley -n "__fish_galley_using_subcommand plugin; and __fish_seen_subcommand_from install" -l object-cache -d 'Also install the object cache: wp-content/object-cache.php, unless another plugin has one'
complete -c galley -n "__fish_galley_using_subcommand plugin; and __fish_seen_subcommand_from install" -l json -d 'Print the actions as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand plugin; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help'
complete -c galley -n "__fish_galley_using_subcommand plugin; and __fish_seen_subcommand_from remove" -l json -d 'Print the actions as JSON on stdout'
complete -c galley -n "__fish_galley_using_subcommand plugin; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
