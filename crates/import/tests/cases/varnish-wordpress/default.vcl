vcl 4.1;
import std;
backend default {
    .host = "127.0.0.1";
    .port = "8080";
    .connect_timeout = 5s;
    .first_byte_timeout = 300s;
    .between_bytes_timeout = 300s;
    .max_connections = 50;
}
acl purge {
    "localhost";
    "127.0.0.1";
    "192.168.1.0"/24;
}
acl editors {
    "10.9.0.0"/16;
}
sub vcl_recv {
    set req.http.Host = regsub(req.http.Host, ":[0-9]+", "");
    unset req.http.proxy;
    if (req.method == "PURGE") {
        if (!client.ip ~ purge) {
            return (synth(405, "Not allowed."));
        }
        return (purge);
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.url ~ "^/xmlrpc\.php" || req.url ~ "\.(sql|bak)$") {
        return (synth(403, "Forbidden"));
    }
    if (req.url ~ "^/wp-admin" && client.ip !~ editors) {
        return (synth(403, "Forbidden"));
    }
    if (req.url ~ "^/old/") {
        return (synth(750, "/new/"));
    }
    if (req.http.Authorization) { return (pass); }
    if (req.url ~ "/wp-(login|admin)" || req.url ~ "preview=true" || req.url ~ "^/members/") {
        return (pass);
    }
    if (req.http.Cookie ~ "wordpress_logged_in_|comment_author|wp-postpass") {
        return (pass);
    }
    if (req.http.Cookie ~ "my_shop") { return (pass); }
    if (req.url ~ "\?(utm_source|gclid)=") {
        set req.url = regsuball(req.url, "(utm_source|gclid)=[^&]+&?", "");
    }
    if (req.url ~ "\.(css|js|png)$") {
        unset req.http.Cookie;
        return (hash);
    }
    unset req.http.Cookie;
    return (hash);
}
sub vcl_backend_response {
    set beresp.ttl = 1h;
    set beresp.grace = 6h;
    if (bereq.url ~ "\.(css|js)$") { unset beresp.http.set-cookie; set beresp.ttl = 365d; }
    set beresp.do_esi = true;
    set beresp.http.X-Content-Type-Options = "nosniff";
    if (bereq.url ~ "^/fonts/") { set beresp.http.Access-Control-Allow-Origin = "*"; }
    if (beresp.status >= 500) { return (abandon); }
}
sub vcl_deliver {
    if (obj.hits > 0) { set resp.http.X-Cache = "HIT"; } else { set resp.http.X-Cache = "MISS"; }
    unset resp.http.X-Powered-By;
    unset resp.http.X-Internal;
    set resp.http.Cache-Control = "no-cache";
    set resp.http.X-Request = req.xid;
    set resp.http.X-Frame-Options = "SAMEORIGIN";
}
