//! Levels through the state machine: log entries in, responses and lists out, with restarts in between.

mod levels {
    mod limits;
    mod model;
    mod scenarios;
    mod speed;
    mod world;
}
