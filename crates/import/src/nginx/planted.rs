//! Wrong translations of a server of nginx.

use super::*;
use crate::draft::Value;
use crate::planted::PlantedServer;

const SERVER: PlantedServer = PlantedServer {
    convert: |source, main, report, change| convert_with(source, main, report, change),
    text: TEXT,
};

#[test]
fn planted_wrong_translations_lose_their_labels() {
    let planted = SERVER.rules_lose_labels();
    assert!(planted >= 50, "only {planted}");
}

#[test]
fn planted_wrong_options_of_the_site_lose_their_labels() {
    SERVER.options_lose_labels(&[
        ("set_headers", Value::List(vec!["X-Site: other".to_owned()])),
        ("set_headers", Value::List(Vec::new())),
        ("deny", Value::List(vec!["203.0.113.0/24".to_owned()])),
        ("allow", Value::List(vec!["192.0.2.0/24".to_owned()])),
        ("php", Value::Text("127.0.0.1:1".to_owned())),
        ("canonical_host", Value::Text("b.test".to_owned())),
        ("https_redirect", Value::Flag(true)),
        ("basic_auth", Value::Text("/etc/x".to_owned())),
        ("internal", Value::List(vec!["/hello".to_owned()])),
    ]);
}

/// A server in which each rule decides about some request.
const TEXT: &str = "server {
listen 80;
server_name a.test;
root /srv/a;
index index.php index.html;
add_header X-Site one;
if ($uri ~ ^/forbidden/) {
return 403;
}
rewrite ^/moved/(.*)$ /new/$1 permanent;
rewrite ^/gone/([a-z]+)$ https://b.test/$1 redirect;
location / {
try_files $uri $uri/ /index.php?$args;
}
location ~ \\.php$ {
fastcgi_pass 127.0.0.1:9000;
}
location = /exact.txt {
deny all;
}
location /private/ {
deny all;
}
location ^~ /office/ {
allow 192.0.2.0/24;
deny all;
}
location /blocked/ {
deny 192.0.2.7;
}
location ^~ /members/ {
auth_basic x;
auth_basic_user_file /etc/pw;
}
location ~* \\.(sql|bak)$ {
deny all;
}
location /old/ {
return 301 /new/;
}
location ~ ^/year/([0-9]+)/$ {
return 302 https://b.test/$1;
}
location /api/ {
proxy_set_header Host $host;
proxy_pass http://127.0.0.1:3000;
}
location ~ \\.(css|js)$ {
expires 30d;
add_header X-Site one;
}
location /fields/ {
add_header X-Site one;
add_header X-A one;
}
}
";
