//! A real browser, without a window: Debian's Chromium, driven over its `DevTools` protocol.
//!
//! The protocol runs over a pair of pipes (`--remote-debugging-pipe`): JSON texts, each ended by a zero byte. That needs neither a port nor
//! a `WebSocket`. The crates that drive browsers bring the whole protocol as generated code, which takes longer to build than all of
//! this project; the few commands that tests need are written out here.
//!
//! A browser belongs to one thread, and everything has a deadline.

use std::{
    fs,
    io::{BufRead, BufReader, PipeWriter, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    account,
    error::{Context, TestkitError},
    place,
    process::{Farewell, Service, tail},
    wait::poll_until,
};

/// A running browser; ends with its handle.
#[derive(Debug)]
pub struct Chromium {
    service: Service,
    orders: PipeWriter,
    answers: Receiver<Value>,
    log: PathBuf,
    last: u64,
}

/// One tab of a browser.
#[derive(Debug)]
pub struct Tab<'b> {
    browser: &'b mut Chromium,
    session: String,
}

impl Chromium {
    /// Starts one with its profile and log in `dir`, which is made if it is missing.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] when it is not installed.
    pub fn start(dir: &Path) -> Result<Self, TestkitError> {
        Self::launch(dir, None)
    }

    /// The same for one that takes certificates with a certain key for good, whichever authority has signed them. `pin`: the SHA-256 of
    /// its `SubjectPublicKeyInfo` in base64, as in RFC 7469 section 2.4.
    pub fn start_trusting(dir: &Path, pin: &str) -> Result<Self, TestkitError> {
        Self::launch(
            dir,
            Some(format!("--ignore-certificate-errors-spki-list={pin}")),
        )
    }

    /// The same for one that finds a host without a name server: `http://HOST/` is asked at `addr`.
    pub fn start_resolving(dir: &Path, host: &str, addr: SocketAddr) -> Result<Self, TestkitError> {
        Self::launch(
            dir,
            Some(format!("--host-resolver-rules=MAP {host} {addr}")),
        )
    }

    fn launch(dir: &Path, further: Option<String>) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
        let log = dir.join("chromium.log");
        let (orders_in, orders) = std::io::pipe().context("make a pipe")?;
        let (answers, answers_out) = std::io::pipe().context("make a pipe")?;
        // The two descriptors come in where a child takes them without unsafe code, and the shell puts them where Chromium looks.
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", r#"exec "$@" 3<&2 4>&1 >>"$LOG" 2>&1"#, "sh"])
            .arg(place::program(&["chromium", "chromium-browser"])?)
            .args(FLAGS)
            .args(further)
            .arg(format!("--user-data-dir={}", dir.join("profile").display()));
        if account::runs_as_root() {
            command.arg("--no-sandbox");
        }
        command
            .arg("about:blank")
            .env("LOG", &log)
            .env("HOME", dir)
            .stdout(Stdio::from(answers_out))
            .stderr(Stdio::from(orders_in));
        let service = Service::spawn_as_is("chromium", &mut command, Farewell::Kill)?;
        // The command holds the child's ends; with them this side would never see it end.
        drop(command);
        let (sender, receiver) = channel();
        thread::spawn(move || {
            for text in BufReader::new(answers).split(0).map_while(Result::ok) {
                let Ok(value) = serde_json::from_slice(&text) else {
                    return;
                };
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            service,
            orders,
            answers: receiver,
            log,
            last: 0,
        })
    }

    /// A tab of a person who has no cookies and shares none with other tabs.
    pub fn person(&mut self) -> Result<Tab<'_>, TestkitError> {
        let context = self.ask(None, "Target.createBrowserContext", &json!({}))?;
        let context = &context["browserContextId"];
        let wanted = json!({ "url": "about:blank", "browserContextId": context });
        let target = self.ask(None, "Target.createTarget", &wanted)?;
        let wanted = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.ask(None, "Target.attachToTarget", &wanted)?;
        let session = attached["sessionId"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let mut tab = Tab {
            browser: self,
            session,
        };
        // Several tabs may be open, and each is to take what is typed as if it were in front.
        tab.ask(
            "Emulation.setFocusEmulationEnabled",
            &json!({ "enabled": true }),
        )?;
        Ok(tab)
    }

