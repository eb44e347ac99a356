//! nginx: one file with the statements of all files, with other addresses and files.

use crate::words::WordList;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::copy::builder::{CopyBuilder, CopyError};
use crate::copy::key::listen_key;
use crate::directive::Directive;
use crate::report::Report;
use crate::source::Source;
use crate::tree::{self, Grammar};

/// The text of the copy.
pub(super) fn text(
    source: &dyn Source,
    main: &Path,
    builder: &mut CopyBuilder<'_>,
) -> Result<String, CopyError> {
    let statements = tree::read_whole(source, main, Grammar::Nginx, &mut Report::default());
    let mut copy = NginxCopy::new(
        source,
        main,
        builder,
        contains_statement(&statements, "real_ip_header"),
    );
    copy.head();
    if statements.iter().any(|one| one.name() == "http") {
        copy.block(&statements, 0)?;
    } else {
        copy.single_site(&statements)?;
    }
    let (out, is_empty) = (copy.out, copy.builder.listeners.is_empty());
    if is_empty {
        return Err(CopyError::NoServer(main.display().to_string()));
    }
    builder.change("processes, logs, caches and temporary files are those of the test");
    Ok(out)
}

struct NginxCopy<'a, 'w> {
    source: &'a dyn Source,
    builder: &'a mut CopyBuilder<'w>,
    folder: PathBuf,
    out: String,
    has_real_ip: bool,
}

impl<'a, 'w> NginxCopy<'a, 'w> {
    fn new(
        source: &'a dyn Source,
        main: &Path,
        builder: &'a mut CopyBuilder<'w>,
        has_real_ip: bool,
    ) -> Self {
        Self {
            source,
            builder,
            folder: main.parent().unwrap_or(Path::new("/")).to_owned(),
            out: String::new(),
            has_real_ip,
        }
    }

    fn head(&mut self) {
        let pid = quoted(&self.builder.file("nginx.pid"));
        let lock = quoted(&self.builder.file("nginx.lock"));
        let _ = write!(
            self.out,
            "daemon off;\nmaster_process on;\nworker_processes 1;\npid {pid};\nlock_file {lock};\nerror_log stderr error;\n\
             events {{ worker_connections 512; }}\n"
        );
    }

    /// Writes a file of `sites-enabled`, or the statements of one server.
    fn single_site(&mut self, all: &[Directive]) -> Result<(), CopyError> {
        self.out.push_str("http {\n");
        self.http();
        let types = self
            .folder
            .ancestors()
            .map(|folder| folder.join("mime.types"));
        if let Some(types) = types.flat_map(|path| self.source.matching(&path)).next() {
            let _ = writeln!(
                self.out,
                "include {};",
                quoted(&types.display().to_string())
            );
        }
        let is_server = all
            .iter()
            .any(|one| one.name() == "server" && one.block.is_some());
        if !is_server {
            self.out.push_str("server {\n");
            self.listen_default(all)?;
        }
        self.block(all, 1)?;
        self.out.push_str(if is_server { "}\n" } else { "}\n}\n" });
        Ok(())
    }

    /// Writes the statements in `http` that every copy has.
    fn http(&mut self) {
        self.out.push_str("access_log off;\n");
        for name in TEMPORARY.iter() {
            let path = quoted(&self.builder.file(name));
            let _ = writeln!(self.out, "{name} {path};");
        }
        if !self.has_real_ip {
            self.out
                .push_str("set_real_ip_from 127.0.0.0/8;\nreal_ip_header X-Forwarded-For;\n");
            self.builder
                .change("a visitor's address is that of X-Forwarded-For");
        }
    }

    fn block(&mut self, all: &[Directive], depth: usize) -> Result<(), CopyError> {
        let mut listened = Vec::new();
        for directive in all {
            match directive.name() {
                name if name.ends_with("_by_lua_block") => {
                    return Err(CopyError::Code(directive.origin.clone()));
                }
                "listen" => self.listen(directive, &mut listened)?,
                "http" => {
                    self.out.push_str("http {\n");
                    self.http();
                    self.block(directive.inner(), depth + 1)?;
                    self.out.push_str("}\n");
                }
                "server" if directive.block.is_some() => {
                    self.out.push_str("server {\n");
                    self.listen_default(directive.inner())?;
                    self.block(directive.inner(), depth + 1)?;
                    self.out.push_str("}\n");
                }
                // The entries of these blocks are not statements.
                "map" | "geo" | "types" | "split_clients" | "upstream" | "charset_map" => {
                    self.verbatim(directive);
                }
                _ => self.statement(directive, depth)?,
            }
        }
        Ok(())
    }

