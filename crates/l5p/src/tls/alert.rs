//! Alerts (RFC 8446 §6).

use std::fmt;

/// How grave an alert says it is. In TLS 1.3 only the description counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertLevel {
    /// 1.
    Warning,
    /// 2.
    Fatal,
}

macro_rules! alerts {
    ($($(#[$doc:meta])* $name:ident = $value:literal $text:literal,)*) => {
        /// What an alert says.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Alert {
            $(
                #[doc = concat!("`", $text, "`.")]
                $name,
            )*
            /// One that we have no name for.
            Other(u8),
        }

        impl From<u8> for Alert {
            fn from(code: u8) -> Alert {
                match code {
                    $($value => Alert::$name,)*
                    other => Alert::Other(other),
                }
            }
        }

        impl From<Alert> for u8 {
            fn from(alert: Alert) -> u8 {
                match alert {
                    $(Alert::$name => $value,)*
                    Alert::Other(code) => code,
                }
            }
        }

        impl fmt::Display for Alert {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Alert::$name => f.write_str($text),)*
                    Alert::Other(code) => write!(f, "alert {code}"),
                }
            }
        }
    };
}

alerts! {
    CloseNotify = 0 "close_notify",
    UnexpectedMessage = 10 "unexpected_message",
    BadRecordMac = 20 "bad_record_mac",
    DecryptionFailed = 21 "decryption_failed",
    RecordOverflow = 22 "record_overflow",
    DecompressionFailure = 30 "decompression_failure",
    HandshakeFailure = 40 "handshake_failure",
    BadCertificate = 42 "bad_certificate",
    UnsupportedCertificate = 43 "unsupported_certificate",
    CertificateRevoked = 44 "certificate_revoked",
    CertificateExpired = 45 "certificate_expired",
    CertificateUnknown = 46 "certificate_unknown",
    IllegalParameter = 47 "illegal_parameter",
    UnknownCa = 48 "unknown_ca",
    AccessDenied = 49 "access_denied",
    DecodeError = 50 "decode_error",
    DecryptError = 51 "decrypt_error",
    ProtocolVersion = 70 "protocol_version",
    InsufficientSecurity = 71 "insufficient_security",
    InternalError = 80 "internal_error",
    InappropriateFallback = 86 "inappropriate_fallback",
    UserCanceled = 90 "user_canceled",
    NoRenegotiation = 100 "no_renegotiation",
    MissingExtension = 109 "missing_extension",
    UnsupportedExtension = 110 "unsupported_extension",
    UnrecognisedName = 112 "unrecognized_name",
    BadCertificateStatusResponse = 113 "bad_certificate_status_response",
    UnknownPskIdentity = 115 "unknown_psk_identity",
    CertificateRequired = 116 "certificate_required",
    NoApplicationProtocol = 120 "no_application_protocol",
}

impl Alert {
    /// The level that goes with it: closures and refusals to renegotiate are warnings, all else
    /// ends the connection (RFC 8446 §6, RFC 5246 §7.2).
    pub fn level(self) -> AlertLevel {
        match self {
            Alert::CloseNotify | Alert::UserCanceled | Alert::NoRenegotiation => {
                AlertLevel::Warning
            }
            _ => AlertLevel::Fatal,
        }
    }

    /// The content of the record that sends it.
    pub fn to_bytes(self) -> [u8; 2] {
        let level = match self.level() {
            AlertLevel::Warning => 1,
            AlertLevel::Fatal => 2,
        };
        [level, self.into()]
    }
}
