//! The topics, one file each.

mod events;
mod flows;
mod load;
mod online;
mod page;
mod query;
mod vars;

pub use page::Page;

pub(super) use events::Events;
pub(super) use flows::Flows;
pub(super) use load::Load;
pub(super) use online::Online;
pub(super) use page::Shown;
pub(super) use query::{QuerySource, routes};
pub(super) use vars::{Seen, Viewer};
