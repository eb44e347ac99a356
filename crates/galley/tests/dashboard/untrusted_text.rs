//! Text from visitors, plugins and purges that looks like markup. Every view must show it as text.

use galley_testkit::client::Request;
use galley_testkit::{Chromium, Scratch, Tab};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::json;

use crate::browser::{VIEWS, main_text, open, open_dashboard};
use crate::support::{Dashboard, MARKUP, Session, TestServer};

/// Text that breaks out of each context of a page: content, quoted and unquoted attributes, URLs, scripts, styles, comments, templates,
/// and other encodings.
const HOSTILE_TEXTS: &[&str] = &[
    MARKUP,
    "<script>hacked=1</script>",
    "</script><script>hacked=1</script>",
    "\"><svg/onload=hacked=1>",
    "'><svg/onload=hacked=1>",
    "\" autofocus onfocus=hacked=1 x=\"",
    "javascript:hacked=1",
    "<a href=javascript:hacked=1>x</a>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'>",
    "<style>*{display:none}</style>",
    "--><img/src=x/onerror=hacked=1><!--",
    "</title></textarea><img/src=x/onerror=hacked=1>",
    "<math><mtext><table><mglyph><style><img/src=x/onerror=hacked=1>",
    "${hacked=1}{{constructor.constructor('hacked=1')()}}",
    "&lt;img src=x onerror=hacked=1&gt;",
    "+ADw-script+AD4-hacked=1+ADw-/script+AD4-",
    "%3Cscript%3Ehacked=1%3C/script%3E",
    "<details open ontoggle=hacked=1>",
    "<object data=javascript:hacked=1>",
    "<base href=//elsewhere.test/>",
];

fn percent_encoded(text: &str) -> String {
    percent_encode(text.as_bytes(), NON_ALPHANUMERIC).to_string()
}

/// Sends requests with the text in the path, the query, the cookies and other fields.
fn send_requests(server: &TestServer, text: &str) {
    let path = percent_encoded(text);
    for target in [
        format!("/{path}/"),
        format!("/{path}/?{path}={path}"),
        format!("/set-cookie/{path}"),
        // Malformed targets, which are rejected and counted.
        format!("/{}", text.replace(' ', "")),
    ] {
        let visit = Request::get(&target)
            .host("a.test")
            .field("User-Agent", text)
            .field("Referer", text);
        let cookie = format!("wordpress_logged_in_{text}={text}; {text}={text}");
        for request in [visit.clone(), visit.field("Cookie", &cookie)] {
            let _ = request.send(server.galley.addr()).unwrap();
        }
    }
}

/// Purges by tag and URL as the page does.
fn purge(dashboard: &Dashboard, session: &Session, text: &str) {
    let url = format!("http://a.test/{}/", percent_encoded(text));
    for body in [
        json!({ "tags": [text], "label": text }),
        json!({ "urls": [url] }),
    ] {
        dashboard.assert_status(session.authorize(dashboard.post("/api/purge", &body)), 200);
    }
}

/// Asserts that the page contains only elements that its code creates, and that no injected script ran.
fn assert_no_injection(tab: &mut Tab<'_>, case: &str) {
    let foreign = tab.evaluate(
        "[...document.querySelectorAll('*')].filter((one) => \
           !['HTML','HEAD','META','TITLE','LINK','SCRIPT','BODY','HEADER','NAV','MAIN','FOOTER','SECTION','DIV','SPAN','P','A','H1','H2','H3',\
             'UL','OL','LI','DL','DT','DD','TABLE','CAPTION','THEAD','TBODY','TR','TH','TD','FORM','LABEL','INPUT','SELECT','OPTION','BUTTON',\
             'DIALOG','IMG','CODE','STRONG','EM','SMALL','TIME','DETAILS','SUMMARY','NOSCRIPT','svg','path','polyline','line','rect','text','g','title']\
             .includes(one.tagName) || \
           [...one.attributes].some((attribute) => attribute.name.startsWith('on')) || \
           (one.tagName === 'SCRIPT' && !one.src.startsWith(location.origin)) || \
           (one.tagName === 'IMG' && !one.matches('header img[alt]')) || \
           (one.tagName === 'DETAILS' && one.hasAttribute('ontoggle')) || \
           /^\\s*javascript:/i.test(one.getAttribute('href') ?? one.getAttribute('src') ?? '') \
         ).map((one) => one.outerHTML.slice(0, 200))",
    );
    assert_eq!(foreign.unwrap(), json!([]), "{case}");
    let hacked = tab.evaluate("typeof window.hacked").unwrap();
    assert_eq!(hacked, json!("undefined"), "{case}");
}

#[test]
fn untrusted_text_is_never_rendered_as_markup() {
    let server = TestServer::start();
    server.store("a.test", "/");
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    for text in HOSTILE_TEXTS {
        send_requests(&server, text);
        purge(&dashboard, &session, text);
        let _ = server.get("a.test", &format!("/{}/", percent_encoded(text)));
    }
    server.store("a.test", &format!("/{}/", percent_encoded(MARKUP)));
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = open_dashboard(&mut browser, &mut dashboard);
    for view in VIEWS {
        open(&mut tab, view);
        assert_no_injection(&mut tab, view);
    }
    // The views must contain the text, otherwise the test proves nothing.
    open(&mut tab, "purges");
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        .unwrap();
    assert!(
        main_text(&mut tab).contains(HOSTILE_TEXTS[1]),
        "{}",
        main_text(&mut tab)
    );
    open(&mut tab, "pages");
    assert!(main_text(&mut tab).contains(MARKUP));
    for text in HOSTILE_TEXTS {
        open(&mut tab, "overview");
        open(&mut tab, "why");
        let input = serde_json::to_string(text).unwrap();
        tab.evaluate(&format!(
            "document.querySelector('#url').value = 'http://a.test/' + {input}; \
             document.querySelector('#cookie').value = 'wordpress_logged_in_' + {input}; \
             document.querySelector('main form').requestSubmit()"
        ))
        .unwrap();
        tab.wait("document.querySelector('#because, #trouble:not([hidden])')")
            .unwrap();
        assert_no_injection(&mut tab, text);
    }
}