    /// Adds port 80, which is the default of nginx, to a server without `listen`.
    fn listen_default(&mut self, block: &[Directive]) -> Result<(), CopyError> {
        if !block.iter().any(|one| one.name() == "listen") {
            let port = self.builder.port("80", false)?;
            let _ = writeln!(self.out, "listen 127.0.0.1:{port};");
        }
        Ok(())
    }

    fn listen(&mut self, directive: &Directive, listened: &mut Vec<u16>) -> Result<(), CopyError> {
        let words = directive.arguments();
        let has = |word: &str| words.iter().any(|one| one == word);
        let Some(key) = listen_key(directive.argument(0), "80").filter(|_| !has("quic")) else {
            self.builder.change("unix sockets and HTTP/3 are left out");
            return Ok(());
        };
        let port = self.builder.port(&key, has("ssl"))?;
        // One of IPv4 and IPv6 is enough.
        if listened.contains(&port) {
            return Ok(());
        }
        listened.push(port);
        let kept = words.iter().map(String::as_str);
        let kept: Vec<&str> = kept.filter(|word| LISTEN_WORDS.contains(word)).collect();
        let _ = writeln!(self.out, "listen 127.0.0.1:{port} {};", kept.join(" "));
        Ok(())
    }

    fn statement(&mut self, directive: &Directive, depth: usize) -> Result<(), CopyError> {
        match directive.name() {
            name if depth == 0 && PROCESS.contains(name) => {}
            name if LEFT_OUT.contains(name) || TEMPORARY.contains(name) => {}
            "limit_req" | "limit_conn" | "limit_rate" => {
                self.builder.change("rate limits are left out");
            }
            "ssl_verify_client" => self
                .builder
                .change("certificates of visitors are not asked for"),
            name if name.starts_with("ssl_certificate") => self.certificate(name),
            name if name.ends_with("_cache_path") => {
                let path = self.builder.file(&format!("cache-{}", self.out.len()));
                self.with_argument(directive, &path);
            }
            "auth_basic_user_file" => {
                let path = self.folder.join(directive.argument(0));
                // If the file does not exist, nginx denies all requests, and so does the copy.
                let path = if self.source.matching(&path).is_empty() {
                    path
                } else {
                    self.builder.password(&path)
                };
                self.with_argument(directive, &path.display().to_string());
            }
            _ if directive.block.is_some() => {
                self.words(directive);
                self.out.push_str(" {\n");
                self.block(directive.inner(), depth + 1)?;
                self.out.push_str("}\n");
            }
            _ => self.verbatim(directive),
        }
        Ok(())
    }

    fn certificate(&mut self, name: &str) {
        let path = match name {
            "ssl_certificate" => &self.builder.workspace.cert,
            "ssl_certificate_key" => &self.builder.workspace.key,
            _ => return,
        };
        let _ = writeln!(self.out, "{name} {};", quoted(&path.display().to_string()));
        self.builder.change("the certificates are one of the test");
    }

    fn with_argument(&mut self, directive: &Directive, first: &str) {
        let _ = write!(self.out, "{} {}", directive.name(), quoted(first));
        for word in directive.arguments().iter().skip(1) {
            let _ = write!(self.out, " {}", quoted(word));
        }
        self.out.push_str(";\n");
    }

    fn verbatim(&mut self, directive: &Directive) {
        self.words(directive);
        if directive.block.is_none() {
            self.out.push_str(";\n");
            return;
        }
        self.out.push_str(" {\n");
        for inner in directive.inner() {
            self.verbatim(inner);
        }
        self.out.push_str("}\n");
    }

    fn words(&mut self, directive: &Directive) {
        for (at, word) in directive.words.iter().enumerate() {
            if at > 0 {
                self.out.push(' ');
            }
            self.out.push_str(&quoted(word));
        }
    }
}

fn contains_statement(all: &[Directive], name: &str) -> bool {
    all.iter()
        .any(|one| one.name() == name || contains_statement(one.inner(), name))
}

