//! Each question compared with straightforward code over small worlds of events: ties of time, late events, links of
//! identity, clock changes, and chunks that end anywhere.

mod bounds;
mod cohort;
mod explore;
mod exposure;
mod filter;
mod funnel;
mod levels;
mod paths;
mod retention;
mod search;
mod world;
