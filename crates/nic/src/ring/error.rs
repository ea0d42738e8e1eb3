//! Why the device refused a descriptor.

/// The error of a completion. Each says what was wrong and what became of the packet: it was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum ErrorCode {
    /// No such descriptor, or a continuation where none belongs.
    #[error("no such descriptor")]
    BadOpcode = 1,
    /// Lengths that contradict each other, or are beyond a limit.
    #[error("the descriptor's lengths contradict each other or are beyond a limit")]
    BadLength = 2,
    /// A parameter that decodes to nothing.
    #[error("a parameter has no meaning")]
    BadParameters = 3,
    /// The device does not do this.
    #[error("this device does not do that")]
    Unsupported = 4,
    /// A region that is not registered, or a range that is not inside it.
    #[error("memory that is not registered")]
    BadMemory = 5,
    /// A read-only region where the device must write.
    #[error("memory that the device may not write to")]
    ReadOnlyMemory = 6,
    /// Packet headers that do not say what the descriptor asks for (TCP, a whole header).
    #[error("the packet's headers are not those of a TCP packet from this function")]
    BadHeader = 7,
    /// A packet larger than the MTU and not to be segmented.
    #[error("the packet is larger than the MTU")]
    TooLarge = 8,
    /// No context of this id and direction.
    #[error("there is no such context")]
    NoContext = 9,
    /// The id is in use.
    #[error("the context exists already")]
    ContextExists = 10,
    /// The id is not below the function's quota.
    #[error("the context is beyond the function's quota")]
    OverQuota = 11,
    /// The packet is of another flow than its context.
    #[error("the packet is of another flow than its context")]
    WrongFlow = 12,
    /// The packet does not begin where the context is: it needs a `RecoverContext` before it.
    #[error("the packet does not begin where its context is")]
    OutOfSequence = 13,
    /// The stream has no message header where one must be.
    #[error("there is no message header where one must be")]
    NotAHeader = 14,
    /// A `RecoverContext` whose message is not as it says.
    #[error("the message is not as the descriptor says")]
    BadMessage = 15,
    /// The source differs from what was sent first. Nothing was sent.
    #[error("the source has changed since it was first sent")]
    SourceChanged = 16,
    /// The source could not be read: a mapped file shrank.
    #[error("the source could not be read")]
    SourceFaulted = 17,
    /// Bytes of a source that may change were to be sent again without verification.
    #[error("a source that may change was to be sent again unverified")]
    Unverified = 18,
    /// The tag is mapped to a buffer.
    #[error("the tag is mapped to a buffer already")]
    TagMapped = 19,
    /// The tag is mapped to nothing.
    #[error("the tag is mapped to no buffer")]
    TagNotMapped = 20,
    /// The number is in use.
    #[error("a listening rule of this number, or for this address and port, exists already")]
    ListenerExists = 21,
    /// The number is not in use.
    #[error("there is no listening rule of this number")]
    NoListener = 22,
    /// The table of closing connections, of splices, or of listeners is full, or the function's share of it.
    #[error("the table has no room for more")]
    TableFull = 23,
    /// What is to be sent does not fit in the packet memory, or the function's share of it.
    #[error("the packet memory has no room for more")]
    NoPacketMemory = 24,
    /// The device owns this flow already.
    #[error("the device owns this flow already")]
    FlowExists = 25,
    /// The splice's number is in use.
    #[error("a splice of this number exists already")]
    SpliceExists = 26,
    /// The splice's number is not in use.
    #[error("there is no splice of this number")]
    NoSplice = 27,
    /// One leg's packets may be too large for the other.
    #[error("one connection's packets may be too large for the other")]
    SpliceMss = 28,
    /// One leg has timestamps, the other has not.
    #[error("one connection has timestamps, and the other has not")]
    SpliceOptions = 29,
    /// One leg is IPv4, the other IPv6.
    #[error("one connection is IPv4, the other IPv6")]
    SpliceFamilies = 30,
    /// The resource's number is in use.
    #[error("a resource of this number exists already")]
    ResourceExists = 31,
    /// The resource's number is not in use, or it is another protocol's.
    #[error("there is no resource of this number for this protocol")]
    NoResource = 32,
}

impl ErrorCode {
    /// The error of this number.
    pub fn from_byte(byte: u8) -> Option<ErrorCode> {
        use ErrorCode::*;
        [
            BadOpcode,
            BadLength,
            BadParameters,
            Unsupported,
            BadMemory,
            ReadOnlyMemory,
            BadHeader,
            TooLarge,
            NoContext,
            ContextExists,
            OverQuota,
            WrongFlow,
            OutOfSequence,
            NotAHeader,
            BadMessage,
            SourceChanged,
            SourceFaulted,
            Unverified,
            TagMapped,
            TagNotMapped,
            ListenerExists,
            NoListener,
            TableFull,
            NoPacketMemory,
            FlowExists,
            SpliceExists,
            NoSplice,
            SpliceMss,
            SpliceOptions,
            SpliceFamilies,
            ResourceExists,
            NoResource,
        ]
        .get(usize::from(byte).checked_sub(1)?)
        .copied()
    }
}
