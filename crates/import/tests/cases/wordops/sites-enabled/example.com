server {
    server_name example.com www.example.com;
    access_log /var/log/nginx/example.com.access.log rt_cache;
    error_log /var/log/nginx/example.com.error.log;
    root /var/www/example.com/htdocs;
    index index.php index.html;
    listen 443 ssl http2;
    listen [::]:443 ssl http2;
    ssl_certificate /etc/letsencrypt/live/example.com/fullchain.pem;
    ssl_certificate_key /etc/letsencrypt/live/example.com/key.pem;
    add_header Strict-Transport-Security "max-age=31536000; includeSubDomains; preload" always;
    set $skip_cache 0;
    if ($request_method = POST) { set $skip_cache 1; }
    if ($query_string != "") { set $skip_cache 1; }
    if ($request_uri ~* "(/wp-admin/|/xmlrpc.php|wp-.*.php|index.php|/feed/|sitemap(_index)?.xml|/cart/|/checkout/|/my-account/)") {
        set $skip_cache 1;
    }
    if ($http_cookie ~* "comment_author|wordpress_[a-f0-9]+|wp-postpass|wordpress_no_cache|wordpress_logged_in|edd_cart") {
        set $skip_cache 1;
    }
    location / {
        try_files $uri $uri/ /index.php$is_args$args;
    }
    location ~ \.php$ {
        try_files $uri =404;
        include fastcgi_params;
        fastcgi_pass php82;
        fastcgi_cache_bypass $skip_cache;
        fastcgi_no_cache $skip_cache;
        fastcgi_cache WORDPRESS;
        add_header X-fastcgi-cache $upstream_cache_status;
    }
    location ~ /purge(/.*) {
        fastcgi_cache_purge WORDPRESS "$scheme$request_method$host$1";
        access_log off;
    }
    location = /wp-login.php {
        limit_req zone=one burst=1 nodelay;
        include fastcgi_params;
        fastcgi_pass php82;
    }
    location = /favicon.ico { access_log off; log_not_found off; expires max; }
    location = /robots.txt { try_files $uri $uri/ /index.php?$args @robots; access_log off; log_not_found off; }
    location @robots { return 200 "User-agent: *\n"; }
    location ~* \.(ogg|mp4|css|js|svg|eot|otf|woff2|ttf|jpg|jpeg|gif|png|webp|ico)$ {
        expires max;
        access_log off;
        log_not_found off;
        add_header Cache-Control "public, no-transform";
    }
    location ~* /wp-content/uploads/.*\.php$ { deny all; }
    location ~* \.(bak|log|sql|old)$ { deny all; }
    location ~ /\.(?!well-known\/) { deny all; }
    location ^~ /.well-known/acme-challenge/ { root /var/www/html; }
    location = /xmlrpc.php { deny all; }
    location ~* ^/wp-content/.+\.(png|jpe?g)$ {
        add_header Vary Accept;
        try_files $uri$picture_ending $uri =404;
    }
    location ~* \.(webp|avif)$ { add_header Vary Accept; }
}
server {
    listen 80;
    listen [::]:80;
    server_name example.com www.example.com;
    return 301 https://$host$request_uri;
}
