//! An nginx of its own: one process, one listener on a free port of 127.0.0.1, the `http` block of the caller.
//!
//! Nothing of the machine's nginx is read or written. It stands for what people have today, so that tests can say where
//! Galley differs from it.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    client::Request,
    error::{Context, TestkitError},
    place,
    process::{Farewell, Service},
};

/// A running nginx.
#[derive(Debug)]
pub struct Nginx {
    _service: Service,
    port: u16,
    further: u16,
}

impl Nginx {
    /// Starts it with these lines of the `http` block, where `{listen}` stands for its address, `{further}` for another one and
    /// `{dir}` for `dir`. It answers when this returns.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without the package, [`TestkitError::Ended`] or [`TestkitError::Late`] with the log when it does not start.
    pub fn start(dir: &Path, http: &str) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
        let mut tries = 0;
        loop {
            tries += 1;
            let (port, further) = (place::free_port()?, place::free_port()?);
            let http = http.replace("{further}", &format!("127.0.0.1:{further}"));
            // Proves that it is ours which answers, should another process have taken the port at the same moment.
            let token = format!("{}-{port}-{tries}", std::process::id());
            let file = dir.join("nginx.conf");
            fs::write(&file, configuration(dir, port, &token, &http))
                .context("write nginx.conf")?;
            match launch(dir, &file, port, &token) {
                Ok(service) => {
                    return Ok(Self {
                        _service: service,
                        port,
                        further,
                    });
                }
                // Somebody else took the port meanwhile.
                Err(TestkitError::Ended { log, .. }) if log.contains("bind()") && tries < 5 => {}
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// What the program calls itself: `nginx/1.22.1`.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without the package.
    pub fn version() -> Result<String, TestkitError> {
        let said = Command::new(place::program(&["nginx"])?)
            .arg("-v")
            .stdin(Stdio::null())
            .output()
            .context("run nginx -v")?;
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        let version = said.split_once(": ").map_or("", |(_, version)| version);
        Ok(version.trim().to_owned())
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Where it listens, too, if its block says so.
    pub fn further_addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.further))
    }
}

fn launch(dir: &Path, file: &Path, port: u16, token: &str) -> Result<Service, TestkitError> {
    let mut command = Command::new(place::program(&["nginx"])?);
    command.arg("-c").arg(file).arg("-p").arg(dir);
    let log = dir.join("nginx.log");
    let mut service = Service::spawn("nginx", &mut command, &log, Farewell::Ask(TIMEOUT))?;
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    service.wait_until("nginx to answer", TIMEOUT, || {
        let asked = Request::get("/").host("token.test").send(addr);
        asked.is_ok_and(|answer| answer.text() == token)
    })?;
    Ok(service)
}

fn configuration(dir: &Path, port: u16, token: &str, http: &str) -> String {
    let dir = dir.display().to_string();
    let listen = format!("127.0.0.1:{port}");
    let http = http.replace("{listen}", &listen).replace("{dir}", &dir);
    format!(
        "daemon off;\nmaster_process off;\nerror_log stderr crit;\npid {dir}/nginx.pid;\nevents {{}}\nhttp {{\n\
         access_log off;\nclient_body_temp_path {dir}/bodies;\nproxy_temp_path {dir}/proxy;\nfastcgi_temp_path {dir}/fastcgi;\n\
         uwsgi_temp_path {dir}/uwsgi;\nscgi_temp_path {dir}/scgi;\n\
         server {{ listen {listen}; server_name token.test; location / {{ return 200 \"{token}\"; }} }}\n{http}\n}}\n"
    )
}

const TIMEOUT: Duration = Duration::from_secs(60);
