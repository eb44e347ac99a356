//! Phones and desktops: one page for all unless the site wants two, and then never the other's.

use galley_testkit::client::{Request, Response};

use super::stack::{HIT, HOST, PHONES, STORED, Stack, assert_refetched, assert_way};

both! {
    without_variants_all_get_the_desktop_page,
    with_variants_each_gets_its_own,
}

const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1";
const DESKTOP: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

fn is_mobile(page: &Response) -> bool {
    let text = page.text();
    let (yes, no) = (
        text.contains("\nmobile=yes\n"),
        text.contains("\nmobile=no\n"),
    );
    assert_ne!(yes, no, "{text}");
    yes
}

fn send(stack: &Stack, host: &str, path: &str, fields: &[(&str, &str)]) -> Response {
    let request = fields
        .iter()
        .fold(Request::get(path).host(host), |request, (name, value)| {
            request.field(name, value)
        });
    stack.send(request).expect_status(200)
}

fn without_variants_all_get_the_desktop_page(stack: &Stack) {
    stack.publish(["one-for-all"]);
    let rows: [&[(&str, &str)]; 5] = [
        &[("User-Agent", PHONE), ("Sec-CH-UA-Mobile", "?1")],
        &[("User-Agent", PHONE)],
        &[("User-Agent", DESKTOP)],
        &[("User-Agent", DESKTOP), ("Sec-CH-UA-Mobile", "?1")],
        &[],
    ];
    for (number, fields) in rows.iter().enumerate() {
        let page = send(stack, HOST, "/one-for-all/", fields);
        assert_way(&page, if number == 0 { STORED } else { HIT });
        assert!(!is_mobile(&page), "{fields:?}");
    }
    assert_eq!(stack.runs("/one-for-all/"), 1);
}

fn with_variants_each_gets_its_own(stack: &Stack) {
    stack.publish(["two-for-all"]);
    let phones: [&[(&str, &str)]; 3] = [
        &[("User-Agent", PHONE)],
        &[("User-Agent", PHONE), ("Sec-CH-UA-Mobile", "?1")],
        &[("User-Agent", DESKTOP), ("Sec-CH-UA-Mobile", "?1")],
    ];
    let desktops: [&[(&str, &str)]; 4] = [
        &[("User-Agent", DESKTOP)],
        &[("User-Agent", PHONE), ("Sec-CH-UA-Mobile", "?0")],
        &[("User-Agent", "curl/8")],
        &[],
    ];
    for round in 0..2 {
        for (rows, mobile) in [(&phones[..], true), (&desktops[..], false)] {
            for (number, fields) in rows.iter().enumerate() {
                let page = send(stack, PHONES, "/two-for-all/", fields);
                assert_eq!(is_mobile(&page), mobile, "{fields:?}: {}", page.beginning());
                match number {
                    0 => assert_refetched(&page),
                    _ => assert_way(&page, HIT),
                }
            }
        }
        assert_eq!(stack.runs("/two-for-all/"), 2 * (round + 1));
        // An order for an address is for both.
        stack.purge(&["--url", "http://phones.test/two-for-all/"]);
    }
}
