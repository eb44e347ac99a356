//! Access control: networks, passwords, limits, XML-RPC and names, asked from several addresses of the machine.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use galley_testkit::client::{Connection, Request, Response};

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, page_value, with_host,
};

/// Another client than those of other numbers.
fn from(stage: &TestSite, number: u8, request: Request) -> Response {
    let address = Ipv4Addr::new(127, 0, 0, number);
    let mut connection = Connection::from_address(address, stage.addr(), TIMEOUT).unwrap();
    connection.exchange(&with_host(request)).unwrap()
}

fn get_from(stage: &TestSite, number: u8, target: &str) -> Response {
    from(stage, number, Request::get(target))
}

#[track_caller]
fn refused(answer: &Response, status: u16, word: &str) {
    assert_eq!(answer.status, status, "{}", answer.beginning());
    assert_eq!(
        answer.cache_status(),
        format!("galley; detail={word}"),
        "{}",
        answer.beginning()
    );
    assert_eq!(answer.field("cache-control"), Some("no-store"));
}

#[test]
fn networks_decide_before_the_cache_and_files() {
    let stage = SiteBuilder::php()
        .site("allow = [\"127.0.0.2\", \"127.0.0.3\"]\ndeny = [\"127.0.0.3\"]")
        .more(
            "[[site.rule]]\npath = \"/open*\"\nallow = []\n[[site.rule]]\npath = \"/inner*\"\nallow = [\"127.0.0.4\"]\n",
        )
        .file("style.css", "p {}")
        .start();
    stage.head("/page/", &["Cache-Control: max-age=600"]);
    get_from(&stage, 2, "/page/").assert_status(200);
    assert!(get_from(&stage, 2, "/page/").is_hit());
    get_from(&stage, 2, "/style.css").assert_status(200);
    for number in [1, 3] {
        refused(&get_from(&stage, number, "/page/"), 403, "network");
        refused(&get_from(&stage, number, "/style.css"), 403, "network");
        refused(&get_from(&stage, number, "//page/"), 403, "network");
    }
    get_from(&stage, 1, "/open/x").assert_status(200);
    refused(&get_from(&stage, 3, "/open/x"), 403, "network");
    refused(&get_from(&stage, 2, "/inner/x"), 403, "network");
    refused(&get_from(&stage, 2, "//inner/x"), 403, "network");
    get_from(&stage, 4, "/inner/x").assert_status(200);
    stage.access_line("outcome=refused:network");
    let why = |target: &str, address: &str| {
        let url = format!("http://{HOST}{target}");
        let output = stage.galley.cli(&["why", &url, "--from", address]).unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let told = why("/inner/x", "127.0.0.2");
    assert!(told.contains("(refused: network)"), "{told}");
    let by = "`allow` of rule number 2, for `/inner*` does not name 127.0.0.2";
    assert!(told.contains(by), "{told}");
    assert!(
        why("/page/", "127.0.0.2").contains("(hit)"),
        "a hit to who may ask"
    );
}

fn htpasswd(kind: &str, name: &str, password: &str) -> String {
    let mut command = Command::new("htpasswd");
    let output = command
        .args(["-nb", kind, name, password])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// `jane:secret`, `joe:other` and `jane:wrong`, as `printf jane:secret | base64` writes them.
const JANE: &str = "Basic amFuZTpzZWNyZXQ=";
const JOE: &str = "Basic am9lOm90aGVy";
const WRONG: &str = "Basic amFuZTp3cm9uZw==";

#[test]
fn a_password_opens_a_site_and_is_not_shown_to_php() {
    let plan = SiteBuilder::php();
    let lines = [
        htpasswd("-B", "jane", "secret"),
        htpasswd("-m", "joe", "other"),
    ];
    let people = plan.scratch.write("people", lines.join("\n")).unwrap();
    let stage = plan
        .site("basic_auth = \"{dir}/people\"")
        .more("[[site.rule]]\npath = \"/health\"\nbasic_auth = \"off\"\n")
        .file("style.css", "p {}")
        .start();
    stage.head("/page/", &["Cache-Control: public, max-age=600"]);
    let send = |target: &str, value: &str| {
        let request = Request::get(target);
        stage.send(match value {
            "" => request,
            value => request.field("Authorization", value),
        })
    };
    for target in ["/page/", "/style.css"] {
        for value in ["", WRONG, "Basic !!!", "Basic", "Bearer x"] {
            let answer = send(target, value);
            refused(&answer, 401, "password");
            let wanted = "Basic realm=\"restricted\", charset=\"UTF-8\"";
            assert_eq!(answer.field("www-authenticate"), Some(wanted));
        }
    }
    for value in [JANE, JOE] {
        let answer = send("/page/", value);
        answer.assert_status(200);
        assert_eq!(
            answer.cache_status(),
            "galley; fwd=bypass; detail=authorization"
        );
        assert!(
            !answer.text().contains("AUTHORIZATION"),
            "{}",
            answer.text()
        );
        send("/style.css", value).assert_status(200);
    }
    refused(&send("/page/", ""), 401, "password");
    send("/health", "").assert_status(200);
    // One name is taken out: it is known for a minute at most, and a new one at once.
    std::fs::write(people, htpasswd("-s", "joe", "other")).unwrap();
    send("/page/", JOE).assert_status(200);
    let twice = Request::get("/page/")
        .field("Authorization", JANE)
        .field("Authorization", JANE);
    refused(&stage.send(twice), 401, "password");
}

#[test]
fn php_sees_the_password_where_that_is_asked_for() {
    let plan = SiteBuilder::php();
    let line = htpasswd("-B", "jane", "secret");
    plan.scratch.write("people", line).unwrap();
    let stage = plan
        .site("basic_auth = \"{dir}/people\"\nbasic_auth_forward = true")
        .start();
    let answer = stage.send(Request::get("/x").field("Authorization", JANE));
    assert_eq!(page_value(&answer.text(), "HTTP_AUTHORIZATION"), JANE);
}

#[test]
fn comparisons_of_passwords_are_limited_for_each_client() {
    let plan = SiteBuilder::files()
        .file("a.txt", "a")
        .server("limit_exempt = []");
    plan.scratch
        .write("people", htpasswd("-s", "jane", "secret"))
        .unwrap();
    let stage = plan.site("basic_auth = \"{dir}/people\"").start();
    let guess = |number: u8, value: &str| {
        from(
            &stage,
            number,
            Request::get("/a.txt").field("Authorization", value),
        )
    };
    guess(3, JANE).assert_status(200);
    let stopped = (0..60)
        .map(|_| guess(2, WRONG))
        .find(|answer| answer.status != 401);
    refused(&stopped.expect("sixty guesses"), 429, "limited");
    guess(2, JANE).assert_status(429);
    guess(3, JANE).assert_status(200);
}

#[test]
fn a_limit_holds_for_each_client_by_itself() {
    let stage = SiteBuilder::php()
        .server("limit_exempt = [\"127.0.0.9\"]")
        .more(
            "[[site.rule]]\npath = \"/page/\"\nlimit = { rate = \"1/h\", burst = 4 }\n\
             [[site.rule]]\npath = \"/other/\"\nlimit = { rate = \"1/d\" }\n",
        )
        .start();
    stage.head("/page/", &["Cache-Control: max-age=600"]);
    for number in [2, 3] {
        for _ in 0..4 {
            get_from(&stage, number, "/page/").assert_status(200);
        }
        let answer = get_from(&stage, number, "/page/");
        refused(&answer, 429, "limited");
        let wait: u64 = answer.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=3_600).contains(&wait), "{wait}");
        // Another rule is another bucket, and what no rule names has none.
        get_from(&stage, number, "/other/").assert_status(200);
        get_from(&stage, number, "/other/").assert_status(429);
        get_from(&stage, number, "/free/").assert_status(200);
    }
    for _ in 0..10 {
        get_from(&stage, 9, "/page/").assert_status(200);
    }
    assert_eq!(stage.runs("/page/"), 1, "those were hits");
}

