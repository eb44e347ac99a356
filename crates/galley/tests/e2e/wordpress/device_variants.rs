//! `device_variants`: phones and desktops share one stored page by default, and get separate ones with the option.

use galley_testkit::client::{Request, Response};

use super::stack::{
    DEVICE_VARIANTS_HOST, HIT, HOST, STORED, WordPressStack, assert_cache_status, assert_refetched,
};

test_with_shared_stacks! {
    without_device_variants_all_clients_get_the_desktop_page,
    device_variants_store_separate_pages_for_phones_and_desktops,
}

const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1";
const DESKTOP: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";

fn is_mobile(page: &Response) -> bool {
    let text = page.text();
    let (is_mobile, is_desktop) = (
        text.contains("\nmobile=yes\n"),
        text.contains("\nmobile=no\n"),
    );
    assert_ne!(is_mobile, is_desktop, "{text}");
    is_mobile
}

fn send(stack: &WordPressStack, host: &str, path: &str, fields: &[(&str, &str)]) -> Response {
    let request = fields
        .iter()
        .fold(Request::get(path).host(host), |request, (name, value)| {
            request.field(name, value)
        });
    stack.send(request).expect_status(200)
}

fn without_device_variants_all_clients_get_the_desktop_page(stack: &WordPressStack) {
    stack.publish(["one-for-all"]);
    let clients: [&[(&str, &str)]; 5] = [
        &[("User-Agent", PHONE), ("Sec-CH-UA-Mobile", "?1")],
        &[("User-Agent", PHONE)],
        &[("User-Agent", DESKTOP)],
        &[("User-Agent", DESKTOP), ("Sec-CH-UA-Mobile", "?1")],
        &[],
    ];
    for (number, fields) in clients.iter().enumerate() {
        let page = send(stack, HOST, "/one-for-all/", fields);
        assert_cache_status(&page, if number == 0 { STORED } else { HIT });
        assert!(!is_mobile(&page), "{fields:?}");
    }
    assert_eq!(stack.php_runs("/one-for-all/"), 1);
}

fn device_variants_store_separate_pages_for_phones_and_desktops(stack: &WordPressStack) {
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
        for (clients, mobile) in [(&phones[..], true), (&desktops[..], false)] {
            for (number, fields) in clients.iter().enumerate() {
                let page = send(stack, DEVICE_VARIANTS_HOST, "/two-for-all/", fields);
                assert_eq!(is_mobile(&page), mobile, "{fields:?}: {}", page.excerpt());
                match number {
                    0 => assert_refetched(&page),
                    _ => assert_cache_status(&page, HIT),
                }
            }
        }
        assert_eq!(stack.php_runs("/two-for-all/"), 2 * (round + 1));
        // A purge of a URL applies to both variants.
        stack.purge(&["--url", "http://phones.test/two-for-all/"]);
    }
}
