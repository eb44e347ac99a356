//! A headless browser: Debian's Chromium, controlled over the `DevTools` protocol.
//!
//! The protocol runs over a pair of pipes (`--remote-debugging-pipe`): JSON messages, each terminated by a zero byte. That
//! requires neither a port nor a `WebSocket`. Crates for browser automation contain the whole protocol as generated code, which
//! takes longer to build than all of this project; this module has only the commands that the tests use.
//!
//! A browser belongs to one thread, and all operations have a deadline.

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
    process::{Service, StopMode, tail},
    programs,
    wait::poll_until,
};

/// A running browser; dropping the handle ends it.
#[derive(Debug)]
pub struct Chromium {
    service: Service,
    commands: PipeWriter,
    messages: Receiver<Value>,
    log: PathBuf,
    last_id: u64,
}

/// One tab of a browser.
#[derive(Debug)]
pub struct Tab<'b> {
    browser: &'b mut Chromium,
    session: String,
}

impl Chromium {
    /// Starts a browser with its profile and log in `dir`, which is created if it does not exist.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if Chromium is not installed.
    pub fn start(dir: &Path) -> Result<Self, TestkitError> {
        Self::launch(dir, &[])
    }

    /// Starts a browser that accepts certificates with a certain key from any issuer. `pin` is the SHA-256 of the key's
    /// `SubjectPublicKeyInfo` in base64, as in RFC 7469 section 2.4.
    pub fn start_trusting(dir: &Path, pin: &str) -> Result<Self, TestkitError> {
        Self::launch(dir, &[trusting(pin)])
    }

    /// As [`Chromium::start_trusting`], for a browser that sends requests for `https://HOST/` to `addr`, without DNS.
    pub fn start_trusting_at(
        dir: &Path,
        pin: &str,
        host: &str,
        addr: SocketAddr,
    ) -> Result<Self, TestkitError> {
        let options = [
            trusting(pin),
            format!("--host-resolver-rules=MAP {host} {addr}"),
        ];
        Self::launch(dir, &options)
    }

    /// As [`Chromium::start_trusting`], for a browser that sends requests for `https://HOST:PORT/` to `addr`, which has that port, over
    /// HTTP/3 only and without DNS.
    pub fn start_over_quic(
        dir: &Path,
        pin: &str,
        host: &str,
        addr: SocketAddr,
    ) -> Result<Self, TestkitError> {
        let options = [
            trusting(pin),
            format!("--origin-to-force-quic-on={host}:{}", addr.port()),
            format!("--host-resolver-rules=MAP {host} {}", addr.ip()),
        ];
        Self::launch(dir, &options)
    }

    /// Starts a browser that sends requests for `http://HOST/` to `addr`, without DNS.
    pub fn start_resolving(dir: &Path, host: &str, addr: SocketAddr) -> Result<Self, TestkitError> {
        Self::launch(dir, &[format!("--host-resolver-rules=MAP {host} {addr}")])
    }