#[test]
fn trying_passwords_is_stopped_without_a_line_of_configuration() {
    let stage = SiteBuilder::php()
        .server("limit_exempt = []")
        .file("wp-login.php", TEST_PAGE)
        .file("xmlrpc.php", TEST_PAGE)
        .start();
    let form = [("log", "admin"), ("pwd", "guess")];
    let guess = |number| from(&stage, number, Request::form("/wp-login.php", &form));
    let let_through = (0..40).filter(|_| guess(2).status == 200).count();
    assert!(
        (15..=20).contains(&let_through),
        "{let_through} guesses came through"
    );
    refused(&guess(2), 429, "limited");
    // He may read, and others may log in.
    get_from(&stage, 2, "/wp-login.php").assert_status(200);
    get_from(&stage, 2, "/").assert_status(200);
    guess(3).assert_status(200);
    let call = "<methodCall><methodName>wp.getUsersBlogs</methodName></methodCall>";
    let send = || from(&stage, 4, Request::post("/xmlrpc.php", "text/xml", call));
    let let_through = (0..100).filter(|_| send().status == 200).count();
    assert!(
        (60..=80).contains(&let_through),
        "{let_through} calls came through"
    );
}

#[test]
fn two_methods_of_xmlrpc_are_not_served() {
    let stage = SiteBuilder::php().file("xmlrpc.php", TEST_PAGE).start();
    let call = |name: &str, more: &str| {
        let body = format!(
            "<?xml version=\"1.0\"?>\n<methodCall><methodName>{name}</methodName><params>{more}</params></methodCall>"
        );
        stage.send(Request::post("/xmlrpc.php", "text/xml", body))
    };
    // Long enough to be in a file, with the method of an upload.
    let upload = format!(
        "<param><value><base64>{}</base64></value></param>",
        "A".repeat(300_000)
    );
    for (name, more) in [("wp.getUsersBlogs", ""), ("wp.uploadFile", upload.as_str())] {
        let answer = call(name, more);
        answer.assert_status(200);
        assert!(answer.text().contains(name), "{}", answer.beginning());
    }
    let hidden = format!("{upload}<methodName>system.multicall</methodName>");
    for (name, more) in [
        ("system.multicall", ""),
        ("pingback.ping", ""),
        ("system.multic&#x61;ll", ""),
        ("wp.getUsersBlogs", hidden.as_str()),
    ] {
        let answer = call(name, more);
        refused(&answer, 200, "xmlrpc");
        assert_eq!(
            answer.field("content-type"),
            Some("text/xml; charset=UTF-8")
        );
        assert!(
            answer.text().contains("<int>-32601</int>"),
            "{}",
            answer.text()
        );
    }
    assert_eq!(stage.runs("/xmlrpc.php"), 2);
    for (word, wanted) in [("on", 200), ("off", 403)] {
        let stage = SiteBuilder::php()
            .file("xmlrpc.php", TEST_PAGE)
            .site(&format!("xmlrpc = \"{word}\""))
            .start();
        let call = "<methodCall><methodName>system.multicall</methodName></methodCall>";
        let answer = stage.send(Request::post("/xmlrpc.php", "text/xml", call));
        answer.assert_status(wanted);
        assert_eq!(answer.text().contains("multicall"), wanted == 200);
        stage.get("/xmlrpc.php?rsd").assert_status(wanted);
    }
}

