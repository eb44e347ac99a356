//! Links out of the root: to the folders that the site names, and to no others.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use galley_files::{Options, Root};

use crate::site::{PHP, codings, resolved};

/// Folders as deployments leave them: `releases/1/web`, `shared`, and files that nobody may get.
fn deployment() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("releases/1/web/index.php", ""),
        ("releases/1/web/app/style.css", "style"),
        ("releases/1/.env", "secret"),
        ("shared/uploads/2026/a.jpg", "picture"),
        ("shared/uploads/2026/a.jpg.webp", "small"),
        ("shared/uploads/plugin.zip", "zip"),
        ("shared/uploads/evil.php", "<?php"),
        ("shared/uploads/.hidden", "hidden"),
        ("shared/uploads/wp-config.php.bak", "password"),
        ("shared/uploads/closed/.htaccess", "Deny from all"),
        ("shared/uploads/closed/a.txt", "closed"),
        ("shared/.env", "secret"),
        ("secret/a.txt", "secret"),
        ("uploads/a.txt", "another folder with the same name"),
    ] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn open(root: &Path, targets: &[PathBuf]) -> Root {
    let link_targets = targets.to_vec();
    Root::open(
        root,
        Options {
            link_targets,
            ..PHP
        },
    )
    .unwrap()
}

const FRONT: &str = "script /index.php";

#[test]
fn links_lead_to_the_named_folders_only() {
    let dir = deployment();
    let web = dir.path().join("releases/1/web");
    let uploads = dir.path().join("shared/uploads");
    symlink("../../../../shared/uploads", web.join("app/relative")).unwrap();
    symlink(&uploads, web.join("app/absolute")).unwrap();
    symlink(uploads.join("2026"), web.join("inner")).unwrap();
    symlink(
        dir.path().join("secret/../shared/uploads"),
        web.join("parents"),
    )
    .unwrap();
    symlink(dir.path().join("shared"), web.join("above")).unwrap();
    symlink("../../../secret", web.join("secret")).unwrap();
    symlink("../../../uploads", web.join("same-name")).unwrap();
    symlink("../.env", web.join("dot.txt")).unwrap();
    // Links in the named folder: back into the root, within the folder, and out of both.
    symlink(web.join("app/style.css"), uploads.join("back.css")).unwrap();
    symlink("2026/a.jpg", uploads.join("own.jpg")).unwrap();
    symlink("../.env", uploads.join("dot.txt")).unwrap();
    symlink("../../secret/a.txt", uploads.join("out.txt")).unwrap();
    let root = open(&web, std::slice::from_ref(&uploads));
    for link in ["app/relative", "app/absolute", "parents"] {
        for (name, expected) in [
            ("2026/a.jpg", "file picture"),
            ("own.jpg", "file picture"),
            ("back.css", "file style"),
            ("plugin.zip", "denied"),
            (".hidden", "denied"),
            ("wp-config.php.bak", "denied"),
            ("closed/a.txt", "denied"),
            ("dot.txt", "missing"),
            ("out.txt", "missing"),
            ("nothing.txt", FRONT),
        ] {
            let path = format!("/{link}/{name}");
            assert_eq!(resolved(&root, path.as_bytes()), expected, "{path}");
        }
    }
    for (path, expected) in [
        ("/inner/a.jpg", "file picture"),
        ("/above/uploads/2026/a.jpg", "missing"),
        ("/above/.env", "denied"),
        ("/secret/a.txt", "missing"),
        ("/same-name/a.txt", "missing"),
        ("/dot.txt", "missing"),
    ] {
        assert_eq!(resolved(&root, path.as_bytes()), expected, "{path}");
    }
    let closed = open(&web, &[]);
    for path in [
        "/app/relative/2026/a.jpg",
        "/app/absolute/2026/a.jpg",
        "/inner/a.jpg",
    ] {
        assert_eq!(resolved(&closed, path.as_bytes()), "missing", "{path}");
    }
}

#[test]
fn uploads_behind_a_link_are_uploads() {
    let dir = deployment();
    let web = dir.path().join("releases/1/web");
    let uploads = dir.path().join("shared/uploads");
    fs::create_dir(web.join("wp-content")).unwrap();
    symlink(&uploads, web.join("wp-content/uploads")).unwrap();
    // The configured path of a folder may have links itself.
    symlink(dir.path().join("shared"), dir.path().join("alias")).unwrap();
    for target in [uploads, dir.path().join("alias/uploads")] {
        let root = open(&web, &[target]);
        for (name, expected) in [
            ("plugin.zip", "file zip"),
            ("2026/a.jpg", "file picture"),
            ("evil.php", "denied"),
        ] {
            let path = format!("/wp-content/uploads/{name}");
            assert_eq!(resolved(&root, path.as_bytes()), expected, "{path}");
        }
        let found = root.resolve(b"/wp-content/uploads/2026/a.jpg");
        let galley_files::Resolved::File(asset) = found else {
            panic!("{found:?}");
        };
        assert_eq!(asset.siblings.len(), 1, "its WebP sibling");
        assert_eq!(
            asset
                .best(
                    codings(""),
                    galley_policy::images::AcceptedImages::default()
                )
                .length,
            7
        );
    }
}

#[test]
fn links_that_deployments_and_packages_leave_are_found() {
    let dir = deployment();
    let web = dir.path().join("releases/1/web");
    let base = fs::canonicalize(dir.path()).unwrap();
    fs::create_dir_all(web.join("wp-includes/js/crop")).unwrap();
    fs::create_dir_all(base.join("javascript/cropper")).unwrap();
    for name in ["cropper.js", "cropper.php"] {
        fs::write(base.join("javascript/cropper").join(name), "").unwrap();
    }
    symlink("../../../../shared/uploads", web.join("app/uploads")).unwrap();
    symlink(
        base.join("javascript/cropper/cropper.js"),
        web.join("wp-includes/js/crop/cropper.js"),
    )
    .unwrap();
    // Not for visitors, inside, or broken.
    symlink(base.join("secret/a.txt"), web.join("wp-config.php")).unwrap();
    symlink(base.join("shared/.env"), web.join(".env")).unwrap();
    symlink("app", web.join("inside")).unwrap();
    symlink("nowhere", web.join("broken")).unwrap();
    let found = galley_files::links_out_of(&web, &[]);
    let folders: Vec<&PathBuf> = found.keys().collect();
    assert_eq!(
        folders,
        [
            &base.join("javascript/cropper"),
            &base.join("shared/uploads")
        ]
    );
    assert_eq!(found[&base.join("shared/uploads")], web.join("app/uploads"));
    let rest = galley_files::links_out_of(&web, &[base.join("shared")]);
    assert_eq!(
        rest.into_keys().collect::<Vec<_>>(),
        [base.join("javascript/cropper")]
    );
}
