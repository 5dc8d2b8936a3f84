//! `session_events`: changes of state, in the order of recording.

use fleetbeat_proto::v1::{CloseReason, Verdict};
use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row as _};
use time::OffsetDateTime;
use uuid::Uuid;

use super::batch::Row;
use super::columns::{bigint, column, reason_code, reason_of, unsigned, verdict_code, verdict_of};
use super::facts::Facts;
use super::statement::{query, scalar};
use super::{Error, Purpose, Store};

/// What an event tells, beside its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    SessionOpened,
    SessionClosed(#[serde(serialize_with = "super::columns::reason_name")] CloseReason),
    /// A Hello that was turned away.
    SessionRefused,
    VerdictChanged(#[serde(serialize_with = "super::columns::verdict_name")] Verdict),
    ConditionBegan,
    ConditionEnded,
    CauseSettled,
    /// The agent goes by another name.
    Renamed,
    /// An agent that left is not back by the time it told.
    Overdue,
    TuningAcked(u64),
    TuningRefused(u64),
    /// Stands for transitions that found no room while Postgres was away.
    HistoryIncomplete,
}

/// An event that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Happened {
    pub at: OffsetDateTime,
    pub agent_id: Uuid,
    pub session_id: Option<Uuid>,
    pub server_id: Uuid,
    pub kind: Kind,
    pub detail: String,
    pub facts: Option<Facts>,
}

/// An event as it stands in Postgres.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub event_id: u64,
    pub at: OffsetDateTime,
    pub agent_id: Uuid,
    /// As the agent is called and grouped today; empty when it is unknown.
    pub agent_name: String,
    pub group: String,
    pub session_id: Option<Uuid>,
    pub kind: String,
    pub close_reason: Option<CloseReason>,
    pub verdict: Option<Verdict>,
    pub revision: Option<u64>,
    pub detail: String,
    pub facts: Facts,
}

/// Whose events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    Agent(Uuid),
    Group(String),
}

impl Kind {
    /// As it is stored.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SessionOpened => "session_opened",
            Self::SessionClosed(_) => "session_closed",
            Self::SessionRefused => "session_refused",
            Self::VerdictChanged(_) => "verdict_changed",
            Self::ConditionBegan => "condition_began",
            Self::ConditionEnded => "condition_ended",
            Self::CauseSettled => "cause_settled",
            Self::Renamed => "renamed",
            Self::Overdue => "overdue",
            Self::TuningAcked(_) => "tuning_acked",
            Self::TuningRefused(_) => "tuning_refused",
            Self::HistoryIncomplete => "history_incomplete",
        }
    }

    const fn close_reason(self) -> Option<CloseReason> {
        if let Self::SessionClosed(reason) = self {
            Some(reason)
        } else {
            None
        }
    }

    const fn verdict(self) -> Option<Verdict> {
        if let Self::VerdictChanged(verdict) = self {
            Some(verdict)
        } else {
            None
        }
    }

    const fn revision(self) -> Option<u64> {
        if let Self::TuningAcked(revision) | Self::TuningRefused(revision) = self {
            Some(revision)
        } else {
            None
        }
    }
}

impl Row for Happened {
    const TABLE: &'static str = "session_events";

    /// Event ids follow the order of `rows`.
    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "INSERT INTO session_events (at, agent_id, session_id, server_id, kind, close_reason, \
                 verdict, revision, detail, facts) \
             SELECT at, agent_id, session_id, server_id, kind, close_reason, verdict, revision, \
                 detail, facts \
             FROM UNNEST($1::timestamptz[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], \
                 $6::smallint[], $7::smallint[], $8::bigint[], $9::text[], $10::jsonb[]) \
                 WITH ORDINALITY AS r (at, agent_id, session_id, server_id, kind, close_reason, \
                 verdict, revision, detail, facts, place) \
             ORDER BY place",
        )
        .bind(column(rows, |r| r.at))
        .bind(column(rows, |r| r.agent_id))
        .bind(column(rows, |r| r.session_id))
        .bind(column(rows, |r| r.server_id))
        .bind(column(rows, |r| r.kind.name()))
        .bind(column(rows, |r| r.kind.close_reason().map(reason_code)))
        .bind(column(rows, |r| r.kind.verdict().map(verdict_code)))
        .bind(column(rows, |r| r.kind.revision().map(bigint)))
        .bind(column(rows, |r| &r.detail))
        .bind(column(rows, |r| r.facts.as_ref().map(Json)))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