#[test]
fn names_of_users_are_not_disclosed() {
    let stage = SiteBuilder::php()
        .site("hide_authors = true")
        .file("wp-comments-post.php", TEST_PAGE)
        .start();
    stage.head("/", &["Cache-Control: max-age=600"]);
    for target in [
        "/?author=1",
        "/?%61uthor[]=1",
        "/wp-json/wp/v2/users",
        "/?rest_route=/wp/v2/users/1",
    ] {
        refused(&stage.get(target), 403, "authors");
    }
    let form = [("author", "1")];
    refused(&stage.send(Request::form("/", &form)), 403, "authors");
    stage
        .send(Request::form("/wp-comments-post.php", &form))
        .assert_status(200);
    stage
        .send(Request::form("/", &[("s", "author")]))
        .assert_status(200);
    stage.get("/author/jane/").assert_status(200);
    stage.get("/").assert_status(200);
    assert!(stage.get("/").is_hit());
}

#[test]
fn purge_requests_need_no_password() {
    let plan = SiteBuilder::php();
    plan.scratch
        .write("people", htpasswd("-s", "jane", "secret"))
        .unwrap();
    let stage = plan.site("basic_auth = \"{dir}/people\"").start();
    stage
        .send(Request::new("PURGE", "/page/"))
        .assert_status(200);
    refused(
        &from(&stage, 2, Request::new("PURGE", "/page/")),
        401,
        "password",
    );
}

