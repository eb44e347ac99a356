//! The PHP extensions that WordPress requires or recommends.
//!
//! The source is WordPress's own list: the handbook's "PHP Extensions" and the module test of Site Health
//! (`WP_Site_Health::get_test_php_extensions`). Names are those of `php -m` in lower case; bars separate alternatives.

/// Extensions that are not loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// WordPress does not run without these.
    pub needed: Vec<&'static str>,
    /// WordPress does less without these, and plugins take them for granted.
    pub wished: Vec<&'static str>,
}

/// The missing extensions; `has` says which names are loaded.
pub fn missing(has: impl Fn(&str) -> bool) -> Missing {
    let of = |all: &[&'static str]| -> Vec<&'static str> {
        let lacks = |names: &&str| !names.split('|').any(&has);
        all.iter().copied().filter(|names| lacks(names)).collect()
    };
    Missing {
        needed: of(NEEDED),
        wished: of(WISHED),
    }
}

/// Debian's packages of extensions as [`missing`] names them, with spaces between.
pub fn packages(names: &[&str]) -> String {
    let package = |names: &&str| {
        let name = names.split('|').next().unwrap_or(names);
        match name {
            "mysqli" => "php-mysql".to_owned(),
            "dom" => "php-xml".to_owned(),
            "imagick" => "php-gd".to_owned(),
            other => format!("php-{other}"),
        }
    };
    let all: Vec<String> = names.iter().map(package).collect();
    all.join(" ")
}

const NEEDED: &[&str] = &["json", "mysqli"];

const WISHED: &[&str] = &[
    "curl",
    "dom",
    "exif",
    "fileinfo",
    "imagick|gd",
    "intl",
    "mbstring",
    "openssl",
    "xml",
    "zip",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_how_to_get_it() {
        assert_eq!(missing(|_| true), Missing::default());
        let all = missing(|_| false);
        assert_eq!(
            (all.needed.as_slice(), all.wished.len()),
            (NEEDED, WISHED.len())
        );
        // One of two is enough.
        assert!(missing(|name| name != "imagick").wished.is_empty());
        assert_eq!(missing(|name| name != "zip").wished, ["zip"]);
        assert_eq!(
            packages(&["mysqli", "imagick|gd", "zip"]),
            "php-mysql php-gd php-zip"
        );
    }
}
