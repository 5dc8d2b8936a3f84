//! What is in force and where each value came from, as TOML that could be used again.

use std::path::Path;
use std::str::FromStr as _;

use super::DatabaseUrl;
use super::layers::InForce;

pub(super) fn render(file: Option<&Path>, in_force: &[InForce]) -> String {
    let mut text = match file {
        Some(path) => format!("# The configuration is valid; file: {}\n", path.display()),
        None => "# The configuration is valid; no file was read\n".to_owned(),
    };
    for entry in in_force {
        text.push_str(&line(entry));
        text.push('\n');
    }
    text
}

fn line(entry: &InForce) -> String {
    let key = &entry.setting.key;
    match &entry.value {
        Some(value) => {
            let shown = if entry.setting.secret {
                without_secret(value)
            } else {
                value.clone()
            };
            format!("{key} = {}  # {}", quoted(&shown), entry.origin)
        }
        None => format!("# {key} is not set"),
    }
}

fn without_secret(value: &str) -> String {
    DatabaseUrl::from_str(value).map_or_else(|_| "***".to_owned(), |url| url.to_string())
}

/// A TOML value: a bare number or boolean, else a string.
pub(super) fn quoted(value: &str) -> String {
    if value.parse::<i64>().is_ok() || matches!(value, "true" | "false") {
        value.to_owned()
    } else {
        toml::Value::String(value.to_owned()).to_string()
    }
}
