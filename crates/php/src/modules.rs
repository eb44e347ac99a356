//! The modules that PHP would load, from `php-fpm -m`, which takes 30 ms and does not start a server.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use galley_policy::extensions;
use tokio::process::Command;

use super::{PhpStartError, binary};

/// One sentence for each kind of module that WordPress uses and the program lacks; empty if none is missing.
///
/// Errors: there is no program, or it does not report within five seconds.
pub async fn lacks(named: Option<&Path>) -> Result<Vec<String>, PhpStartError> {
    let program = match named {
        Some(program) => program.to_owned(),
        None => binary::find().ok_or(PhpStartError::NoBinary)?,
    };
    Ok(sentences(&modules(&program).await?))
}

async fn modules(program: &Path) -> Result<String, PhpStartError> {
    let failed = |source| PhpStartError::Spawn {
        program: PathBuf::from(program),
        source,
    };
    let output = Command::new(program)
        .arg("-m")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(TIMEOUT, output)
        .await
        .map_err(|_| failed(std::io::ErrorKind::TimedOut.into()))?
        .map_err(failed)?;
    if !output.status.success() {
        return Err(failed(std::io::Error::other(format!(
            "`-m` ended with {}",
            output.status
        ))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).to_lowercase())
}

/// `listed`: one name per line, in lower case.
fn sentences(listed: &str) -> Vec<String> {
    let has = |name: &str| listed.lines().any(|line| line.trim() == name);
    let missing = extensions::missing(has);
    let mut all = Vec::new();
    for (names, what) in [
        (&missing.needed, "WordPress does not run without it"),
        (&missing.wished, "WordPress has fewer functions without it"),
    ] {
        if !names.is_empty() {
            all.push(format!(
                "PHP has no {}, and {what}: apt install {}",
                names.join(", "),
                extensions::packages(names)
            ));
        }
    }
    if !has("zend opcache") {
        all.push(
            "PHP has no opcache and compiles all of WordPress for each page: apt install php-opcache, or phpenmod opcache"
                .to_owned(),
        );
    }
    all
}

const TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_modules_are_listed() {
        let all = "[php modules]\ncurl\ndom\nexif\nfileinfo\ngd\nintl\njson\nmbstring\nmysqli\nopenssl\nxml\nzip\n\n[zend modules]\nzend opcache\n";
        assert_eq!(sentences(all), Vec::<String>::new());
        let without = |name: &str| sentences(&all.replace(name, ""));
        assert!(without("mysqli\n")[0].contains("php-mysql"));
        assert!(without("gd\n")[0].contains("imagick|gd"));
        assert!(without("zend opcache\n")[0].contains("no opcache"));
        assert_eq!(sentences("").len(), 3);
    }

    #[tokio::test]
    async fn installed_php_reports_modules_and_other_programs_fail_with_their_name() {
        assert!(lacks(None).await.is_ok());
        for program in ["/nowhere/php-fpm", "/bin/false"] {
            let error = lacks(Some(Path::new(program))).await.unwrap_err();
            assert!(error.to_string().contains(program), "{error}");
        }
    }
}
