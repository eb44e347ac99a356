//! Apache: one file with the lines of all files, with other addresses and files. Files in document roots are read in place.

use crate::words::WordList;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use galley_files::{ApacheLine, apache_lines};

use crate::copy::builder::{CopyBuilder, CopyError};
use crate::copy::key::listen_key;
use crate::source::{MAX_FILES, MAX_LEVELS, Source};

/// The text of the copy.
pub(super) fn text(
    source: &dyn Source,
    main: &Path,
    builder: &mut CopyBuilder<'_>,
) -> Result<String, CopyError> {
    if main.file_name().is_some_and(|name| name == ".htaccess") {
        return Err(CopyError::NoMain(main.display().to_string()));
    }
    let mut copy = ApacheCopy {
        source,
        builder,
        root: main.parent().unwrap_or(Path::new("/")).to_owned(),
        left: MAX_FILES,
        body: String::new(),
        modules: None,
        has_remote_ip: false,
    };
    let lines = copy.lines(main, 0);
    copy.tls_hosts(&lines)?;
    for line in &lines {
        copy.line(line)?;
    }
    let head = copy.head();
    let body = copy.body;
    if builder.listeners.is_empty() {
        return Err(CopyError::NoServer(main.display().to_string()));
    }
    builder.change("logs, caches and files of processes are those of the test");
    Ok(head + &body)
}

struct ApacheCopy<'a, 'w> {
    source: &'a dyn Source,
    builder: &'a mut CopyBuilder<'w>,
    root: PathBuf,
    left: usize,
    body: String,
    /// The folder of modules.
    modules: Option<PathBuf>,
    has_remote_ip: bool,
}

impl ApacheCopy<'_, '_> {
    /// The lines of a file and of its includes.
    fn lines(&mut self, path: &Path, level: usize) -> Vec<ApacheLine> {
        self.left = self.left.saturating_sub(1);
        let text = self.source.text(path).unwrap_or_default();
        let mut lines = Vec::new();
        for line in apache_lines(&text) {
            let word = |at: usize| line.words.get(at).map_or("", String::as_str);
            match word(0) {
                "include" | "includeoptional" => {
                    let files = self.source.matching(&self.root.join(word(1)));
                    if level < MAX_LEVELS && self.left >= files.len() {
                        lines.extend(files.iter().flat_map(|file| self.lines(file, level + 1)));
                    }
                }
                "serverroot" => self.root = PathBuf::from(word(1)),
                "loadmodule" => {
                    self.has_remote_ip |= word(1) == "remoteip_module";
                    let file = self.root.join(word(2));
                    let folder = file.parent().map(Path::to_owned);
                    self.modules = self.modules.take().or(folder);
                    lines.push(line);
                }
                _ => lines.push(line),
            }
        }
        lines
    }

