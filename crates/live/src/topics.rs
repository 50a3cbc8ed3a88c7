//! The sources of the topics, one file each.

mod alerts;
mod events;
mod flows;
mod load;
mod online;
mod page;
mod query;
mod vars;

pub use page::PageTopic;

pub(crate) use alerts::AlertsSource;
pub(crate) use events::EventsSource;
pub(crate) use flows::FlowsSource;
pub(crate) use load::LoadSource;
pub(crate) use online::OnlineSource;
pub(crate) use page::PageSource;
pub(crate) use query::{QuerySource, query_interests};
pub(crate) use vars::{PersonalVars, VarsSource};
