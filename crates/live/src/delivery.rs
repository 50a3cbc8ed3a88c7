//! How changes are delivered to a subscriber.

use std::sync::Arc;
use std::time::Duration;

use crate::documents::Step;

/// The default of [`DeliveryOptions::min_interval_ms`].
pub const MIN_INTERVAL_MS_DEFAULT: u32 = 250;
/// The maximum of [`DeliveryOptions::min_interval_ms`].
pub const MIN_INTERVAL_MS_MAX: u32 = 3_600_000;

/// Options of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryOptions {
    /// The shortest time between two deliveries, in milliseconds. 0: changes are delivered at once.
    pub min_interval_ms: u32,
}

impl Default for DeliveryOptions {
    fn default() -> DeliveryOptions {
        DeliveryOptions { min_interval_ms: MIN_INTERVAL_MS_DEFAULT }
    }
}

impl DeliveryOptions {
    pub(crate) fn interval(self) -> Duration {
        Duration::from_millis(self.min_interval_ms.min(MIN_INTERVAL_MS_MAX).into())
    }
}

/// The form in which a subscriber gets changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryForm {
    Messages,
    Documents,
}

/// Changes delivered to a subscription.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The number of the state after the step. A client resumes from it.
    pub offset: u64,
    /// The changes.
    pub step: Arc<Step>,
}
