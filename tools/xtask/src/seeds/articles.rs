//! The five articles: facts from their texts.

use super::article::{
    AbLine, ApachePlan, Article, Page, Php, Probe, Problem, Published, Role, StackPlan, Tier,
};

/// All articles in the order of their numbers.
pub(super) const ARTICLES: &[Article] = &[
    APACHE_AND_NGINX,
    PROXY_CACHE,
    PHP_FPM,
    VARNISH_AND_NGINX,
    CENTOS,
];

const GALLEY: StackPlan = StackPlan {
    title: "Galley",
    role: Role::Galley,
    php: Php::Fpm,
    tiers: &[Tier::Galley],
};

/// The default settings of the prefork module in Debian and Ubuntu.
const STOCK_APACHE: ApachePlan = ApachePlan {
    children: 150,
    keep_alive_timeout_s: 5,
    directives: "StartServers 5\nMinSpareServers 5\nMaxSpareServers 10\n",
};

const APACHE_AND_NGINX: Article = Article {
    number: 1,
    name: "nginx-apache",
    title: "nginx with `proxy_cache` in front of Apache, for WordPress",
    about: "*A simplified Nginx-Apache combo with Wordpress support*: a cloud server with four cores and 256 MB, Ubuntu 10.04, nginx 0.7.67. \
            The article compares Apache, Varnish and nginx with a script, and then measures WordPress behind nginx. Its text gives the factors 3.46 for nginx \
            and 2.48 for Varnish; its own figures give 3.13 and 2.19.",
    departs: "The VCL is that of article 4, because this text has none. nginx 0.7 also bypassed the cache with `proxy_no_cache`; current nginx only \
              stops storing, and needs `proxy_cache_bypass` in addition. The article's second tier of load balancers is left out, as is its memcached.",
    stacks: &[
        StackPlan {
            title: "Apache",
            role: Role::Original,
            php: Php::Apache(STOCK_APACHE),
            tiers: &[],
        },
        StackPlan {
            title: "Varnish + Apache",
            role: Role::Intermediate,
            php: Php::Apache(STOCK_APACHE),
            tiers: &[Tier::Varnish { vcl: VARNISH }],
        },
        StackPlan {
            title: "nginx + Apache",
            role: Role::Final,
            php: Php::Apache(STOCK_APACHE),
            tiers: &[Tier::Nginx {
                files: &[(
                    "nginx.conf",
                    include_str!("../../../../bench/contenders/nginx-recipe1.conf"),
                )],
                placeholders: &[("workers", "4")],
            }],
        },
        GALLEY,
    ],
    lines: &[
        AbLine {
            title: "A script that prints Hello World",
            page: Page::Hello,
            arguments: &["-c", "100", "-n", "100000"],
            original_stack_arguments: None,
            slices: 10,
            parts: 10,
            published: &[
                published(Role::Original, 3384.27),
                published(Role::Intermediate, 7413.64),
                published(Role::Final, 10595.55),
            ],
        },
        AbLine {
            title: "The home page of WordPress",
            page: Page::Home,
            arguments: &["-k", "-c", "100", "-n", "50000"],
            original_stack_arguments: Some(&["-k", "-c", "100", "-n", "200"]),
            slices: 10,
            parts: 10,
            published: &[published(Role::Final, 7469.02)],
        },
    ],
    problems: &[
        problem(
            Probe::Memory(256),
            "The server fits into its 256 MB under load; Apache's children were killed for lack of memory",
        ),
        problem(
            Probe::Mobile,
            "Phones receive the mobile edition and desktops the other, also if the other kind visited first",
        ),
        problem(
            Probe::Login,
            "The login works: the cookies of its redirect pass the cache",
        ),
        problem(
            Probe::LoggedIn,
            "Logged-in users see their own page, and no other visitor sees it",
        ),
        problem(
            Probe::Commenter,
            "A page with a commenter's name in the form is sent only to that commenter",
        ),
        problem(
            Probe::Pictures,
            "Pictures come from the front server, not from Apache",
        ),
        problem(
            Probe::Connections,
            "1,200 concurrent connections, with a soft limit of 1,024 descriptors; Varnish crashed above 1,000",
        ),
        problem(Probe::HiddenFile, "`.htaccess` is not sent"),
        problem(
            Probe::PhpOutage,
            "Stored pages are served while Apache or PHP is down",
        ),
    ],
};

