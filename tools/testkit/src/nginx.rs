//! Runs a private nginx: one process, one listener on a free port of 127.0.0.1, and the caller's lines of the `http` block.
//!
//! It does not use the machine's nginx configuration. Tests compare the behavior of Galley with it.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    addresses,
    client::Request,
    error::{Context, TestkitError},
    process::{Service, StopMode},
    programs,
};

/// A running nginx.
#[derive(Debug)]
pub struct Nginx {
    _service: Service,
    port: u16,
    further: u16,
}

impl Nginx {
    /// Starts a server with these lines of the `http` block, and waits until it responds. In the lines, `{listen}` means its
    /// address, `{further}` a second address, and `{dir}` the directory `dir`.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if the package is not installed, [`TestkitError::Ended`] or [`TestkitError::Timeout`] with the
    /// log if it does not start.
    pub fn start(dir: &Path, http: &str) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("create {}", dir.display()))?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (port, further) = (addresses::free_port()?, addresses::free_port()?);
            let http = http.replace("{further}", &format!("127.0.0.1:{further}"));
            // Distinguishes our server from another process that may have taken the port first.
            let token = format!("{}-{port}-{attempts}", std::process::id());
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
                // Another process has taken the port.
                Err(TestkitError::Ended { log, .. }) if log.contains("bind()") && attempts < 5 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The name and version that the program prints, such as `nginx/1.22.1`.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if the package is not installed.
    pub fn version() -> Result<String, TestkitError> {
        let output = Command::new(programs::find(&["nginx"])?)
            .arg("-v")
            .stdin(Stdio::null())
            .output()
            .context("run nginx -v")?;
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        let version = output.split_once(": ").map_or("", |(_, version)| version);
        Ok(version.trim().to_owned())
    }

    /// The address of the listener.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The second address; nginx listens there only if the caller's lines use `{further}`.
    pub fn further_addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.further))
    }
}

fn launch(dir: &Path, file: &Path, port: u16, token: &str) -> Result<Service, TestkitError> {
    let mut command = Command::new(programs::find(&["nginx"])?);
    command.arg("-c").arg(file).arg("-p").arg(dir);
    let log = dir.join("nginx.log");
    let mut service = Service::spawn("nginx", &mut command, &log, StopMode::Terminate(TIMEOUT))?;
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    service.wait_until("nginx to respond", TIMEOUT, || {
        let response = Request::get("/").host("token.test").send(addr);
        response.is_ok_and(|response| response.text() == token)
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
