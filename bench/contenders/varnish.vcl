# Varnish as its documentation recommends for WordPress: it removes cookies that are not those of a session, and tracking parameters, and
# stores text compressed. Idle connections have the same timeout as in other servers. It logs only to shared memory; a log file would need a
# second program.
vcl 4.1;

backend default {
    .host = "127.0.0.1";
    .port = "{{apache_port}}";
}

backend slow {
    .host = "127.0.0.1";
    .port = "{{slow_port}}";
}

acl purge {
    "127.0.0.0"/8;
}

sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ purge) {
            return (synth(405));
        }
        return (purge);
    }
    if (req.url ~ "^/slow/") {
        set req.backend_hint = slow;
    }
    if (req.url ~ "[?&](utm_[a-z]+|gclid|fbclid)=") {
        set req.url = regsuball(req.url, "(utm_[a-z]+|gclid|fbclid)=[^&]*&?", "");
        set req.url = regsub(req.url, "[?&]$", "");
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.http.Authorization || req.url ~ "/wp-(login|admin)" || req.http.Cookie ~ "wordpress_|wp-postpass|comment_") {
        return (pass);
    }
    unset req.http.Cookie;
    return (hash);
}

sub vcl_backend_response {
    if (beresp.http.Content-Type ~ "text|javascript|json|xml") {
        set beresp.do_gzip = true;
    }
}
