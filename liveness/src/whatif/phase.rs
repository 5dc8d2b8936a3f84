//! An outage begins at any moment of T.

/// The mean over o uniform on [`least`, `most`] of P(o + U(0, `interval`) ≥ `deadline`). All in seconds;
/// `interval` above 0 and at most `deadline`.
pub(super) fn mean_reach(least: f64, most: f64, interval: f64, deadline: f64) -> f64 {
    let share = if most > least {
        (integral(most, interval, deadline) - integral(least, interval, deadline)) / (most - least)
    } else {
        ((most - deadline + interval) / interval).clamp(0.0, 1.0)
    };
    share.clamp(0.0, 1.0)
}

/// ∫ from 0 to `o` of P(x + U(0, `interval`) ≥ `deadline`) dx: nothing up to D − T, a ramp up to D, then 1.
fn integral(o: f64, interval: f64, deadline: f64) -> f64 {
    let into_ramp = (o - (deadline - interval)).max(0.0);
    if o <= deadline {
        into_ramp * into_ramp / (2.0 * interval)
    } else {
        interval / 2.0 + (o - deadline)
    }
}
