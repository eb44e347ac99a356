//! Texts that visitors, plugins and purges bring in, made to be taken for markup: through a real Galley into every view they stay text.

use galley_testkit::client::Request;
use galley_testkit::{Chromium, Scratch, Tab};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::json;

use crate::browser::{VIEWS, open, seen};
use crate::stage::{Dashboard, MARKUP, Session, Stage};

/// One for each place of a page that text may break out of: content, attributes with and without quotes, addresses, scripts, styles,
/// comments, templates, other encodings.
const CORPUS: &[&str] = &[
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

fn encoded(text: &str) -> String {
    percent_encode(text.as_bytes(), NON_ALPHANUMERIC).to_string()
}

/// Whatever of it a visitor, a program or a purge may say.
fn bring_in(stage: &Stage, text: &str) {
    let path = encoded(text);
    for target in [
        format!("/{path}/"),
        format!("/{path}/?{path}={path}"),
        format!("/set-cookie/{path}"),
        // Not well formed: refused, and counted.
        format!("/{}", text.replace(' ', "")),
    ] {
        let visit = Request::get(&target)
            .host("a.test")
            .field("User-Agent", text)
            .field("Referer", text);
        let cookie = format!("wordpress_logged_in_{text}={text}; {text}={text}");
        for request in [visit.clone(), visit.field("Cookie", &cookie)] {
            let _ = request.send(stage.galley.addr()).unwrap();
        }
    }
}

/// As the page itself purges.
fn purge(dashboard: &Dashboard, session: &Session, text: &str) {
    let url = format!("http://a.test/{}/", encoded(text));
    for order in [json!({ "tags": [text] }), json!({ "urls": [url] })] {
        dashboard.gets(session.on(dashboard.order("/api/purge", &order)), 200);
    }
}

/// That the page consists of what its own code makes, and nothing has run.
fn assert_text(tab: &mut Tab<'_>, case: &str) {
    let foreign = tab.say(
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
    let hacked = tab.say("typeof window.hacked").unwrap();
    assert_eq!(hacked, json!("undefined"), "{case}");
}

#[test]
fn hostile_texts_of_visitors_stay_text_in_every_view() {
    let stage = Stage::start();
    stage.store("a.test", "/");
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    for text in CORPUS {
        bring_in(&stage, text);
        purge(&dashboard, &session, text);
        let _ = stage.get("a.test", &format!("/{}/", encoded(text)));
    }
    stage.store("a.test", &format!("/{}/", encoded(MARKUP)));
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    tab.go(&dashboard.url()).unwrap();
    tab.wait("document.querySelector('#view[data-ready]')")
        .unwrap();
    for view in VIEWS {
        open(&mut tab, view);
        assert_text(&mut tab, view);
    }
    // It is there: the views show what was brought in.
    open(&mut tab, "purges");
    assert!(seen(&mut tab).contains(CORPUS[1]), "{}", seen(&mut tab));
    open(&mut tab, "pages");
    assert!(seen(&mut tab).contains(MARKUP));
    for text in CORPUS {
        open(&mut tab, "live");
        open(&mut tab, "why");
        let typed = serde_json::to_string(text).unwrap();
        tab.say(&format!(
            "document.querySelector('#url').value = 'http://a.test/' + {typed}; \
             document.querySelector('#cookie').value = 'wordpress_logged_in_' + {typed}; \
             document.querySelector('main form').requestSubmit()"
        ))
        .unwrap();
        tab.wait("document.querySelector('#because, #trouble:not([hidden])')")
            .unwrap();
        assert_text(&mut tab, text);
    }
}
