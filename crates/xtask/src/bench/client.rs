//! One way of asking for one page: its command line, the same request as bytes, and running it from the client's core.

use std::{
    fmt, fs,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    interrupt::Interrupt,
    measure::Stand,
    output::Seen,
    pin,
    plan::{Client, Page, Plan},
    program,
    words::Words,
};
use crate::demo::Complaint;

/// What is asked, and by whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell<'a> {
    pub(super) page: Page,
    pub(super) client: &'a Client,
    /// Empty: not sent.
    pub(super) accept_encoding: &'a str,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) seen: Seen,
    /// By our own clock, with the program's start and end.
    pub(super) took: Duration,
}

impl<'a> Cell<'a> {
    /// All that the plan asks of each contender, in the order of the table.
    pub(super) fn all(plan: &'a Plan) -> Vec<Self> {
        let mut cells = Vec::new();
        for page in &plan.pages {
            for client in &plan.clients {
                for accept_encoding in &plan.accept_encoding {
                    cells.push(Self {
                        page: *page,
                        client,
                        accept_encoding,
                    });
                }
            }
        }
        cells
    }

    fn fields(&self) -> Vec<String> {
        let mut fields = self.client.fields.clone();
        if !self.accept_encoding.is_empty() {
            fields.push(format!("Accept-Encoding: {}", self.accept_encoding));
        }
        fields
    }

    /// The request as the program sends it, byte for byte but for the order of fields.
    pub(super) fn head(&self, path: &str) -> String {
        let Client { query, version, .. } = self.client;
        let mut head = format!("GET {path}{query} {version}\r\n");
        for line in self.fields().iter().chain(&self.client.adds) {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head + "\r\n"
    }

    fn command(&self, words: &Words) -> Result<Vec<String>, Complaint> {
        let mut line = Vec::new();
        for word in &self.client.command {
            if word == FIELDS {
                for field in self.fields() {
                    line.extend(["-H".to_owned(), field]);
                }
            } else {
                line.push(words.fill(word)?);
            }
        }
        Ok(line)
    }

    /// Runs the program for so many seconds against `address`.
    pub(super) fn run(
        &self,
        stand: &Stand<'_>,
        address: &str,
        seconds: u32,
    ) -> Result<Ran, Complaint> {
        let csv = stand.dir.join("percentiles.csv");
        let _ = fs::remove_file(&csv);
        let mut words = Words::new();
        words.set("connections", stand.plan.connections);
        words.set("seconds", seconds);
        words.set("csv", csv.display());
        words.set("address", address);
        let path = stand.site.path(self.page);
        words.set("target", format_args!("{path}{}", self.client.query));
        let mut command = program::ending_with_us(&self.command(&words)?);
        let said = stand.dir.join("client.log");
        let out = fs::File::create(&said)?;
        command
            .stdin(Stdio::null())
            .stderr(out.try_clone()?)
            .stdout(out);
        let began = Instant::now();
        let child = pin::on_core(stand.place.cores.client, || command.spawn())??;
        let deadline = began + Duration::from_secs(seconds.into()) + PATIENCE;
        let status = wait(child, deadline, stand.interrupt)?;
        let took = began.elapsed();
        let said = lossy(&said);
        if !status {
            return Err(format!("the client failed:\n{said}").into());
        }
        let seen = Seen::read(self.client.output, &said, &lossy(&csv))?;
        Ok(Ran { seen, took })
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let coding = match self.accept_encoding {
            "" => "no Accept-Encoding",
            coding => coding,
        };
        write!(out, "{}, {}, {coding}", self.page, self.client.name)
    }
}

/// True if it ended well. It is killed at the deadline, and when a signal asks this process to end.
fn wait(mut child: Child, deadline: Instant, interrupt: &Interrupt) -> Result<bool, Complaint> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        let outcome = interrupt.check().and_then(|()| {
            let late = Instant::now() > deadline;
            if late {
                Err("the client does not end".into())
            } else {
                Ok(())
            }
        });
        if let Err(complaint) = outcome {
            let _ = child.kill();
            let _ = child.wait();
            return Err(complaint);
        }
        thread::sleep(PAUSE);
    }
}

fn lossy(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

const FIELDS: &str = "{{fields}}";
/// Beyond the time it should take: answers of a slow contender may still be awaited.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_heads_are_as_large_as_browsers_heads() {
        let plan = Plan::shipped();
        let cells = Cell::all(&plan);
        assert_eq!(cells.len(), 8);
        for cell in cells {
            let head = cell.head("/");
            assert!(head.ends_with("\r\n\r\n") && head.contains("Host: www.example.com\r\n"));
            assert_eq!(
                head.contains("Accept-Encoding: gzip"),
                cell.accept_encoding == "gzip"
            );
            if cell.client.name.contains("browser") {
                assert!((600..=900).contains(&head.len()), "{}", head.len());
                assert!(head.starts_with("GET /?utm_source="), "{head}");
            } else {
                assert!(head.starts_with("GET / HTTP/1.0\r\n"), "{head}");
            }
        }
    }

    #[test]
    fn each_field_is_an_argument_of_its_own() {
        let plan = Plan::shipped();
        let cell = Cell::all(&plan)[1];
        let mut words = Words::new();
        for word in ["connections", "seconds", "csv", "address", "target"] {
            words.set(word, "x");
        }
        let line = cell.command(&words).unwrap().join("|");
        assert!(
            line.contains("|-H|Host: www.example.com|-H|Accept-Encoding: gzip|http://xx"),
            "{line}"
        );
    }
}
