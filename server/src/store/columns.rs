//! Rows turned into one array per column, for `UNNEST`; and numbers that fit Postgres.

use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_proto::v1::{Cause, CloseReason, Verdict};

/// One value of every row.
pub(super) fn column<'r, R, T>(rows: &'r [R], of: impl Fn(&'r R) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}

/// Postgres has no unsigned 64-bit integer; what does not fit is the largest that does.
pub(super) fn bigint(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn integer(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

pub(super) fn nanos(value: Duration) -> i64 {
    i64::try_from(value.as_nanos()).unwrap_or(i64::MAX)
}

/// The way back; what was written by [`bigint`] is never negative.
pub(super) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

pub(super) fn reason_code(reason: CloseReason) -> i16 {
    i16::try_from(reason as i32).unwrap_or(0)
}

pub(super) fn reason_of(code: Option<i16>) -> Option<CloseReason> {
    code.and_then(|code| CloseReason::try_from(i32::from(code)).ok())
}

pub(super) fn cause_code(cause: Cause) -> i16 {
    i16::try_from(cause as i32).unwrap_or(0)
}

pub(super) fn cause_of(code: Option<i16>) -> Option<Cause> {
    code.and_then(|code| Cause::try_from(i32::from(code)).ok())
}

pub(super) fn verdict_code(verdict: Verdict) -> i16 {
    i16::try_from(verdict as i32).unwrap_or(0)
}

pub(super) fn verdict_of(code: Option<i16>) -> Verdict {
    code.and_then(|code| Verdict::try_from(i32::from(code)).ok())
        .unwrap_or(Verdict::Unknown)
}

/// An array literal, for columns that hold one array per row: `UNNEST` would flatten arrays of arrays.
pub(super) fn array_literal(values: &[u64]) -> String {
    let values: Vec<String> = values.iter().map(|v| bigint(*v).to_string()).collect();
    format!("{{{}}}", values.join(","))
}

/// For the JSON of a rejected row.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn verdict_name<S: serde::Serializer>(v: &Verdict, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(v.as_str_name())
}

/// For the JSON of a rejected row.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn reason_name<S: serde::Serializer>(
    reason: &CloseReason,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.serialize_str(reason.as_str_name())
}

/// For the JSON of a rejected row.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn cause_name<S: serde::Serializer>(cause: &Cause, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(cause.as_str_name())
}

/// For the JSON of a rejected row.
pub(super) fn fence_text<S: serde::Serializer>(fence: &Fence, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(fence)
}

/// For the JSON of a rejected row.
#[expect(clippy::ref_option, reason = "serde passes references")]
pub(super) fn revised_text<S: serde::Serializer>(
    revised: &Option<Revised>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match revised {
        Some(revised) => to.collect_str(&format_args!("{}: {}", revised.revision, revised.tuning)),
        None => to.serialize_none(),
    }
}