impl Store {
    /// The last `limit` events of `scope`, oldest first.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn recent_events(&self, scope: &Scope, limit: u32) -> Result<Vec<Event>, Error> {
        const DOING: &str = "read the recent events";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let query = match scope {
            Scope::All => query(
                "SELECT e.event_id, e.at, e.agent_id, a.name, a.group_name, e.session_id, e.kind, \
                     e.close_reason, e.verdict, e.revision, e.detail, e.facts \
                 FROM (SELECT * FROM session_events ORDER BY event_id DESC LIMIT $1) e \
                 LEFT JOIN agents a USING (agent_id) ORDER BY e.event_id DESC",
            ),
            Scope::Agent(_) => query(
                "SELECT e.event_id, e.at, e.agent_id, a.name, a.group_name, e.session_id, e.kind, \
                     e.close_reason, e.verdict, e.revision, e.detail, e.facts \
                 FROM session_events e LEFT JOIN agents a USING (agent_id) \
                 WHERE e.agent_id = $2 ORDER BY e.at DESC, e.event_id DESC LIMIT $1",
            ),
            Scope::Group(_) => query(
                "SELECT e.event_id, e.at, e.agent_id, a.name, a.group_name, e.session_id, e.kind, \
                     e.close_reason, e.verdict, e.revision, e.detail, e.facts \
                 FROM session_events e JOIN agents a USING (agent_id) \
                 WHERE a.group_name = $2 ORDER BY e.event_id DESC LIMIT $1",
            ),
        };
        let query = query.bind(i64::from(limit));
        let query = match scope {
            Scope::All => query,
            Scope::Agent(agent) => query.bind(agent),
            Scope::Group(group) => query.bind(group),
        };
        let rows = query
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::during(DOING))?;
        rows.iter()
            .rev()
            .map(event)
            .collect::<Result<_, _>>()
            .map_err(Error::during(DOING))
    }

    /// Up to `limit` events of `scope` recorded after `event_id`, oldest first. One recorder writes
    /// them in order, so a reader that goes on from the last id it saw misses none of them.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn events_after(
        &self,
        scope: &Scope,
        event_id: u64,
        limit: u32,
    ) -> Result<Vec<Event>, Error> {
        const DOING: &str = "read the events after one";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let query = match scope {
            Scope::All => query(
                "SELECT e.event_id, e.at, e.agent_id, a.name, a.group_name, e.session_id, e.kind, \
                     e.close_reason, e.verdict, e.revision, e.detail, e.facts \
                 FROM session_events e LEFT JOIN agents a USING (agent_id) \
                 WHERE e.event_id > $1 ORDER BY e.event_id LIMIT $2",
            ),
            Scope::Agent(_) => query(
                "SELECT e.event_id, e.at, e.agent_id, a.name, a.group_name, e.session_id, e.kind, \
                     e.close_reason, e.verdict, e.revision, e.detail, e.facts \
                 FROM session_events e LEFT JOIN agents a USING (agent_id) \
                 WHERE e.event_id > $1 AND e.agent_id = $3 ORDER BY e.event_id LIMIT $2",
            ),
            Scope::Group(_) => query(
                "SELECT e.event_id, e.at, e.agent_id, a.name, a.group_name, e.session_id, e.kind, \
                     e.close_reason, e.verdict, e.revision, e.detail, e.facts \
                 FROM session_events e JOIN agents a USING (agent_id) \
                 WHERE e.event_id > $1 AND a.group_name = $3 ORDER BY e.event_id LIMIT $2",
            ),
        };
        let query = query.bind(bigint(event_id)).bind(i64::from(limit));
        let query = match scope {
            Scope::All => query,
            Scope::Agent(agent) => query.bind(agent),
            Scope::Group(group) => query.bind(group),
        };
        let rows = query
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::during(DOING))?;
        rows.iter()
            .map(event)
            .collect::<Result<_, _>>()
            .map_err(Error::during(DOING))
    }

    /// The id of the newest event; 0 when there is none.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn newest_event(&self) -> Result<u64, Error> {
        const DOING: &str = "read the newest event";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let newest: Option<i64> = scalar("SELECT max(event_id) FROM session_events")
            .fetch_one(&mut *tx)
            .await
            .map_err(Error::during(DOING))?;
        Ok(newest.map_or(0, unsigned))
    }
}

fn event(row: &PgRow) -> Result<Event, sqlx::Error> {
    let verdict: Option<i16> = row.try_get("verdict")?;
    let revision: Option<i64> = row.try_get("revision")?;
    let name: Option<String> = row.try_get("name")?;
    let group: Option<String> = row.try_get("group_name")?;
    Ok(Event {
        event_id: unsigned(row.try_get("event_id")?),
        at: row.try_get("at")?,
        agent_id: row.try_get("agent_id")?,
        agent_name: name.unwrap_or_default(),
        group: group.unwrap_or_default(),
        session_id: row.try_get("session_id")?,
        kind: row.try_get("kind")?,
        close_reason: reason_of(row.try_get("close_reason")?),
        verdict: verdict.map(|code| verdict_of(Some(code))),
        revision: revision.map(unsigned),
        detail: row.try_get("detail")?,
        facts: Facts::read(row.try_get("facts")?),
    })
}
