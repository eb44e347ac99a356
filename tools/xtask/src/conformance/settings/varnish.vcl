vcl 4.1;

backend default {
    .host = "127.0.0.1";
    .port = "{origin_port}";
}

# As the built-in VCL, but requests with cookies are looked up too, because the RFC has no rule for cookies.
sub vcl_recv {
    if (req.http.Cookie && (req.method == "GET" || req.method == "HEAD") && !req.http.Authorization) {
        return (hash);
    }
}

sub vcl_backend_response {
    if (beresp.http.Set-Cookie && beresp.ttl > 0s && beresp.http.Cache-Control !~ "(?i)no-cache|no-store|private"
        && beresp.http.Vary != "*") {
        return (deliver);
    }
}
