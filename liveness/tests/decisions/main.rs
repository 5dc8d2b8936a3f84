//! Each decision of the crate against a naive model, its bounds and the hard cases it answers.

mod adaptive;
mod admission;
mod backoff;
mod beat;
mod deafness;
mod fence;
mod given;
mod histogram;
mod hold;
mod policy;
mod preset;
mod retune;
mod rtt;
mod socket;
mod tuning;
mod verdict;
mod wheel;
