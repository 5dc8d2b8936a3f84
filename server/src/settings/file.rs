//! The TOML file as flat settings, each with its place.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::declaration::Setting;

/// Names less alike than this are not worth suggesting.
const ALIKE: f64 = 0.8;

/// A value from the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) place: Place,
}

/// Line and column in the file, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Something wrong in the file, at a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) place: Place,
    pub(super) text: String,
}

/// Reads `text`; every key must be one of `known`, every value a string, number or boolean.
pub(super) fn parse(text: &str, known: &[Setting]) -> Result<Vec<Entry>, Vec<Wrong>> {
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        vec![Wrong {
            place: place(text, at),
            text: error.message().to_owned(),
        }]
    })?;
    let mut reader = Reader {
        text,
        known,
        entries: Vec::new(),
        wrong: Vec::new(),
    };
    reader.table("", document.get_ref());
    reader
        .wrong
        .sort_by_key(|wrong| (wrong.place.line, wrong.place.column));
    if reader.wrong.is_empty() {
        Ok(reader.entries)
    } else {
        Err(reader.wrong)
    }
}

struct Reader<'a> {
    text: &'a str,
    known: &'a [Setting],
    entries: Vec<Entry>,
    wrong: Vec<Wrong>,
}

impl Reader<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let key = format!("{prefix}{}", name.get_ref());
            let span = name.span();
            let is_setting = self.known.iter().any(|setting| setting.key == key);
            let is_table = self.known.iter().any(|setting| {
                setting
                    .key
                    .strip_prefix(&key)
                    .is_some_and(|rest| rest.starts_with('.'))
            });
            match (is_setting, is_table, value.get_ref()) {
                (false, true, DeValue::Table(inner)) => self.table(&format!("{key}."), inner),
                (false, true, _) => {
                    self.say(
                        &span,
                        format!("`{key}` is a table; write [{key}] and its keys below"),
                    );
                }
                (true, _, value) => self.value(key, &span, value),
                (false, false, _) => self.unknown(&key, &span),
            }
        }
    }

    fn value(&mut self, key: String, span: &Range<usize>, value: &DeValue<'_>) {
        let value = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(truth) => truth.to_string(),
            DeValue::Integer(_) => {
                self.say(
                    span,
                    format!("`{key}` is not a decimal number; write it in base 10"),
                );
                return;
            }
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                self.say(span, format!("`{key}` takes one string, number or boolean"));
                return;
            }
        };
        let place = place(self.text, span.start);
        self.entries.push(Entry { key, value, place });
    }

    fn unknown(&mut self, key: &str, span: &Range<usize>) {
        let hint = match closest(key, self.known) {
            Some(close) => format!("did you mean `{close}`?"),
            None => "`fleetbeat-server example-config` prints all keys".into(),
        };
        self.say(span, format!("unknown key `{key}`; {hint}"));
    }

    fn say(&mut self, span: &Range<usize>, text: String) {
        self.wrong.push(Wrong {
            place: place(self.text, span.start),
            text,
        });
    }
}

/// The known key most like `key`, whole or by its last part in another table.
fn closest<'a>(key: &str, known: &'a [Setting]) -> Option<&'a str> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    known
        .iter()
        .map(|setting| {
            let whole = strsim::normalized_damerau_levenshtein(key, &setting.key);
            let end = strsim::normalized_damerau_levenshtein(&last(key), &last(&setting.key));
            // The right name in the wrong table is nearly as good as a slip in the whole.
            (setting.key.as_str(), whole.max(end - 0.1))
        })
        .filter(|(_, likeness)| *likeness >= ALIKE - 0.1)
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(key, _)| key)
}

fn place(text: &str, at: usize) -> Place {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Place {
        line: before.matches('\n').count() + 1,
        column: before[start..].chars().count() + 1,
    }
}
