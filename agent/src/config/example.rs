use std::fmt::Write as _;

use super::keys::KEYS;

const HEAD: &str = "\
# Configuration of fleetbeat-agent. Every line that starts with `#` and a key shows that key's form;
# take the `#` away to set it. A flag wins over its variable, a variable over this file.
# `fleetbeat-agent check-config --config FILE` checks a file without starting anything.
";

/// The documented example file.
#[must_use]
pub fn example() -> String {
    let mut text = HEAD.to_owned();
    for key in KEYS {
        text.push('\n');
        for line in key.meaning {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "# Flag {}, variable {}.", key.flag, key.variable);
        for line in key.example.lines() {
            let _ = writeln!(text, "#{line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{KEYS, example};
    use crate::config::file::File;

    /// The example with every key in force: lines that are `#` and no blank lose the `#`.
    fn uncommented() -> String {
        let bare = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
            _ => line.to_owned(),
        };
        example().lines().map(|line| bare(line) + "\n").collect()
    }

    #[test]
    fn the_example_in_the_repository_is_what_the_binary_prints() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../deploy/fleetbeat-agent.example.toml"
        );
        let shipped = std::fs::read_to_string(path).unwrap();
        assert_eq!(
            shipped,
            example(),
            "write it again: fleetbeat-agent example-config > deploy/fleetbeat-agent.example.toml"
        );
    }

    #[test]
    fn every_key_of_the_example_is_accepted() {
        let file = File::parse(Path::new("example.toml"), &uncommented()).unwrap();
        assert_eq!(file.group.as_deref(), Some("default"));
        assert_eq!(file.labels.len(), 2);
    }

    #[test]
    fn the_example_shows_every_key() {
        let table: toml::Table = uncommented().parse().unwrap();
        assert_eq!(table.len(), KEYS.len());
        assert!(KEYS.iter().all(|key| table.contains_key(key.name)));
    }
}
