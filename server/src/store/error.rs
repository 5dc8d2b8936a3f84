use std::borrow::Cow;

use sqlx::error::DatabaseError;

/// Why something could not be done in Postgres.
#[derive(Debug, thiserror::Error)]
#[error("could not {doing}")]
pub struct Error {
    doing: &'static str,
    class: Class,
    #[source]
    source: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Sql(sqlx::Error),
    #[error("{0}")]
    Refused(String),
}

/// What an error means for whoever retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Postgres is away, starting, full, or a standby: the same again, later.
    Unreachable,
    /// The data itself is refused (SQLSTATE classes 22, 23 and 54): never the same again.
    BadRow,
    /// Somebody else was there first, or a cached plan is out of date: the same again, at once.
    Conflict,
    /// Schema, permission or configuration: a person has to act, and until then waiting is right.
    Fatal,
}

impl Error {
    /// An error while doing `doing`, a phrase that completes "could not …".
    pub(super) fn during(doing: &'static str) -> impl Fn(sqlx::Error) -> Self {
        move |source| Self {
            doing,
            class: classify(&source),
            source: Cause::Sql(source),
        }
    }

    /// Something that is not tried at all, and why.
    pub(super) fn refusing(doing: &'static str, why: String) -> Self {
        Self {
            doing,
            class: Class::Fatal,
            source: Cause::Refused(why),
        }
    }

    #[must_use]
    pub fn class(&self) -> Class {
        self.class
    }

    /// Nothing came back in time: whether it was done is unknown.
    #[must_use]
    pub fn no_answer(doing: &'static str) -> Self {
        Self::during(doing)(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))
    }

    /// The five-character SQLSTATE when Postgres itself answered.
    #[must_use]
    pub fn sqlstate(&self) -> Option<Cow<'_, str>> {
        self.database().and_then(DatabaseError::code)
    }

    /// A row belongs to a day that has no partition.
    #[must_use]
    pub fn is_missing_partition(&self) -> bool {
        self.database()
            .is_some_and(|e| e.code().as_deref() == Some("23514") && e.constraint().is_none())
    }

    fn database(&self) -> Option<&dyn DatabaseError> {
        match &self.source {
            Cause::Sql(source) => source.as_database_error(),
            Cause::Refused(_) => None,
        }
    }

    /// What went wrong in one line, with its cause.
    #[must_use]
    pub fn sentence(&self) -> String {
        if matches!(self.source, Cause::Sql(sqlx::Error::PoolTimedOut)) {
            return format!("{self}: Postgres refuses connections, is starting, or is too slow");
        }
        format!("{self}: {}", self.source)
    }
}

fn classify(error: &sqlx::Error) -> Class {
    if let Some(code) = error.as_database_error().and_then(DatabaseError::code) {
        return classify_code(&code);
    }
    let away = matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed
    );
    if away {
        Class::Unreachable
    } else {
        Class::Fatal
    }
}

/// By SQLSTATE only: messages are translated by servers in other languages.
pub(super) fn classify_code(code: &str) -> Class {
    match code {
        // Read-only (a standby or a full disk's guard), cancelled by a time-out, cut while idle.
        "25006" | "57014" | "25P03" | "25P04" | "57P01" | "57P02" | "57P03" | "57P05" => {
            Class::Unreachable
        }
        // Serialisation, deadlock, lock time-out, stale cached plan, statement of another backend.
        "40001" | "40P01" | "55P03" | "0A000" | "26000" | "42P05" => Class::Conflict,
        _ => match code.get(..2) {
            Some("08" | "53" | "58") => Class::Unreachable,
            Some("22" | "23" | "54") => Class::BadRow,
            _ => Class::Fatal,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart_by_what_a_retry_would_do() {
        let table = [
            ("08006", Class::Unreachable), // connection failure
            ("53300", Class::Unreachable), // too many connections
            ("53100", Class::Unreachable), // disk full
            ("57P01", Class::Unreachable), // shut down by the administrator
            ("57P03", Class::Unreachable), // starting up
            ("25006", Class::Unreachable), // standby
            ("22021", Class::BadRow),      // NUL byte
            ("23505", Class::BadRow),      // duplicate key
            ("54000", Class::BadRow),      // index row too large
            ("40P01", Class::Conflict),    // deadlock
            ("0A000", Class::Conflict),    // cached plan must not change result type
            ("42P01", Class::Fatal),       // no such table
            ("28P01", Class::Fatal),       // wrong password
            ("3D000", Class::Fatal),       // no such database
        ];
        for (code, class) in table {
            assert_eq!(classify_code(code), class, "{code}");
        }
    }
}
