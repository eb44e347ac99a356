//! Copies plugins and themes into WordPress and activates them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{TestkitError, WordPress, account, error::Context, process::run};

/// Copies each plugin (a folder or a PHP file) and each theme (a folder with `style.css`), activates all plugins, and the theme that no
/// other one names as its parent; returns the names and versions of what is active.
///
/// # Errors
/// [`TestkitError::Refused`] if WordPress does not activate one of them.
pub(super) fn install(wordpress: &WordPress, dir: &Path) -> Result<Vec<String>, TestkitError> {
    let mut themes = Vec::new();
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .context(format_args!("read {}", dir.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    entries.sort();
    for source in entries {
        let name = source.file_name().unwrap_or_default().to_owned();
        let is_theme = source.join("style.css").is_file();
        let folder = if is_theme { "themes" } else { "plugins" };
        let is_plugin = source.is_dir() || source.extension().is_some_and(|it| it == "php");
        if !is_theme && !is_plugin {
            continue;
        }
        copy(
            &source,
            &wordpress.root.join("wp-content").join(folder).join(&name),
        )?;
        if is_theme {
            themes.push(name.to_string_lossy().into_owned());
        }
    }
    activate_plugins(wordpress)?;
    let names: Vec<String> = themes.iter().map(|name| format!("'{name}'")).collect();
    wordpress.php(&ACTIVATE_THEME.replace("THEMES", &names.join(",")))?;
    // Some plugins finish their installation in the next request, and only then know their addresses.
    wordpress.php("")?;
    wordpress.php("flush_rewrite_rules();")?;
    let active = wordpress.php(LIST_ACTIVE)?;
    Ok(active.lines().map(str::to_owned).collect())
}

fn copy(source: &Path, target: &Path) -> Result<(), TestkitError> {
    let mut cp = Command::new("cp");
    cp.args(["-r", "--dereference", "--no-target-directory"]);
    run("cp", cp.arg(source).arg(target))?;
    account::web_user().map_or(Ok(()), |user| user.chown(target))
}

/// Each in a process of its own. A plugin that requires another one is tried again after that.
fn activate_plugins(wordpress: &WordPress) -> Result<(), TestkitError> {
    let listed = wordpress.php(LIST_INACTIVE)?;
    let mut waiting: Vec<String> = listed.lines().map(str::to_owned).collect();
    while !waiting.is_empty() {
        let mut refused = Vec::new();
        let mut errors = Vec::new();
        for file in &waiting {
            let result = wordpress.php(&ACTIVATE_PLUGIN.replace("FILE", file));
            let error = match result {
                Ok(output) if output.trim_end().ends_with("active") => continue,
                Ok(output) => output,
                Err(error) => error.to_string(),
            };
            errors.push(format!("`{file}` was not activated: {error}"));
            refused.push(file.clone());
        }
        if refused.len() == waiting.len() {
            return Err(TestkitError::Refused(errors.join("\n")));
        }
        waiting = refused;
    }
    Ok(())
}

const LIST_INACTIVE: &str = "require_once ABSPATH . 'wp-admin/includes/plugin.php'; \
     foreach ( array_keys( get_plugins() ) as $file ) { \
     if ( ! is_plugin_active( $file ) && ! in_array( $file, array( 'hello.php', 'akismet/akismet.php' ), true ) ) { echo $file, \"\\n\"; } }";
const ACTIVATE_PLUGIN: &str = "require_once ABSPATH . 'wp-admin/includes/plugin.php'; wp_set_current_user( 1 ); \
     $failed = activate_plugin( 'FILE' ); echo is_wp_error( $failed ) ? $failed->get_error_message() : 'active';";
const ACTIVATE_THEME: &str = "$themes = array( THEMES ); $parents = array(); \
     foreach ( $themes as $theme ) { $parents[] = wp_get_theme( $theme )->get( 'Template' ); } \
     foreach ( $themes as $theme ) { if ( ! in_array( $theme, $parents, true ) ) { switch_theme( $theme ); break; } }";
const LIST_ACTIVE: &str = "require_once ABSPATH . 'wp-admin/includes/plugin.php'; \
     foreach ( get_plugins() as $file => $plugin ) { if ( is_plugin_active( $file ) && 'galley/galley.php' !== $file ) { echo \"$plugin[Name] $plugin[Version]\\n\"; } } \
     echo 'theme ', wp_get_theme()->get( 'Name' ), ' ', wp_get_theme()->get( 'Version' ), \"\\n\";";
