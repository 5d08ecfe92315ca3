//! Where random bits come from. Passed in, so that a simulated run replays from its seed.

/// A source of random bytes.
pub trait RandomSource: Send + Sync + 'static {
    /// Random bytes that nobody has seen before.
    fn bytes(&self) -> [u8; 8];
}
