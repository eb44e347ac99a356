//! A site whose pages share a template, visitors with a compression dictionary, and the program `zstd`, which decodes.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;
use sha2::{Digest as _, Sha256};

use crate::support::{SiteBuilder, TIMEOUT, TestSite};
use crate::tls_support::{Authority, over_tls, tls_addr};

/// The codings of Chromium with a dictionary.
pub(crate) const BROWSER: &str = "gzip, deflate, br, zstd, dcb, dcz";

/// An origin whose pages share a template and end with the text that [`Pages::edit`] sets.
pub(crate) struct Pages {
    pub(crate) origin: Origin,
    edits: Arc<Mutex<String>>,
}

impl Pages {
    pub(crate) fn start() -> Self {
        let edits = Arc::new(Mutex::new(String::new()));
        let text = Arc::clone(&edits);
        let origin = Origin::start(move |request, writer| {
            let text = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let path = request.path().to_owned();
            let mut fields = vec![
                ("Content-Type", "text/html; charset=utf-8"),
                ("Cache-Control", "max-age=6000"),
                ("ETag", "\"v1\""),
            ];
            if path.starts_with("/json/") {
                fields[0].1 = "application/json";
            }
            if path.starts_with("/esi/") {
                fields.push(("Surrogate-Control", "content=\"ESI/1.0\""));
            }
            writer.respond(200, &fields, page(&path, &text).as_bytes());
        });
        Self {
            origin: origin.unwrap(),
            edits,
        }
    }

    pub(crate) fn edit(&self, text: &str) {
        text.clone_into(&mut self.edits.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

pub(crate) fn page(path: &str, text: &str) -> String {
    let random = |seed: usize| seed.wrapping_mul(2_654_435_761) % 1_000_003;
    let template: String = (0..900)
        .map(|n| format!("<li class=\"row\">Row {n}, {}</li>", random(n)))
        .collect();
    let seed = path.bytes().map(usize::from).sum::<usize>();
    let own: String = (0..40)
        .map(|n| format!("<p>{} of {path}</p>", random(n + 1000 * seed)))
        .collect();
    let esi = if path.starts_with("/esi/") {
        "<esi:include src=\"/part\"/>"
    } else {
        ""
    };
    format!("<html><body>{template}{own}{esi}{text}</body></html>")
}

/// A response.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let named = lines.filter(|(one, _)| one.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value).collect()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields(name).first().copied()
    }

    pub(crate) fn coding(&self) -> &str {
        self.field("content-encoding").unwrap_or("identity")
    }

    /// The path of the dictionary that the page names.
    pub(crate) fn dictionary(&self) -> Option<&str> {
        self.fields("link").into_iter().find_map(|link| {
            let link = link.strip_suffix(">; rel=\"compression-dictionary\"")?;
            link.strip_prefix('<')
        })
    }
}

pub(crate) struct Visitor<'s> {
    pub(crate) site: &'s TestSite,
    /// curl's option.
    pub(crate) protocol: &'static str,
}