    fn launch(dir: &Path, options: &[String]) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("create {}", dir.display()))?;
        let log = dir.join("chromium.log");
        let (commands_in, commands) = std::io::pipe().context("create a pipe")?;
        let (messages, messages_out) = std::io::pipe().context("create a pipe")?;
        // Without unsafe code, only stdout and stderr can pass the descriptors; the shell moves them to 3 and 4 for Chromium.
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", r#"exec "$@" 3<&2 4>&1 >>"$LOG" 2>&1"#, "sh"])
            .arg(programs::find(&["chromium", "chromium-browser"])?)
            .args(FLAGS)
            .args(options)
            .arg(format!("--user-data-dir={}", dir.join("profile").display()));
        if account::runs_as_root() {
            command.arg("--no-sandbox");
        }
        command
            .arg("about:blank")
            .env("LOG", &log)
            .env("HOME", dir)
            .stdout(Stdio::from(messages_out))
            .stderr(Stdio::from(commands_in));
        let service = Service::spawn_with_outputs("chromium", &mut command, StopMode::Kill)?;
        // The command has the child's ends of the pipes open; the reader would never get an end of file.
        drop(command);
        let (sender, receiver) = channel();
        thread::spawn(move || {
            for text in BufReader::new(messages).split(0).map_while(Result::ok) {
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
            commands,
            messages: receiver,
            log,
            last_id: 0,
        })
    }

    /// Opens a tab with a separate, empty cookie store.
    pub fn new_tab(&mut self) -> Result<Tab<'_>, TestkitError> {
        let context = self.call(None, "Target.createBrowserContext", &json!({}))?;
        let context = &context["browserContextId"];
        let params = json!({ "url": "about:blank", "browserContextId": context });
        let target = self.call(None, "Target.createTarget", &params)?;
        let params = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.call(None, "Target.attachToTarget", &params)?;
        let session = attached["sessionId"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let mut tab = Tab {
            browser: self,
            session,
        };
        // Several tabs may be open, and each must accept keyboard input as if it were in the foreground.
        tab.call(
            "Emulation.setFocusEmulationEnabled",
            &json!({ "enabled": true }),
        )?;
        Ok(tab)
    }

    /// Sends a command and returns the result.
    fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<Value, TestkitError> {
        self.last_id += 1;
        let id = self.last_id;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).context(format_args!(
            "send {method} to chromium\n{}",
            tail(&self.log)
        ))?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(mut message) if message["id"] == id => {
                    return match message.get("error") {
                        Some(error) => Err(TestkitError::Malformed(format!("{method}: {error}"))),
                        None => Ok(message["result"].take()),
                    };
                }
                // An event.
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(TestkitError::Timeout {
                        what: format!("chromium to respond to {method}"),
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
    fn call(&mut self, method: &str, params: &Value) -> Result<Value, TestkitError> {
        self.browser.call(Some(&self.session), method, params)
    }

    /// Navigates to a URL and waits until the page is complete.
    pub fn navigate(&mut self, url: &str) -> Result<(), TestkitError> {
        let navigation = self.call("Page.navigate", &json!({ "url": url }))?;
        if let Some(error) = navigation["errorText"].as_str() {
            return Err(TestkitError::Malformed(format!("{url}: {error}")));
        }
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")
    }

    /// Evaluates a JavaScript expression; waits for the result if it is a promise.
    ///
    /// # Errors
    /// [`TestkitError::Malformed`] with the exception.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value, TestkitError> {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut evaluation = self.call("Runtime.evaluate", &params)?;
        match evaluation.get("exceptionDetails") {
            Some(thrown) => Err(TestkitError::Malformed(format!("{expression}: {thrown}"))),
            None => Ok(evaluation["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true. An exception counts as false, because the page may be unloading.
    ///
    /// # Errors
    /// [`TestkitError::Timeout`] with the text of the page.
    pub fn wait(&mut self, expression: &str) -> Result<(), TestkitError> {
        let condition = format!("!!({expression})");
        if poll_until(TIMEOUT, || {
            self.evaluate(&condition)
                .is_ok_and(|value| value == Value::Bool(true))
        }) {
            return Ok(());
        }
        let page = self.evaluate("location.href + '\\n' + document.body.innerText.slice(0, 2000)");
        Err(TestkitError::Timeout {
            what: expression.to_owned(),
            timeout: TIMEOUT,
            log: format!("{page:?}\n{}", tail(&self.browser.log)),
        })
    }

    /// Waits for the first element that matches a selector, focuses it, and clicks it.
    pub fn click(&mut self, selector: &str) -> Result<(), TestkitError> {
        let element = format!("document.querySelector({})", json!(selector));
        self.wait(&element)?;
        self.evaluate(&format!("{element}.focus(); {element}.click()"))
            .map(drop)
    }

    /// Types text into the focused element.
    pub fn write(&mut self, text: &str) -> Result<(), TestkitError> {
        self.call("Input.insertText", &json!({ "text": text }))
            .map(drop)
    }

    /// Makes all requests fail whose URL matches one of the patterns, in which `*` stands for any text.
    pub fn block_urls(&mut self, patterns: &[&str]) -> Result<(), TestkitError> {
        self.call("Network.enable", &json!({}))?;
        self.call("Network.setBlockedURLs", &json!({ "urls": patterns }))
            .map(drop)
    }

    /// Sets the size of the window in CSS pixels.
    pub fn set_viewport(&mut self, width: u32, height: u32) -> Result<(), TestkitError> {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &metrics)
            .map(drop)
    }

    /// Sets the preferred color scheme, `light` or `dark`.
    pub fn prefer_colors(&mut self, scheme: &str) -> Result<(), TestkitError> {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &features).map(drop)
    }

    /// Presses and releases a key, for example `Tab` with the code 9.
    pub fn press(&mut self, key: &str, code: u32) -> Result<(), TestkitError> {
        for kind in ["rawKeyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    /// Writes a screenshot to `file`, as PNG.
    pub fn screenshot(&mut self, file: &Path) -> Result<(), TestkitError> {
        let screenshot = self.call("Page.captureScreenshot", &json!({ "format": "png" }))?;
        let bytes = from_base64(screenshot["data"].as_str().unwrap_or_default())
            .ok_or_else(|| TestkitError::Malformed("a screenshot is not base64".to_owned()))?;
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).context(format_args!("create {}", folder.display()))?;
        }
        fs::write(file, bytes).context(format_args!("write {}", file.display()))
    }
}

/// Decodes base64 (RFC 4648 section 4).
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut bit_count) = (0_u32, 0_u32);
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
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            out.push(u8::try_from((bits >> bit_count) & 0xff).ok()?);
        }
    }
    Some(out)
}

/// Options that prevent requests to other hosts and shared state with the user's own browser.
/// The option that accepts certificates with this key from any issuer.
fn trusting(pin: &str) -> String {
    format!("--ignore-certificate-errors-spki-list={pin}")
}

const FLAGS: &[&str] = &[
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    // In containers, /dev/shm often has only 64 MiB.
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

/// Long, because the block editor takes seconds even on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_examples_of_rfc_4648_are_decoded() {
        for (text, expected) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(from_base64(text).unwrap(), expected.as_bytes());
        }
        assert_eq!(from_base64("Zm9v*"), None);
    }
}
