//! The PHP extensions that WordPress requires or recommends.
//!
//! The source is WordPress's own list: the handbook's "PHP Extensions" and the module test of Site Health
//! (`WP_Site_Health::get_test_php_extensions`). Names are those of `php -m` in lower case; bars separate alternatives.

/// The extensions that are not loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// The extensions that WordPress requires.
    pub needed: Vec<&'static str>,
    /// The extensions that WordPress recommends, and that plugins assume.
    pub wished: Vec<&'static str>,
}

/// The missing extensions. `has` returns whether an extension is loaded.
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

/// The Debian packages of extensions, which are named as by [`missing`], separated by spaces.
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
    let packages: Vec<String> = names.iter().map(package).collect();
    packages.join(" ")
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
    fn missing_extensions_and_their_packages_are_listed() {
        assert_eq!(missing(|_| true), Missing::default());
        let all = missing(|_| false);
        assert_eq!(
            (all.needed.as_slice(), all.wished.len()),
            (NEEDED, WISHED.len())
        );
        // One of two alternatives is sufficient.
        assert!(missing(|name| name != "imagick").wished.is_empty());
        assert_eq!(missing(|name| name != "zip").wished, ["zip"]);
        assert_eq!(
            packages(&["mysqli", "imagick|gd", "zip"]),
            "php-mysql php-gd php-zip"
        );
    }
}
