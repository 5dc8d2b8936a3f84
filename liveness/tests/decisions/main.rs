//! Each decision of the crate against a naive model, its bounds and the hard cases it answers.

mod adaptive;
mod admission;
mod backoff;
mod beat;
mod cause;
mod deafness;
mod fence;
mod flapping;
mod given;
mod grounds;
mod histogram;
mod hold;
mod outage;
mod path;
mod policy;
mod preset;
mod retune;
mod rtt;
mod skew;
mod socket;
mod strain;
mod tuning;
mod twins;
mod verdict;
mod wheel;
