//! How the body of a request is taken. The route of each service says it.

/// How the body of a request is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// There is none: what comes is thrown away.
    None,
    /// Read to its end before the command is decoded.
    Whole {
        /// Bytes of it.
        bytes_max: usize,
    },
    /// Read piece by piece while the command is executed.
    Stream {
        /// Bytes of it.
        bytes_max: u64,
    },
}
