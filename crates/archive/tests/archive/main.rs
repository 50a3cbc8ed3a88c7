//! The archive through its own interface, over the simulated disk and the real one.

mod archiving;
mod crashes;
mod damage;
mod erasure;
mod pages;
mod readers;
mod world;
