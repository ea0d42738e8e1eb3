//! Explicit congestion notification in IP headers (RFC 3168 §5).

/// The two low bits of the traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The transport takes no part.
    #[default]
    NotEct = 0,
    /// ECT(1), which experiments use.
    Ect1 = 1,
    /// ECT(0): the transport takes part.
    Ect0 = 2,
    /// Congestion was experienced on the way.
    Ce = 3,
}

impl Ecn {
    /// That of a traffic class.
    #[inline]
    #[must_use]
    pub const fn of(traffic_class: u8) -> Ecn {
        match traffic_class & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}