const PROXY_CACHE: Article = Article {
    number: 2,
    name: "proxy-cache",
    title: "The shortest `proxy_cache` in front of Apache",
    about: "*nginx, proxy_cache and reverse proxying explained & benchmarked*, 7 February 2010: a server with one virtual core and 256 MB, nginx 0.7.65. \
            Apache alone failed at 50 simultaneous requests, so the article has no figure for it.",
    departs: "The published rate includes a network between client and server; only the ratio to Galley is meaningful here.",
    stacks: &[
        StackPlan {
            title: "Apache",
            role: Role::Original,
            php: Php::Apache(STOCK_APACHE),
            tiers: &[],
        },
        StackPlan {
            title: "nginx + Apache",
            role: Role::Final,
            php: Php::Apache(STOCK_APACHE),
            tiers: &[Tier::Nginx {
                files: &[(
                    "nginx.conf",
                    include_str!("../../../../bench/contenders/nginx-recipe2.conf"),
                )],
                placeholders: &[("workers", "1")],
            }],
        },
        GALLEY,
    ],
    lines: &[AbLine {
        title: "The home page of WordPress",
        page: Page::Home,
        arguments: &["-c", "200", "-n", "10000"],
        original_stack_arguments: Some(&["-c", "200", "-n", "400"]),
        slices: 5,
        parts: 5,
        published: &[published(Role::Final, 107.10)],
    }],
    problems: &[
        problem(
            Probe::Load,
            "200 simultaneous requests without a failure; Apache failed at 50",
        ),
        problem(
            Probe::Memory(256),
            "The server fits into its 256 MB under load",
        ),
        problem(Probe::CacheControl, "`Cache-Control` of a page is honored"),
        problem(
            Probe::Pictures,
            "Pictures and files come from the front server, not from Apache",
        ),
    ],
};

const PHP_FPM: Article = Article {
    number: 3,
    name: "php-fpm",
    title: "nginx and PHP-FPM in 256 MB",
    about: "A text about nginx on Fedora 14 in a virtual machine of 256 MB: a file of 13 bytes, and a PHP script over FastCGI, before and after tuning.",
    departs: "Most of the published gain came from disabling connection tracking in the kernel, which is a setting of the machine; here only nginx changes. \
              PHP-FPM has Debian's five workers, because the text gives no number. The article's Perl scripts with fcgiwrap (184 to 1,223 requests a second) are left out.",
    stacks: &[
        StackPlan {
            title: "nginx, default + PHP-FPM",
            role: Role::Original,
            php: Php::Fpm,
            tiers: &[Tier::Nginx {
                files: &[("nginx.conf", include_str!("settings/nginx-fpm.conf"))],
                placeholders: &[
                    ("main", "worker_processes 1;"),
                    ("events", "worker_connections 1024;"),
                ],
            }],
        },
        StackPlan {
            title: "nginx, tuned + PHP-FPM",
            role: Role::Final,
            php: Php::Fpm,
            tiers: &[Tier::Nginx {
                files: &[("nginx.conf", include_str!("settings/nginx-fpm.conf"))],
                placeholders: &[
                    ("main", "worker_processes 4;\nworker_rlimit_nofile 32768;"),
                    ("events", "worker_connections 8192;\n    use epoll;"),
                ],
            }],
        },
        GALLEY,
    ],
    lines: &[
        AbLine {
            title: "A file of 13 bytes",
            page: Page::Thirteen,
            arguments: &["-c", "100", "-n", "50000"],
            original_stack_arguments: None,
            slices: 10,
            parts: 10,
            published: &[
                published(Role::Original, 6362.94),
                published(Role::Final, 24265.55),
            ],
        },
        AbLine {
            title: "A PHP script, run for each request",
            page: Page::Script,
            arguments: &["-c", "100", "-n", "50000"],
            original_stack_arguments: None,
            slices: 10,
            parts: 10,
            published: &[
                published(Role::Original, 1444.93),
                published(Role::Final, 3671.92),
            ],
        },
    ],
    problems: &[
        problem(
            Probe::Load,
            "50,000 requests to PHP without a failure; at first, every stack stopped after 15,630",
        ),
        problem(
            Probe::Memory(256),
            "The server fits into its 256 MB under load",
        ),
        problem(
            Probe::Connections,
            "1,200 concurrent connections, with a soft limit of 1,024 descriptors",
        ),
    ],
};

const VARNISH_AND_NGINX: Article = Article {
    number: 4,
    name: "varnish-nginx",
    title: "Varnish in front of nginx and PHP-FPM, with purges",
    about: "*Configuration Varnish+Nginx pour WordPress*, 11 September 2011: a dedicated server with Debian Squeeze; its configuration is at \
            [github.com/nicolargo/varnish-nginx-wordpress](https://github.com/nicolargo/varnish-nginx-wordpress). WordPress purges with the plugin *Varnish HTTP Purge*, \
            today *Proxy Cache Purge*.",
    departs: "The VCL was rewritten for Varnish 7 from that configuration. Purges have the form of Proxy Cache Purge, for the URLs that a model of the plugin returns; \
              since WordPress 5.7 these do not include the URL of a deleted post. \
              The variants with W3 Total Cache are left out; the article found no gain over Varnish alone (8,018 requests a second). The rush takes 20 seconds instead of 60.",
    stacks: &[
        StackPlan {
            title: "nginx + PHP-FPM",
            role: Role::Original,
            php: Php::Fpm,
            tiers: &[NGINX_FPM],
        },
        StackPlan {
            title: "Varnish + nginx + PHP-FPM",
            role: Role::Final,
            php: Php::Fpm,
            tiers: &[NGINX_FPM, Tier::Varnish { vcl: VARNISH }],
        },
        GALLEY,
    ],
    lines: &[AbLine {
        title: "A post with pictures",
        page: Page::Post,
        arguments: &["-c", "5", "-t", "30"],
        original_stack_arguments: None,
        slices: 10,
        parts: 10,
        published: &[
            published(Role::Original, 20.45),
            published(Role::Final, 8001.76),
        ],
    }],
    problems: &[
        problem(
            Probe::Purge,
            "The first visitor after an edit sees it: a post edited and deleted, a comment added, edited and deleted",
        ),
        problem(
            Probe::RisingLoad,
            "A load that rises from 1 to 250 visitors a second: no visitor waits five seconds; with nginx alone, visitors did from 120 on",
        ),
        problem(
            Probe::Pictures,
            "Pictures come from memory or from the front server, not from PHP's server",
        ),
        problem(Probe::Login, "The login works"),
    ],
};

