//! The documented example file.

use std::fmt::Write as _;

use super::declaration::Setting;
use super::report::quoted;

const HEAD: &str = "\
# Configuration of fleetbeat-server. Every line that is commented out shows the default, or an example
# where there is none. Flags win over the environment, the environment over this file. Check with
#   fleetbeat-server check-config --config <this file>
";

const WIDTH: usize = 98;

/// All settings with their documentation; keys of a table follow its header.
pub(super) fn render(settings: &[Setting]) -> String {
    let mut text = HEAD.to_owned();
    let mut table = "";
    for setting in settings {
        let (this_table, name) = setting.key.split_once('.').unwrap_or(("", &setting.key));
        if this_table != table {
            table = this_table;
            let _ = write!(text, "\n[{table}]\n");
        }
        text.push('\n');
        for paragraph in setting.doc.split("\n\n") {
            wrap(paragraph, &mut text);
        }
        let _ = writeln!(
            text,
            "# Flag --{}, environment {}",
            setting.flag, setting.env
        );
        let value = setting.default.as_ref().or(setting.example.as_ref());
        let _ = writeln!(
            text,
            "#{name} = {}",
            quoted(value.map_or("", String::as_str))
        );
    }
    text
}

fn wrap(paragraph: &str, text: &mut String) {
    let mut line = String::from("#");
    for word in paragraph.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            "#".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push_str(if paragraph.ends_with(['.', '?', '!']) {
        "\n"
    } else {
        ".\n"
    });
}