/// A word in nginx's syntax. A `\` stays in front of the next character.
fn quoted(word: &str) -> String {
    let is_special = |c: char| c.is_whitespace() || matches!(c, ';' | '{' | '}' | '"' | '\'');
    if !word.is_empty() && !word.contains(is_special) && !word.starts_with('#') {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    let mut is_escaped = false;
    for c in word.chars() {
        if c == '"' && !is_escaped {
            text.push('\\');
        }
        text.push(c);
        is_escaped = c == '\\' && !is_escaped;
    }
    text.push('"');
    text
}

/// The parameters of `listen` that are kept.
const LISTEN_WORDS: &[&str] = &["ssl", "http2", "default_server"];

/// Statements for the process.
const PROCESS: WordList = WordList(
    "daemon debug_points events lock_file mail master_process pid stream worker_cpu_affinity worker_priority worker_processes
    worker_rlimit_core worker_rlimit_nofile working_directory",
);

/// Statements that write files of the original, or need its certificates.
const LEFT_OUT: WordList = WordList(
    "access_log error_log ssl_client_certificate ssl_crl ssl_dhparam ssl_password_file ssl_session_ticket_key ssl_stapling
    ssl_stapling_file ssl_stapling_responder ssl_stapling_verify ssl_trusted_certificate",
);

const TEMPORARY: WordList = WordList(
    "client_body_temp_path fastcgi_temp_path proxy_temp_path scgi_temp_path uwsgi_temp_path",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::{CopyWorkspace, ServerCopy, copy};
    use crate::imported::ServerKind;

    struct OneFile(&'static str);

    impl Source for OneFile {
        fn text(&self, path: &Path) -> Option<String> {
            (path == Path::new("/n/nginx.conf")).then(|| self.0.to_owned())
        }

        fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
            let exists = pattern == Path::new("/n/htpasswd");
            exists.then(|| pattern.to_owned()).into_iter().collect()
        }
    }

    fn copied(text: &'static str) -> Result<ServerCopy, CopyError> {
        let workspace = CopyWorkspace {
            folder: PathBuf::from("/p"),
            ports: vec![1001, 1002],
            cert: PathBuf::from("/p/c"),
            key: PathBuf::from("/p/k"),
        };
        copy(
            &OneFile(text),
            ServerKind::Nginx,
            Path::new("/n/nginx.conf"),
            &workspace,
        )
    }

    #[test]
    fn addresses_and_files_are_replaced() {
        let made = copied(
            "user www; pid /run/nginx.pid; events {} http { include mime.types; map $a $b { default 'x y'; } access_log /l;\n\
             server { listen 80; listen [::]:80; server_name a; return 301 https://a$request_uri; }\n\
             server { listen 443 ssl http2; ssl_certificate /c; ssl_certificate_key /k; ssl_dhparam /d;\n\
             location ~ \"^/x{3}\\.php$\" { auth_basic 'a \"b\"'; auth_basic_user_file htpasswd; limit_req zone=a; } } }",
        )
        .unwrap();
        for wanted in [
            "user www;",
            "include /n/mime.types;",
            "default \"x y\";",
            "listen 127.0.0.1:1001 ;\nserver_name a;\nreturn 301 https://a$request_uri;",
            "listen 127.0.0.1:1002 ssl http2;\nssl_certificate /p/c;\nssl_certificate_key /p/k;\nlocation ~ \"^/x{3}\\.php$\" {",
            "auth_basic \"a \\\"b\\\"\";\nauth_basic_user_file /p/users-0;\n}",
        ] {
            assert!(
                made.text.contains(wanted),
                "{wanted} is not in\n{}",
                made.text
            );
        }
        assert_eq!(made.text.matches("listen ").count(), 2);
        assert!(!made.text.contains("/run/nginx.pid") && !made.text.contains("/l;"));
        assert_eq!(made.passwords, [Path::new("/n/htpasswd")]);
        assert!(made.changes.iter().any(|one| one.contains("rate limits")));
    }

    #[test]
    fn a_single_site_becomes_a_complete_file() {
        let made = copied("listen 8080; root /r;").unwrap();
        assert!(
            made.text.contains("http {")
                && made
                    .text
                    .contains("server {\nlisten 127.0.0.1:1001 ;\nroot /r;")
        );
        assert_eq!(copied("events {}"), copied("events {}"));
        assert!(matches!(copied("http { }"), Err(CopyError::NoServer(_))));
        let lua = "http { server { content_by_lua_block { x() } } }";
        assert!(matches!(copied(lua), Err(CopyError::Code(_))));
        let many = "http { server { listen 1; listen 2; listen 3; } }";
        assert_eq!(copied(many), Err(CopyError::Listeners(2)));
    }
}