const CENTOS: Article = Article {
    number: 5,
    name: "centos",
    title: "nginx as the cache of an Apache that others maintain",
    about: "A text in Japanese about CentOS 6 with one core and 2 GB: Apache with mod_php in 20 children, in front of it nginx from nginx.org, which stores pages for one minute.",
    departs: "CentOS 6 has KeepAlive off in Apache. The original stack is measured with the article's command line for Apache alone, with 100 requests.",
    stacks: &[
        StackPlan {
            title: "Apache",
            role: Role::Original,
            php: Php::Apache(ApachePlan {
                children: 256,
                keep_alive_timeout_s: 15,
                directives: "KeepAlive Off\nStartServers 8\nMinSpareServers 5\nMaxSpareServers 20\nMaxConnectionsPerChild 4000\n",
            }),
            tiers: &[],
        },
        StackPlan {
            title: "nginx + Apache",
            role: Role::Final,
            php: Php::Apache(ApachePlan {
                children: 20,
                keep_alive_timeout_s: 15,
                directives: "KeepAlive Off\nStartServers 20\nMinSpareServers 20\nMaxSpareServers 20\nMaxConnectionsPerChild 500\nMaxMemFree 1024\n",
            }),
            tiers: &[Tier::Nginx {
                files: &[
                    (
                        "nginx.conf",
                        include_str!("../../../../bench/contenders/nginx-recipe5.conf"),
                    ),
                    (
                        "admin.conf",
                        include_str!("../../../../bench/contenders/nginx-recipe5-admin.conf"),
                    ),
                ],
                placeholders: &[("workers", "1")],
            }],
        },
        GALLEY,
    ],
    lines: &[AbLine {
        title: "The home page of WordPress",
        page: Page::Home,
        arguments: &["-k", "-c", "4000", "-n", "100000", "-s", "3600"],
        original_stack_arguments: Some(&["-k", "-c", "100", "-n", "100", "-s", "3600"]),
        // Each slice has all requests, because most of the cost of 4,000 connections is that of opening them.
        slices: 3,
        parts: 1,
        published: &[
            published(Role::Original, 0.47),
            published(Role::Final, 8137.53),
        ],
    }],
    problems: &[
        problem(
            Probe::Load,
            "4,000 connections without a failed request; the site could not be reached under load",
        ),
        problem(
            Probe::Memory(2048),
            "The server fits into its 2 GB under load",
        ),
        problem(Probe::Login, "The login works"),
        problem(
            Probe::LoggedIn,
            "Logged-in users see their own page, and no other visitor sees it",
        ),
        problem(
            Probe::Commenter,
            "Forms with one visitor's input are not sent to others",
        ),
        problem(
            Probe::Pictures,
            "Pictures and files come from the front server, not from Apache",
        ),
        problem(
            Probe::Stampede,
            "PHP generates a page once if many visitors request it while it is not stored",
        ),
        problem(
            Probe::Purge,
            "The first visitor after an edit sees it (left open in the article)",
        ),
        problem(
            Probe::Scheduled,
            "A scheduled post appears within a minute of its time",
        ),
        problem(
            Probe::PhpOutage,
            "Stored pages are served while Apache or PHP is down",
        ),
    ],
};

const NGINX_FPM: Tier = Tier::Nginx {
    files: &[(
        "nginx.conf",
        include_str!("../../../../bench/contenders/nginx-fpm.conf"),
    )],
    placeholders: &[],
};

const VARNISH: &str = include_str!("../../../../bench/contenders/varnish-recipe4.vcl");

const fn published(role: Role, per_second: f64) -> Published {
    Published { role, per_second }
}

const fn problem(probe: Probe, requirement: &'static str) -> Problem {
    Problem { probe, requirement }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(article: &Article, role: Role) -> bool {
        article.stacks.iter().any(|stack| stack.role == role)
    }

    #[test]
    fn every_article_has_an_original_a_final_and_a_galley_stack() {
        for (at, article) in ARTICLES.iter().enumerate() {
            assert_eq!(article.number, at + 1);
            for role in [Role::Original, Role::Final, Role::Galley] {
                assert!(has(article, role), "{}: {role:?}", article.name);
            }
            for line in article.lines {
                let mut published = line.published.iter();
                assert!(published.any(|one| one.role == Role::Final));
                for one in line.published {
                    assert!(has(article, one.role), "{}", line.title);
                }
            }
            assert!(!article.problems.is_empty());
        }
    }
}
