//! The point from which a client resumes a subscription.

/// A point in the changes of one run of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumePoint {
    /// The value of [`crate::Live::epoch`] at that time.
    pub epoch: String,
    /// The number of the last change that the client received.
    pub number: u64,
}

impl ResumePoint {
    /// Parses `<epoch>.<number>`.
    pub fn parse(id: &str) -> Option<ResumePoint> {
        let (epoch, number) = id.rsplit_once('.')?;
        Some(ResumePoint { epoch: epoch.to_owned(), number: number.parse().ok()? })
    }
}