    fn ask(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<Value, TestkitError> {
        self.last += 1;
        let id = self.last;
        let mut order = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            order["sessionId"] = session.into();
        }
        let mut bytes = order.to_string().into_bytes();
        bytes.push(0);
        self.orders
            .write_all(&bytes)
            .context(format_args!("tell chromium {method}\n{}", tail(&self.log)))?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok(mut answer) if answer["id"] == id => {
                    return match answer.get("error") {
                        Some(error) => Err(TestkitError::Malformed(format!("{method}: {error}"))),
                        None => Ok(answer["result"].take()),
                    };
                }
                // Events, which nobody has asked for.
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(TestkitError::Late {
                        what: format!("chromium to answer {method}"),
                        timeout: TIMEOUT,
                        log: tail(&self.log),
                    });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(TestkitError::Ended {
                        program: "chromium".to_owned(),
                        status: format!("ended: {}", self.service.has_ended()),
                        log: tail(&self.log),
                    });
                }
            }
        }
    }
}

impl Tab<'_> {
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, TestkitError> {
        self.browser.ask(Some(&self.session), method, params)
    }

    /// Goes to an address and waits until the page is complete.
    pub fn go(&mut self, url: &str) -> Result<(), TestkitError> {
        let gone = self.ask("Page.navigate", &json!({ "url": url }))?;
        if let Some(error) = gone["errorText"].as_str() {
            return Err(TestkitError::Malformed(format!("{url}: {error}")));
        }
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")
    }

    /// What an expression of JavaScript is, a promise's result included.
    ///
    /// # Errors
    /// [`TestkitError::Malformed`] with what it threw.
    pub fn say(&mut self, expression: &str) -> Result<Value, TestkitError> {
        let wanted =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut said = self.ask("Runtime.evaluate", &wanted)?;
        match said.get("exceptionDetails") {
            Some(thrown) => Err(TestkitError::Malformed(format!("{expression}: {thrown}"))),
            None => Ok(said["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true. What it throws counts as false: the page may be leaving.
    ///
    /// # Errors
    /// [`TestkitError::Late`] with what the page shows.
    pub fn wait(&mut self, expression: &str) -> Result<(), TestkitError> {
        let claim = format!("!!({expression})");
        if poll_until(TIMEOUT, || {
            self.say(&claim).is_ok_and(|said| said == Value::Bool(true))
        }) {
            return Ok(());
        }
        let page = self.say("location.href + '\\n' + document.body.innerText.slice(0, 2000)");
        Err(TestkitError::Late {
            what: expression.to_owned(),
            timeout: TIMEOUT,
            log: format!("{page:?}\n{}", tail(&self.browser.log)),
        })
    }

    /// Waits for the first element of a selector, gives it the focus, and clicks it.
    pub fn click(&mut self, selector: &str) -> Result<(), TestkitError> {
        let found = format!("document.querySelector({})", json!(selector));
        self.wait(&found)?;
        self.say(&format!("{found}.focus(); {found}.click()"))
            .map(drop)
    }

    /// Types where the focus is.
    pub fn write(&mut self, text: &str) -> Result<(), TestkitError> {
        self.ask("Input.insertText", &json!({ "text": text }))
            .map(drop)
    }

    /// Makes the window as large as this, in CSS pixels.
    pub fn screen(&mut self, width: u32, height: u32) -> Result<(), TestkitError> {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", &metrics)
            .map(drop)
    }

    /// Has the person prefer `light` or `dark` colors.
    pub fn prefer_colors(&mut self, scheme: &str) -> Result<(), TestkitError> {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.ask("Emulation.setEmulatedMedia", &features).map(drop)
    }

    /// Presses and releases a key, for example `Tab` with the code 9.
    pub fn press(&mut self, key: &str, code: u32) -> Result<(), TestkitError> {
        for kind in ["rawKeyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.ask("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    /// Takes a picture of what is seen, as PNG.
    pub fn picture(&mut self, file: &Path) -> Result<(), TestkitError> {
        let shot = self.ask("Page.captureScreenshot", &json!({ "format": "png" }))?;
        let bytes = from_base64(shot["data"].as_str().unwrap_or_default())
            .ok_or_else(|| TestkitError::Malformed("a picture that is no base64".to_owned()))?;
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).context(format_args!("make {}", folder.display()))?;
        }
        fs::write(file, bytes).context(format_args!("write {}", file.display()))
    }
}

/// RFC 4648 §4.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from((bits >> held) & 0xff).ok()?);
        }
    }
    Some(out)
}

/// Nothing is asked of foreign hosts, nothing is shared with the person at the machine.
const FLAGS: &[&str] = &[
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    // A container's /dev/shm is often 64 MiB.
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-proxy-server",
    "--password-store=basic",
    "--lang=en-US",
    "--hide-scrollbars",
    "--window-size=1280,1000",
];

/// The block editor takes seconds on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_rfc() {
        for (text, wanted) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(from_base64(text).unwrap(), wanted.as_bytes());
        }
        assert_eq!(from_base64("Zm9v*"), None);
    }
}
