//! What breaks a protocol of PDUs, whichever it is.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use l5p::pdus::PduProtocol;

/// How a PDU breaks its protocol.
#[derive(Clone)]
pub struct PduError {
    protocol: &'static str,
    error: Arc<dyn AnyError>,
}

/// The error of a protocol, which can be compared.
trait AnyError: Error + Any + Send + Sync {
    fn is_equal(&self, other: &dyn Any) -> bool;
}

impl<E: Error + PartialEq + Send + Sync + 'static> AnyError for E {
    fn is_equal(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<E>() == Some(self)
    }
}

impl PduError {
    /// What is wrong by the rules of `P`.
    pub fn of<P: PduProtocol>(error: P::Error) -> PduError {
        PduError {
            protocol: P::NAME,
            error: Arc::new(error),
        }
    }

    /// The protocol's name.
    pub fn protocol(&self) -> &'static str {
        self.protocol
    }

    /// The error, if it is one of `P`.
    pub fn get<P: PduProtocol>(&self) -> Option<&P::Error> {
        let error: &dyn Any = &*self.error;
        error.downcast_ref()
    }
}

impl PartialEq for PduError {
    fn eq(&self, other: &PduError) -> bool {
        self.protocol == other.protocol && self.error.is_equal(&*other.error)
    }
}

impl Eq for PduError {}

impl fmt::Debug for PduError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl fmt::Display for PduError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl Error for PduError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