impl Visitor<'_> {
    pub(crate) fn get(&self, target: &str, fields: &[(&str, &str)]) -> Reply {
        self.ask(&["--request", "GET"], target, fields)
    }

    /// The page in a coding that needs no dictionary.
    pub(crate) fn read(&self, target: &str) -> Reply {
        self.get(target, &[("Accept-Encoding", "br")])
    }

    pub(crate) fn ask(&self, options: &[&str], target: &str, fields: &[(&str, &str)]) -> Reply {
        let addr = tls_addr(self.site);
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--include", "--max-time", "30"])
            .args([self.protocol, "--cacert"])
            .arg(self.site.scratch.join("ca.pem"))
            .args(["--connect-to", &format!("example.test:443:{addr}")])
            .args(options)
            .arg(format!("https://example.test{target}"));
        for (name, value) in fields {
            curl.args(["--header", &format!("{name}: {value}")]);
        }
        let output = curl.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{target} {fields:?}: {stderr}");
        let end = output
            .stdout
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        let (head, body) = output.stdout.split_at(end.expect("a head") + 4);
        let head = String::from_utf8_lossy(head).into_owned();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Reply {
            status: status.expect("a status"),
            head,
            body: body.to_vec(),
        }
    }

    /// Visits pages until they name a dictionary other than `but`, and returns it.
    pub(crate) fn wait_for_dictionary(
        &self,
        paths: &[&str],
        but: Option<&Dictionary>,
    ) -> Dictionary {
        let mut found = None;
        wait_for("the pages to name a dictionary", TIMEOUT, || {
            let replies: Vec<Reply> = paths.iter().map(|path| self.read(path)).collect();
            let named = replies.iter().map(Reply::dictionary);
            let first = replies[0].dictionary();
            if first.is_none() || !named.eq(paths.iter().map(|_| first)) {
                return false;
            }
            let is_new = but.is_none_or(|but| first != Some(&but.path));
            found = first.filter(|_| is_new).map(str::to_owned);
            found.is_some()
        });
        let path = found.unwrap();
        let reply = self.get(&path, &[]);
        assert_eq!(reply.status, 200, "{}", reply.head);
        Dictionary {
            path,
            bytes: reply.body.clone(),
            reply,
        }
    }

    pub(crate) fn navigate(&self, target: &str, dictionary: &Dictionary) -> Reply {
        let hash = dictionary.hash();
        self.get(target, &navigation(&hash))
    }

    /// Waits for both forms of a page, which are made in the background.
    pub(crate) fn wait_for_dcz(&self, target: &str, dictionary: &Dictionary) -> Reply {
        wait_for(&format!("{target} as br"), TIMEOUT, || {
            self.read(target).coding() == "br"
        });
        let mut reply = self.navigate(target, dictionary);
        wait_for(&format!("{target} as dcz"), TIMEOUT, || {
            reply = self.navigate(target, dictionary);
            reply.coding() == "dcz"
        });
        reply
    }
}

pub(crate) fn navigation(hash: &str) -> [(&str, &str); 4] {
    [
        ("Accept-Encoding", BROWSER),
        ("Available-Dictionary", hash),
        ("Sec-Fetch-Site", "same-origin"),
        ("Sec-Fetch-Mode", "navigate"),
    ]
}

pub(crate) struct Dictionary {
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) reply: Reply,
}

impl Dictionary {
    /// The value of `Available-Dictionary`.
    pub(crate) fn hash(&self) -> String {
        format!(":{}:", STANDARD.encode(Sha256::digest(&self.bytes)))
    }

    /// The page in a `dcz` response.
    #[track_caller]
    pub(crate) fn decode(&self, site: &TestSite, reply: &Reply) -> String {
        assert_eq!(reply.coding(), "dcz", "{}", reply.head);
        let (header, frame) = reply.body.split_at(40);
        assert_eq!(header[..8], [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0]);
        assert_eq!(header[8..], Sha256::digest(&self.bytes)[..]);
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let dictionary = site.scratch.join(format!("{number}.dictionary"));
        let frames = site.scratch.join(format!("{number}.zst"));
        fs::write(&dictionary, &self.bytes).unwrap();
        fs::write(&frames, frame).unwrap();
        // Clients need not support windows above 8 MB.
        let mut zstd = Command::new("zstd");
        zstd.args(["--decompress", "--stdout", "--memory=8MB", "-D"]);
        let output = zstd.arg(dictionary).arg(frames).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        String::from_utf8(output.stdout).unwrap()
    }
}

pub(crate) fn start(pages: &Pages, server: &str) -> TestSite {
    let line = format!("upstream = [\"{}\"]", pages.origin.url());
    let builder = SiteBuilder::upstream_line(&line)
        .server(server)
        .site("dictionaries = true");
    over_tls(builder, &Authority::new()).start()
}

pub(crate) fn visitor(site: &TestSite) -> Visitor<'_> {
    Visitor {
        site,
        protocol: "--http1.1",
    }
}
