//! Levels through the door of the state machine: entries of a log in, answers and lists out, with restarts in between.

mod levels {
    mod limits;
    mod model;
    mod scenes;
    mod speed;
    mod world;
}