/// What comes until the connection ends or nothing has come for a while.
fn what_comes(stage: &TestSite, number: u8, head: &str) -> String {
    let address = Ipv4Addr::new(127, 0, 0, number);
    let mut connection = Connection::from_address(address, stage.addr(), TIMEOUT).unwrap();
    connection.write(head.as_bytes()).unwrap();
    let mut stream = connection.stream();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut bytes = vec![0; 4096];
    let count = stream.read(&mut bytes).unwrap();
    let _ = stream.flush();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn a_refusal_comes_before_the_body_is_sent() {
    let stage = SiteBuilder::php().site("deny = [\"127.0.0.2\"]").start();
    let head = |length: u64, more: &str| {
        format!("POST /f HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n{more}\r\n")
    };
    // 32 MiB is the limit without a line of configuration. No byte of a body is sent here.
    let too_long = 32 * 1024 * 1024 + 1;
    for more in ["", "Expect: 100-continue\r\n"] {
        let answer = what_comes(&stage, 1, &head(too_long, more));
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        let answer = what_comes(&stage, 2, &head(1_000, more));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }
    let answer = what_comes(&stage, 1, &head(too_long - 1, "Expect: 100-continue\r\n"));
    assert!(answer.starts_with("HTTP/1.1 100 "), "{answer}");
    assert_eq!(stage.runs("/f"), 0);
}

#[test]
fn one_client_has_so_many_connections_and_others_have_theirs() {
    let stage = SiteBuilder::files()
        .server(
            "connections_per_address = 5\nlimit_exempt = [\"127.0.0.1\"]\nidle_timeout = \"1h\"",
        )
        .file("a.txt", "a")
        .start();
    let connect = |number| {
        Connection::from_address(Ipv4Addr::new(127, 0, 0, number), stage.addr(), TIMEOUT).unwrap()
    };
    let works = |connection: &mut Connection| {
        let answer = connection.exchange(&with_host(Request::get("/a.txt")));
        answer.is_ok_and(|answer| answer.status == 200)
    };
    let mut held: Vec<Connection> = (0..5).map(|_| connect(2)).collect();
    assert!(held.iter_mut().all(works));
    assert!(!works(&mut connect(2)) && !works(&mut connect(2)));
    assert!(works(&mut connect(3)));
    let many: Vec<Connection> = (0..20).map(|_| connect(1)).collect();
    assert!(many.into_iter().all(|mut one| works(&mut one)));
    held.truncate(2);
    galley_testkit::wait_for("a place for one more", Duration::from_secs(15), || {
        works(&mut connect(2))
    });
}

/// The database of the tests has 127.0.0.2 in Austria, and other addresses of the machine nowhere.
#[test]
fn countries_decide_before_the_cache() {
    let database = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/countries.mmdb");
    let stage = SiteBuilder::php()
        .server(&format!("geoip = \"{database}\""))
        .log("format = \"json\"\nfields = [\"country\", \"target\", \"status\"]")
        .more(
            "[[site.rule]]\npath = \"/inner*\"\nallow_countries = [\"AT\", \"de\"]\n\
             [[site.rule]]\npath = \"/abroad*\"\ndeny_countries = [\"AT\"]\n",
        )
        .start();
    for (number, target, is_hit) in [
        (2, "/inner/", Some(false)),
        (3, "/inner/", None),
        (2, "/inner/", Some(true)),
        (2, "/abroad/", None),
        (3, "/abroad/", Some(false)),
        (2, "/abroad/", None),
        (3, "/abroad/", Some(true)),
        (2, "/", Some(false)),
        (3, "/", Some(true)),
    ] {
        let answer = get_from(&stage, number, target);
        match is_hit {
            None => refused(&answer, 403, "network"),
            Some(is_hit) => {
                assert_eq!(answer.status, 200, "{target} from {number}");
                let status = answer.cache_status();
                assert_eq!(
                    status.starts_with("galley; hit"),
                    is_hit,
                    "{target}: {status}"
                );
            }
        }
    }
    assert_eq!((stage.runs("/inner/"), stage.runs("/abroad/")), (1, 1));
    let url = format!("http://{HOST}/abroad/");
    let why = stage
        .galley
        .cli(&["why", &url, "--from", "127.0.0.2"])
        .unwrap();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("`deny_countries` of rule number 2"), "{why}");
    galley_testkit::wait_for("the records", TIMEOUT, || {
        stage.access().lines().count() >= 9
    });
    let log = stage.access();
    let ending = |line: &str| {
        line.split_once(',')
            .map(|(_, rest)| rest.to_owned())
            .unwrap()
    };
    let lines: Vec<String> = log.lines().map(ending).collect();
    let austria = "\"country\":\"AT\",\"target\":\"/abroad/\",\"status\":403}";
    assert_eq!(
        lines.iter().filter(|line| *line == austria).count(),
        2,
        "{log}"
    );
    let nowhere = "\"country\":null,\"target\":\"/inner/\",\"status\":403}";
    assert_eq!(
        lines.iter().filter(|line| *line == nowhere).count(),
        1,
        "{log}"
    );
}