    /// Finds the virtual hosts with TLS, so that their addresses are marked as such.
    fn tls_hosts(&mut self, lines: &[ApacheLine]) -> Result<(), CopyError> {
        let mut addresses: Vec<String> = Vec::new();
        for line in lines {
            let words = &line.words;
            match words.first().map(String::as_str) {
                Some("<virtualhost") => addresses = words.iter().skip(1).cloned().collect(),
                Some("sslengine")
                    if words
                        .get(1)
                        .is_some_and(|word| word.eq_ignore_ascii_case("on")) =>
                {
                    for key in addresses
                        .iter()
                        .filter_map(|address| listen_key(address, "443"))
                    {
                        self.builder.port(port_of(&key), true)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &ApacheLine) -> Result<(), CopyError> {
        let words = &line.words;
        let name = words.first().map_or("", String::as_str);
        let argument = words.get(1).map_or("", String::as_str);
        match name {
            "listen" => {
                if let Some(key) = listen_key(argument, "80") {
                    let known = self
                        .builder
                        .listeners
                        .iter()
                        .filter(|one| one.port != 0)
                        .count();
                    let port = self.builder.port(port_of(&key), false)?;
                    let written = format!("Listen 127.0.0.1:{port}\n");
                    // Several addresses with the same port become one.
                    if known < self.builder.listeners.len() || !self.body.contains(&written) {
                        self.body.push_str(&written);
                    }
                }
            }
            "<virtualhost" => {
                self.body.push_str("<VirtualHost");
                for address in words.iter().skip(1) {
                    let key = listen_key(address, "80").unwrap_or_default();
                    let port = self.builder.port(port_of(&key), false)?;
                    let _ = write!(self.body, " *:{port}");
                }
                self.body.push_str(">\n");
            }
            "sslcertificatefile" | "sslcertificatekeyfile" => self.certificate(name),
            "sslverifyclient" => self
                .builder
                .change("certificates of visitors are not asked for"),
            "authuserfile" => {
                let path = self.root.join(argument);
                let path = if self.source.matching(&path).is_empty() {
                    path
                } else {
                    self.builder.password(&path)
                };
                let _ = writeln!(self.body, "AuthUserFile \"{}\"", path.display());
            }
            _ if LEFT_OUT.contains(name) => {}
            _ => {
                self.body.push_str(&line.text);
                self.body.push('\n');
            }
        }
        Ok(())
    }

    fn certificate(&mut self, name: &str) {
        let workspace = self.builder.workspace;
        let (directive, path) = if name == "sslcertificatefile" {
            ("SSLCertificateFile", &workspace.cert)
        } else {
            ("SSLCertificateKeyFile", &workspace.key)
        };
        let _ = writeln!(self.body, "{directive} \"{}\"", path.display());
        self.builder.change("the certificates are one of the test");
    }

    fn head(&mut self) -> String {
        let folder = self.builder.workspace.folder.display();
        let mut head = format!(
            "ServerRoot \"{}\"\nDefaultRuntimeDir \"{folder}\"\nPidFile \"{folder}/apache.pid\"\nErrorLog \"{folder}/error.log\"\n\
             ServerName localhost\n",
            self.root.display()
        );
        let module = self
            .modules
            .as_ref()
            .map(|folder| folder.join("mod_remoteip.so"));
        let module = module.filter(|path| !self.source.matching(path).is_empty());
        if let (false, Some(module)) = (self.has_remote_ip, module) {
            let _ = write!(
                head,
                "LoadModule remoteip_module \"{}\"\nRemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.0/8\n",
                module.display()
            );
            self.builder
                .change("a visitor's address is that of X-Forwarded-For");
        }
        head
    }
}

/// The port of a listener. Apache chooses a virtual host by its address first; in a copy all have the same one.
fn port_of(key: &str) -> &str {
    key.rsplit_once(':').map_or(key, |(_, port)| port)
}

/// Directives that write files of the original, or need its certificates.
const LEFT_OUT: WordList = WordList(
    "cacheroot coredumpdirectory customlog defaultruntimedir errorlog forensiclog globallog lockfile mutex namevirtualhost
    pidfile scoreboardfile sslcacertificatefile sslcacertificatepath sslcarevocationfile sslcertificatechainfile
    sslsessioncache sslstaplingcache sslusestapling transferlog",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::{CopyWorkspace, copy};
    use crate::imported::ServerKind;

    struct TwoFiles;

    impl Source for TwoFiles {
        fn text(&self, path: &Path) -> Option<String> {
            let text = match path.to_str()? {
                "/a/apache2.conf" => {
                    "Include ports.conf\nErrorLog /l\n<VirtualHost *:80>\n  Redirect / https://a/\n</VirtualHost>\n\
                     <VirtualHost *:443>\n SSLEngine on\n SSLCertificateFile /c\n Header set X-A \\\n \"a b\"\n\
                     AuthUserFile /p\n</VirtualHost>\n"
                }
                "/a/ports.conf" => "Listen 80\nListen 443\nListen [::]:80\n",
                _ => return None,
            };
            Some(text.to_owned())
        }

        fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
            let exists = self.text(pattern).is_some() || pattern == Path::new("/p");
            exists.then(|| pattern.to_owned()).into_iter().collect()
        }
    }

    #[test]
    fn only_addresses_and_files_are_changed() {
        let workspace = CopyWorkspace {
            folder: PathBuf::from("/t"),
            ports: vec![1001, 1002],
            cert: PathBuf::from("/t/c"),
            key: PathBuf::from("/t/k"),
        };
        let main = Path::new("/a/apache2.conf");
        let made = copy(&TwoFiles, ServerKind::Apache, main, &workspace).unwrap();
        for wanted in [
            "Listen 127.0.0.1:1002\nListen 127.0.0.1:1001\n",
            "<VirtualHost *:1002>\n  Redirect / https://a/\n</VirtualHost>\n<VirtualHost *:1001>\n SSLEngine on\n",
            "SSLCertificateFile \"/t/c\"\n Header set X-A  \"a b\"\nAuthUserFile \"/t/users-0\"\n</VirtualHost>\n",
        ] {
            assert!(
                made.text.contains(wanted),
                "{wanted} is not in\n{}",
                made.text
            );
        }
        assert_eq!(made.text.matches("Listen ").count(), 2, "{}", made.text);
        assert!(!made.text.contains("ErrorLog /l"));
        let keys: Vec<_> = made
            .listeners
            .iter()
            .map(|one| (one.key.as_str(), one.is_tls))
            .collect();
        assert_eq!(keys, [("443", true), ("80", false)]);
        let htaccess = copy(
            &TwoFiles,
            ServerKind::Apache,
            Path::new("/r/.htaccess"),
            &workspace,
        );
        assert!(matches!(htaccess, Err(CopyError::NoMain(_))));
    }
}
