//! Access control with a real WordPress: what visitors need stays open where the administration is closed, and passwords are
//! not tried without end.

use std::net::Ipv4Addr;

use galley_testkit::client::{Connection, Request, Response};

use super::stack::{GUARDED, Stack, TIMEOUT, assert_no_text, assert_text};
use crate::support::AssertStatus;

both! {
    a_protected_post_opens_where_the_administration_is_closed,
    passwords_are_not_tried_without_end,
    two_methods_of_xmlrpc_are_refused_and_others_served,
}

/// Another client than the one that the other tests are.
fn from(stack: &Stack, number: u8, request: Request) -> Response {
    let address = Ipv4Addr::new(127, 0, 0, number);
    let mut connection = Connection::from_address(address, stack.addr(), TIMEOUT).unwrap();
    connection.exchange(&stack.named(request)).unwrap()
}

fn a_protected_post_opens_where_the_administration_is_closed(stack: &Stack) {
    stack.php(
        "echo wp_insert_post(['post_name' => 'guarded', 'post_title' => 'guarded', 'post_content' => 'The secret text.', \
         'post_password' => 'sesame', 'post_status' => 'publish', 'post_author' => 1]);",
    );
    let send = |request: Request| from(stack, 2, request.host(GUARDED));
    for target in [
        "/wp-login.php",
        "/wp-admin/",
        "/wp-admin/users.php",
        "/wp-login.php?action=lostpassword",
    ] {
        send(Request::get(target)).assert_status(403);
    }
    // Administrators come from elsewhere.
    from(stack, 1, Request::get("/wp-login.php").host(GUARDED)).assert_status(200);

    let page = send(Request::get("/guarded/")).expect_status(200);
    assert_text(&page, "action=postpass");
    assert_no_text(&page, "The secret text.");
    let form = |more: &[(&str, &str)]| {
        let fields = [&[("post_password", "sesame"), ("Submit", "Enter")], more].concat();
        let referer = format!("http://{GUARDED}/guarded/");
        send(Request::form("/wp-login.php?action=postpass", &fields).field("Referer", referer))
    };
    let answer = form(&[]).expect_status(302);
    let cookies = answer.all("set-cookie");
    let cookie = cookies.iter().find(|line| line.starts_with("wp-postpass_"));
    let cookie = cookie.unwrap().split(';').next().unwrap();
    let page = send(Request::get("/guarded/").cookie(cookie)).expect_status(200);
    assert_text(&page, "The secret text.");
    assert_no_text(&send(Request::get("/guarded/")), "The secret text.");

    // In PHP the body's action wins over that of the address: this would log in.
    let password = stack.wordpress.password.as_str();
    let login = [
        ("action", "login"),
        ("log", "editor"),
        ("pwd", password),
        ("testcookie", "1"),
    ];
    let answer = form(&login).expect_status(403);
    assert!(
        answer.all("set-cookie").is_empty(),
        "{}",
        answer.beginning()
    );

    send(Request::get("/wp-admin/css/login.min.css")).assert_status(200);
    let ajax = send(Request::get("/wp-admin/admin-ajax.php?action=nobody"));
    assert_eq!(
        (ajax.status, ajax.text().as_str()),
        (400, "0"),
        "{}",
        ajax.beginning()
    );
}

fn passwords_are_not_tried_without_end(stack: &Stack) {
    let guess = |number: u8| {
        let fields = [("log", "editor"), ("pwd", "guess"), ("testcookie", "1")];
        from(stack, number, Request::form("/wp-login.php", &fields))
    };
    let stopped = (0..40)
        .map(|_| guess(5))
        .find(|answer| answer.status != 200);
    let stopped = stopped
        .expect("forty guesses came through")
        .expect_status(429);
    assert_eq!(stopped.cache_status(), "galley; detail=limited");
    assert!(stopped.has("retry-after"));
    from(stack, 5, Request::get("/wp-login.php")).assert_status(200);
    guess(6).assert_status(200);
}

fn two_methods_of_xmlrpc_are_refused_and_others_served(stack: &Stack) {
    let call = |name: &str, params: &str| {
        let body = format!(
            "<?xml version=\"1.0\"?><methodCall><methodName>{name}</methodName><params>{params}</params></methodCall>"
        );
        from(stack, 7, Request::post("/xmlrpc.php", "text/xml", body)).expect_status(200)
    };
    assert_text(&call("demo.sayHello", ""), "Hello!");
    let inner = "<param><value><array><data><value><struct><member><name>methodName</name><value><string>demo.sayHello</string></value>\
        </member><member><name>params</name><value><array><data></data></array></value></member></struct></value></data></array></value></param>";
    let answer = call("system.multicall", inner);
    assert_no_text(&answer, "Hello!");
    assert_text(&answer, "<int>-32601</int>");
    assert_text(&call("pingback.ping", ""), "<int>-32601</int>");
    // A name of a member is no method, and a wrong password is WordPress's to refuse.
    let who = "<param><value>editor</value></param><param><value>guess</value></param>";
    assert_text(&call("wp.getUsersBlogs", who), "<int>403</int>");
}