/// 127.0.0.2 is in Austria, 127.0.0.3 nowhere.
#[test]
fn a_rule_applies_to_clients_of_its_countries_and_pages_do_not_mix() {
    let database = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/countries.mmdb");
    let stage = SiteBuilder::php()
        .server(&format!("geoip = \"{database}\""))
        .more(
            "[[site.rule]]\npath = \"/gift*\"\ncountries = [\"AT\"]\nredirect = \"/geschenk\"\nredirect_status = 302\n\
             [[site.rule]]\npath = \"/price*\"\ncountries = [\"AT\", \"DE\"]\nset_headers = [\"X-Currency: EUR\"]\n\
             [[site.rule]]\npath = \"/fresh*\"\ncountries = [\"AT\"]\ncache = false\n\
             [[site.rule]]\npath = \"/fresh*\"\nset_headers = [\"X-Currency: USD\"]\n",
        )
        .start();
    let redirected = get_from(&stage, 2, "/gift/");
    assert_eq!(redirected.status, 302);
    let location = redirected.field("location").unwrap();
    assert!(location.ends_with("/geschenk"), "{location}");
    get_from(&stage, 3, "/gift/").assert_status(200);
    // Each rule has its copy, and a purge reaches both.
    for round in 0..2 {
        for is_hit in [false, true] {
            for (number, currency) in [(2, Some("EUR")), (3, None)] {
                let answer = get_from(&stage, number, "/price/");
                answer.assert_status(200);
                assert_eq!(answer.is_hit(), is_hit, "{}", answer.cache_status());
                assert_eq!(answer.field("x-currency"), currency, "{round}");
            }
        }
        stage.purge(&["--url", &format!("http://{HOST}/price/")]);
    }
    assert_eq!(stage.runs("/price/"), 4);
    for _ in 0..2 {
        let answer = get_from(&stage, 2, "/fresh/");
        assert!(!answer.is_hit() && answer.field("x-currency").is_none());
        assert_eq!(
            get_from(&stage, 3, "/fresh/").field("x-currency"),
            Some("USD")
        );
    }
    assert!(get_from(&stage, 3, "/fresh/").is_hit());
    assert_eq!(stage.runs("/fresh/"), 3);
    let url = format!("http://{HOST}/price/");
    for (from, rule) in [
        ("127.0.0.2", "for clients from AT, DE"),
        ("127.0.0.3", "none applies"),
    ] {
        let why = stage.galley.cli(&["why", &url, "--from", from]).unwrap();
        let why = String::from_utf8(why.stdout).unwrap();
        assert!(why.contains(rule), "{from}: {why}");
    }
}
