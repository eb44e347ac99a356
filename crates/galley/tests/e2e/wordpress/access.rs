//! Access control with a real WordPress: `admin_allow` does not block what visitors need, and login attempts are limited.

use std::net::Ipv4Addr;

use galley_testkit::client::{Connection, Request, Response};

use super::stack::{ADMIN_ALLOW_HOST, TIMEOUT, WordPressStack, assert_no_text, assert_text};
use crate::support::AssertStatus;

test_with_shared_stacks! {
    a_protected_post_can_be_unlocked_while_admin_allow_blocks_wp_login,
    login_attempts_are_rate_limited,
    xmlrpc_multicall_and_pingback_are_blocked_and_other_methods_work,
}

/// Sends a request from a client address that the other tests do not use.
fn send_from(stack: &WordPressStack, client: u8, request: Request) -> Response {
    let address = Ipv4Addr::new(127, 0, 0, client);
    let mut connection = Connection::from_address(address, stack.addr(), TIMEOUT).unwrap();
    connection
        .exchange(&stack.with_default_host(request))
        .unwrap()
}

fn a_protected_post_can_be_unlocked_while_admin_allow_blocks_wp_login(stack: &WordPressStack) {
    stack.php(
        "echo wp_insert_post(['post_name' => 'guarded', 'post_title' => 'guarded', 'post_content' => 'The secret text.', \
         'post_password' => 'sesame', 'post_status' => 'publish', 'post_author' => 1]);",
    );
    let send = |request: Request| send_from(stack, 2, request.host(ADMIN_ALLOW_HOST));
    for target in [
        "/wp-login.php",
        "/wp-admin/",
        "/wp-admin/users.php",
        "/wp-login.php?action=lostpassword",
    ] {
        send(Request::get(target)).assert_status(403);
    }
    // Administrators connect from an allowed address.
    send_from(
        stack,
        1,
        Request::get("/wp-login.php").host(ADMIN_ALLOW_HOST),
    )
    .assert_status(200);

    let page = send(Request::get("/guarded/")).expect_status(200);
    assert_text(&page, "action=postpass");
    assert_no_text(&page, "The secret text.");
    let form = |more: &[(&str, &str)]| {
        let fields = [&[("post_password", "sesame"), ("Submit", "Enter")], more].concat();
        let referer = format!("http://{ADMIN_ALLOW_HOST}/guarded/");
        send(Request::form("/wp-login.php?action=postpass", &fields).field("Referer", referer))
    };
    let response = form(&[]).expect_status(302);
    let cookies = response.all("set-cookie");
    let cookie = cookies.iter().find(|line| line.starts_with("wp-postpass_"));
    let cookie = cookie.unwrap().split(';').next().unwrap();
    let page = send(Request::get("/guarded/").cookie(cookie)).expect_status(200);
    assert_text(&page, "The secret text.");
    assert_no_text(&send(Request::get("/guarded/")), "The secret text.");

    // In PHP the `action` in the body takes precedence over the one in the query, so this would log in.
    let password = stack.wordpress.password.as_str();
    let login = [
        ("action", "login"),
        ("log", "editor"),
        ("pwd", password),
        ("testcookie", "1"),
    ];
    let response = form(&login).expect_status(403);
    assert!(
        response.all("set-cookie").is_empty(),
        "{}",
        response.excerpt()
    );

    send(Request::get("/wp-admin/css/login.min.css")).assert_status(200);
    let ajax = send(Request::get("/wp-admin/admin-ajax.php?action=nobody"));
    assert_eq!(
        (ajax.status, ajax.text().as_str()),
        (400, "0"),
        "{}",
        ajax.excerpt()
    );
}

fn login_attempts_are_rate_limited(stack: &WordPressStack) {
    let guess = |client: u8| {
        let fields = [("log", "editor"), ("pwd", "guess"), ("testcookie", "1")];
        send_from(stack, client, Request::form("/wp-login.php", &fields))
    };
    let limited = (0..40)
        .map(|_| guess(5))
        .find(|response| response.status != 200);
    let limited = limited
        .expect("none of 40 login attempts was limited")
        .expect_status(429);
    assert_eq!(limited.cache_status(), "galley; detail=limited");
    assert!(limited.has("retry-after"));
    send_from(stack, 5, Request::get("/wp-login.php")).assert_status(200);
    guess(6).assert_status(200);
}

fn xmlrpc_multicall_and_pingback_are_blocked_and_other_methods_work(stack: &WordPressStack) {
    let call = |name: &str, params: &str| {
        let body = format!(
            "<?xml version=\"1.0\"?><methodCall><methodName>{name}</methodName><params>{params}</params></methodCall>"
        );
        send_from(stack, 7, Request::post("/xmlrpc.php", "text/xml", body)).expect_status(200)
    };
    assert_text(&call("demo.sayHello", ""), "Hello!");
    let inner = "<param><value><array><data><value><struct><member><name>methodName</name><value><string>demo.sayHello</string></value>\
        </member><member><name>params</name><value><array><data></data></array></value></member></struct></value></data></array></value></param>";
    let response = call("system.multicall", inner);
    assert_no_text(&response, "Hello!");
    assert_text(&response, "<int>-32601</int>");
    assert_text(&call("pingback.ping", ""), "<int>-32601</int>");
    // `editor` is a parameter and not a method name, so WordPress rejects the wrong password.
    let credentials = "<param><value>editor</value></param><param><value>guess</value></param>";
    assert_text(&call("wp.getUsersBlogs", credentials), "<int>403</int>");
}
